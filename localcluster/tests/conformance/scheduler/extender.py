"""An extender that the test is: it remembers what it was asked, and answers as it is set to."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

from tests.conformance.api_calls import Json

Answer: TypeAlias = Json | list[Json] | str | int
"""JSON, a text that is none, or a status other than 200."""


@dataclass(frozen=True)
class Call:
    """One request."""

    verb: str
    body: Json
    content_type: str

    @property
    def pod(self) -> str:
        """The name of the pod that is asked about."""
        return str(self.body["Pod"]["metadata"]["name"])

    @property
    def names(self) -> list[str]:
        """The nodes on offer, in order of their names."""
        if self.body.get("NodeNameToMetaVictims"):
            return sorted(self.body["NodeNameToMetaVictims"])
        whole = (self.body["Nodes"] or {}).get("items") or ()
        return sorted(self.body["NodeNames"] or [node["metadata"]["name"] for node in whole])


def keep_all(body: Json) -> Answer:
    """Refuse nothing."""
    return {
        "NodeNames": body["NodeNames"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


def refuse_all(why: str) -> Callable[[Json], Answer]:
    """Refuse every node, with a reason, for good."""
    return lambda body: {
        "NodeNames": [],
        "FailedAndUnresolvableNodes": dict.fromkeys(body["NodeNames"] or (), why),
    }


def keep(*names: str) -> Callable[[Json], Answer]:
    """Keep these nodes alone of those on offer."""

    def answer(body: Json) -> Answer:
        offered: Sequence[str] = body["NodeNames"]
        others = {name: "another node is planned" for name in offered if name not in names}
        return {
            "NodeNames": [name for name in offered if name in names],
            "FailedAndUnresolvableNodes": others,
        }

    return answer


def no_scores(body: Json) -> Answer:
    """Score every node with 0."""
    return [{"Host": name, "Score": 0} for name in body["NodeNames"] or ()]


def allow_all(body: Json) -> Answer:
    """Let every victim on offer be preempted."""
    return {"NodeNameToMetaVictims": body["NodeNameToMetaVictims"]}


def always(answer: Answer) -> Callable[[Json], Answer]:
    """Answer so, whatever is asked."""
    return lambda _: answer


class Extender:
    """Serves on loopback; `filter`, `prioritize` and `preempt` are how it answers."""

    def __init__(self) -> None:
        self.filter: Callable[[Json], Answer] = keep_all
        self.prioritize: Callable[[Json], Answer] = no_scores
        self.preempt: Callable[[Json], Answer] = allow_all
        self.delay_seconds = 0.0
        self.calls: list[Call] = []
        extender = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                extender.calls.append(
                    Call(self.path.strip("/?"), body, self.headers["Content-Type"])
                )
                time.sleep(extender.delay_seconds)
                verbs = {"filter": extender.filter, "preempt": extender.preempt}
                verb = next((verbs[name] for name in verbs if name in self.path), None)
                self._send((verb or extender.prioritize)(body))

            def _send(self, answer: Answer) -> None:
                status = answer if isinstance(answer, int) else 200
                text = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)
                except OSError:
                    self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the base class names it so
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def reset(self) -> None:
        """Forget what was asked, and answer as at first."""
        self.filter, self.prioritize, self.preempt = keep_all, no_scores, allow_all
        self.delay_seconds = 0.0
        self.calls.clear()

    def asked(self, pod: str, verb: str = "filter") -> list[list[str]]:
        """The nodes on offer, call by call, for one pod."""
        return [call.names for call in list(self.calls) if (call.pod, call.verb) == (pod, verb)]

    @contextmanager
    def serving(self) -> Iterator["Extender"]:
        """Serve for the length of a `with` block."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join(5)
