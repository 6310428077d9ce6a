"""Logs: where a container's log is served, and the way there and back.

As the real server does: the pod's node says in its status on which port its agent serves, and the
answer of the agent is passed on piece by piece. The agent's certificate is not checked.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import quote, urlencode

from localcluster.embedded.apiserver.kinds import NODES, PODS, Json, Resource
from localcluster.embedded.apiserver.objects import Objects, Target
from localcluster.embedded.apiserver.options import flag, number
from localcluster.embedded.apiserver.refusals import (
    Refusal,
    bad_request,
    forbidden_field,
    invalid,
    invalid_value,
    not_found,
)

_PASSED_ON: Final = (
    "follow",
    "previous",
    "sinceSeconds",
    "sinceTime",
    "tailLines",
    "timestamps",
    "limitBytes",
)
_FLAGS: Final = ("follow", "previous", "timestamps")
_LEAST: Final = {"tailLines": 0, "sinceSeconds": 1, "limitBytes": 1}
_OPTIONS: Final = Resource("", "v1", "", "PodLogOptions")
_PIECE: Final = 65536
_CONNECT_SECONDS: Final = 5.0


@dataclass(frozen=True)
class LogRequest:
    """A log to fetch: from which port of loopback, at which path."""

    port: int
    path: str


@dataclass(frozen=True)
class LogAnswer:
    """What the agent answered. `pieces` end with the log, which may be never."""

    code: int
    content_type: str
    pieces: AsyncGenerator[bytes, None]


def log_request(objects: Objects, target: Target, query: Mapping[str, str]) -> LogRequest | None:
    """Return where a pod's log is; None while it has no node, which is an empty log. Raises
    Refusal."""
    pod = objects.get(Target(target.resource, target.namespace, target.name)).body
    _check_options(target.name, query)
    container = _container(pod, query.get("container", ""))
    node = pod["spec"].get("nodeName")
    if not node:
        return None
    stored = objects.store.find(NODES.store_key, ("", node))
    if stored is None:
        raise not_found(PODS, node)  # as the real server has it, which says that the node is a pod
    found = stored.body
    endpoints = (found.get("status") or {}).get("daemonEndpoints") or {}
    port = (endpoints.get("kubeletEndpoint") or {}).get("Port") or 0
    passed = {key: query[key] for key in _PASSED_ON if query.get(key) not in {None, "", "false"}}
    passed.update({key: "true" for key in _FLAGS if flag(query, key)})
    path = "/".join(quote(each, safe="") for each in (target.namespace, target.name, container))
    return LogRequest(port, f"/containerLogs/{path}?{urlencode(passed)}")


def _check_options(pod: str, query: Mapping[str, str]) -> None:
    """Refuse options that no log can be read by."""
    if query.get("sinceTime"):
        try:
            datetime.fromisoformat(query["sinceTime"])
        except ValueError:
            raise bad_request(
                f'parsing time "{query["sinceTime"]}": it is not as in 2006-01-02T15:04:05Z'
            ) from None
    problems = []
    for name, least in _LEAST.items():
        value = number(query, name)
        if value is not None and value < least:
            said = "must be greater than 0" if least else "must be greater than or equal to 0"
            problems.append(invalid_value(name, value, said))
    if query.get("sinceTime") and query.get("sinceSeconds"):
        problems.append(
            forbidden_field("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified")
        )
    if problems:
        raise invalid(_OPTIONS, pod, problems)


def _container(pod: Json, asked: str) -> str:
    name = pod["metadata"]["name"]
    main = [each["name"] for each in pod["spec"].get("containers") or ()]
    known = [*main, *(each["name"] for each in pod["spec"].get("initContainers") or ())]
    if asked and asked not in known:
        raise bad_request(f"container {asked} is not valid for pod {name}")
    if not asked and len(main) > 1:
        raise bad_request(
            f"a container name must be specified for pod {name}, choose one of: [{' '.join(main)}]"
            + (
                f" or one of the init containers: [{' '.join(known[len(main) :])}]"
                if len(known) > len(main)
                else ""
            )
        )
    return asked or main[0]


async def fetch(request: LogRequest, patience_seconds: float = _CONNECT_SECONDS) -> LogAnswer:
    """Ask the agent. Raises Refusal where it does not begin to answer in time."""
    said = f'Get "https://127.0.0.1:{request.port}{request.path}"'
    async with _refusing(said, patience_seconds):
        reader, writer = await asyncio.open_connection("127.0.0.1", request.port, ssl=_trusting())
    try:
        async with _refusing(said, patience_seconds):
            writer.write(
                f"GET {request.path} HTTP/1.1\r\n"
                "Host: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()
            )
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except Refusal:
        writer.close()
        raise
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in head[1:])
    }
    chunked = headers.get("transfer-encoding") == "chunked"
    pieces = _pieces(reader, writer, chunked)
    return LogAnswer(int(head[0].split()[1]), headers.get("content-type", "text/plain"), pieces)


@asynccontextmanager
async def _refusing(said: str, patience_seconds: float) -> AsyncGenerator[None, None]:
    """Turn an agent that does not answer in time into a refusal."""
    try:
        async with asyncio.timeout(patience_seconds):
            yield
    except (OSError, TimeoutError, EOFError, asyncio.LimitOverrunError) as error:
        why = f"Internal error occurred: {said}: {str(error) or 'no answer'}"
        raise Refusal(500, "InternalError", why) from None


async def _pieces(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, chunked: bool
) -> AsyncGenerator[bytes, None]:
    """Yield the body as it comes. An agent that ends in the middle ends the log."""
    try:
        with suppress(OSError, EOFError, ValueError):
            while piece := await (_chunk(reader) if chunked else reader.read(_PIECE)):
                yield piece
    finally:
        writer.close()


async def _chunk(reader: asyncio.StreamReader) -> bytes:
    size = int((await reader.readuntil(b"\r\n")).strip(), 16)
    return (await reader.readexactly(size + 2))[:-2]


def _trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
