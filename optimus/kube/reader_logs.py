"""The end of a pod's log, read with the token of whoever asks for it, and nothing of this process.

The API server decides what the token may read. Connections of their own carry it: those of the
client library may present the autoscaler's client certificate, which would count before the token,
and follow its hooks for headers. What the log holds was written by anybody: it is cut, and what a
terminal or a browser could obey is taken out.
"""

import re
import time
from typing import Final, NamedTuple

import urllib3

from optimus.kube.client import AnonymousServer, path_of, path_segment
from optimus.kube.errors import KubeError, from_answer
from optimus.kube.pods import Pod

LAST_LINES: Final = 100
LIMIT_BYTES: Final = 1 << 16
LONGEST_LINE: Final = 2_000
"""Characters of one line: the last ones, since a progress bar overwrites what was before."""

_CONNECT_SECONDS: Final = 5.0
_READ_SECONDS: Final = 5.0
_MOST_ANSWER_SECONDS: Final = 10.0

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]{1,16384}=*", re.ASCII)
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?")
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)
"""Control characters, and those of Unicode that reorder or hide text."""

_SENTENCES: Final = {
    401: "the API server does not accept this token: it has expired, or is of another cluster",
    403: "this token may not read it: that needs the right to get pods/log in its namespace",
    404: "the pod is not there any more",
}


class LogEnd(NamedTuple):
    """The last lines of a log, or why there are none."""

    text: str = ""
    problem: str = ""


class ReaderLogs:
    """Reads logs with the readers' tokens; keeps none. Safe to use from several threads."""

    def __init__(self, server: AnonymousServer) -> None:
        self._server = server

    def read(self, pod: Pod, token: str, *, previous: bool) -> LogEnd:
        """The last lines of the container that trains; ``previous``: of that before its last
        restart."""
        if not _TOKEN.fullmatch(token):
            return LogEnd(problem="this is no token: it has characters that no token has")
        try:
            path = f"{path_of('', 'v1', 'pods', pod.namespace)}/{path_segment(pod.name)}/log"
        except KubeError as error:
            return LogEnd(problem=error.sentence)
        query = {"container": pod.log_container, "tailLines": str(LAST_LINES)}
        query |= {"limitBytes": str(LIMIT_BYTES)} | ({"previous": "true"} if previous else {})
        try:
            response = self._server.pool.request(
                "GET",
                f"{self._server.address}{path}",
                fields=query,
                headers={"Authorization": f"Bearer {token}", "Accept": "text/plain, */*"},
                timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS),
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError, ValueError):
            # The exception is not shown: it may hold the request.
            return LogEnd(problem="the API server did not answer")
        return _answered(response)


def _answered(response: urllib3.BaseHTTPResponse) -> LogEnd:
    try:
        body = _bounded(response)
    except (urllib3.exceptions.HTTPError, OSError, ValueError):
        return LogEnd(problem="the API server did not answer in time")
    finally:
        response.close()  # bytes may be left unread
    if response.status == 200:
        return LogEnd(harmless(body))
    known = _SENTENCES.get(response.status)
    refused = str(from_answer("read the log", response.status, body))
    return LogEnd(problem=known or harmless(refused.encode()).replace("\n", " "))


def _bounded(response: urllib3.BaseHTTPResponse) -> bytes:
    """The body up to the limit, which a server is not trusted to keep; a slow one is cut."""
    end = time.monotonic() + _MOST_ANSWER_SECONDS
    body = b""
    while len(body) < LIMIT_BYTES and time.monotonic() < end:
        part = response.read1(LIMIT_BYTES - len(body), decode_content=False)
        if not part:
            break
        body += part
    return body


def harmless(body: bytes) -> str:
    """The text of a log as a browser may show it: no escape sequences, no control characters, none
    that reorder text, no line that is longer than can be read."""
    text = _ESCAPES.sub("", body.decode("utf-8", "replace"))
    return "\n".join(_line(line) for line in text.split("\n")[-LAST_LINES - 1 :])


def _line(text: str) -> str:
    shown = text.rstrip("\r").rpartition("\r")[2]
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", shown[-LONGEST_LINE:])
