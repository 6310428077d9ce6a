"""Container logs: where a log is served, and the request to the node agent.

As in a real cluster: the status of the pod's node says on which port its agent serves, and the
agent's response is passed on piece by piece. The agent's certificate is not checked."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from localcluster.embedded.apiserver.errors import StatusError, bad_request, not_found
from localcluster.embedded.apiserver.kinds import NODES, PODS, Json
from localcluster.embedded.apiserver.objects import Objects
from localcluster.embedded.apiserver.wire import Target, flag
from localcluster.readiness import unverified_context

_FLAGS: Final = ("follow", "previous", "timestamps")
_VALUES: Final = ("sinceSeconds", "sinceTime", "tailLines", "limitBytes")
_PIECE_BYTES: Final = 65536
_CONNECT_SECONDS: Final = 5.0


@dataclass(frozen=True)
class LogRequest:
    """A log to fetch: from which port of loopback, at which path."""

    port: int
    path: str


@dataclass(frozen=True)
class LogResponse:
    """The agent's response. `pieces` of a followed log may never end."""

    code: int
    content_type: str
    pieces: AsyncGenerator[bytes, None]


def log_request(objects: Objects, target: Target, query: Mapping[str, str]) -> LogRequest | None:
    """Return where a pod's log is, None while it has no node. Raises StatusError."""
    pod = objects.get(Target(target.resource, target.namespace, target.name)).body
    container = _container(pod, query.get("container", ""))
    name = pod["spec"].get("nodeName")
    if not name:
        return None
    node = objects.store.find(NODES.store_key, ("", name))
    if node is None:
        raise not_found(PODS, name)  # the real server calls the node a pod here
    endpoints = (node.body.get("status") or {}).get("daemonEndpoints") or {}
    port = (endpoints.get("kubeletEndpoint") or {}).get("Port") or 0
    options = {key: query[key] for key in _VALUES if query.get(key)}
    options.update({key: "true" for key in _FLAGS if flag(query, key)})
    path = "/".join(quote(each, safe="") for each in (target.namespace, target.name, container))
    return LogRequest(port, f"/containerLogs/{path}?{urlencode(options)}")


def _container(pod: Json, asked: str) -> str:
    name, spec = pod["metadata"]["name"], pod["spec"]
    names = [each["name"] for each in spec["containers"]]
    every = [*names, *(each["name"] for each in spec.get("initContainers") or ())]
    if asked and asked not in every:
        raise bad_request(f"container {asked} is not valid for pod {name}")
    if not asked and len(names) > 1:
        choice = f"choose one of: [{' '.join(every)}]"
        raise bad_request(f"a container name must be specified for pod {name}, {choice}")
    return asked or str(names[0])


async def fetch(request: LogRequest, timeout_seconds: float = _CONNECT_SECONDS) -> LogResponse:
    """Ask the agent. Raises StatusError where it does not begin to respond in time."""
    async with _responding(request, timeout_seconds):
        tls = unverified_context()
        reader, writer = await asyncio.open_connection("127.0.0.1", request.port, ssl=tls)
    try:
        async with _responding(request, timeout_seconds):
            head = "Host: 127.0.0.1\r\nConnection: close\r\n\r\n"
            writer.write(f"GET {request.path} HTTP/1.1\r\n{head}".encode())
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except StatusError:
        writer.close()
        raise
    pairs = (line.partition(":") for line in lines[1:])
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    chunked = headers.get("transfer-encoding") == "chunked"
    content_type = headers.get("content-type", "text/plain")
    return LogResponse(int(lines[0].split()[1]), content_type, _pieces(reader, writer, chunked))


@asynccontextmanager
async def _responding(request: LogRequest, timeout_seconds: float) -> AsyncGenerator[None, None]:
    try:
        async with asyncio.timeout(timeout_seconds):
            yield
    except (OSError, TimeoutError, EOFError, asyncio.LimitOverrunError) as error:
        why = f'Get "https://127.0.0.1:{request.port}{request.path}": {str(error) or "no answer"}'
        raise StatusError(500, "InternalError", f"Internal error occurred: {why}") from None


async def _pieces(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, chunked: bool
) -> AsyncGenerator[bytes, None]:
    """Yield the body as it comes. An agent that ends within it ends the log."""
    try:
        with suppress(OSError, EOFError, ValueError):
            while piece := await (_chunk(reader) if chunked else reader.read(_PIECE_BYTES)):
                yield piece
    finally:
        writer.close()


async def _chunk(reader: asyncio.StreamReader) -> bytes:
    size = int((await reader.readuntil(b"\r\n")).strip(), 16)
    return (await reader.readexactly(size + 2))[:-2]
