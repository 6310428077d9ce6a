"""Container logs are fetched from the node agent; one that does not respond is an error."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable

import pytest
import trustme

from localcluster.embedded.apiserver.errors import StatusError
from localcluster.embedded.apiserver.logs import LogRequest, fetch
from tests.cases import cases

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def fetched(serve: Serve) -> bytes:
    """The whole log of such an agent, after the agent has seen the connection end."""
    ended = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await serve(reader, writer)
        assert await reader.read() == b""
        ended.set()
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        try:
            port = server.sockets[0].getsockname()[1]
            found = await fetch(LogRequest(port, "/containerLogs/ns/p/c"), timeout_seconds=0.5)
            return b"".join([piece async for piece in found.pieces])
        finally:
            await asyncio.wait_for(ended.wait(), 20)


def serving(*pieces: bytes) -> Serve:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()

    return serve


@cases(
    "pieces",
    {
        "in chunks": (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"3\r\none\r\n0\r\n\r\n",
        ),
        "cut within one": (
            b"HTTP/1.1 200 OK\r\nTransfer-Enc",
            b"oding: chunked\r\n\r\n3\r\none\r\nff",
        ),
    },
)
def test_a_log_is_passed_on(pieces: tuple[bytes, ...]) -> None:
    async def run() -> bytes:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await serving(*pieces)(reader, writer)
            writer.close()

        return await fetched(serve)

    assert asyncio.run(run()) == b"one"


@cases(
    ("pieces", "why"),
    {
        "nothing": ((), "no answer"),
        "half of a head": ((b"HTTP/1.1 200 OK\r\n",), "no answer"),
        "no head at all": ((b"x" * 70_000,), "limit"),
    },
)
def test_a_log_request_without_a_valid_response_is_an_error(
    pieces: tuple[bytes, ...], why: str
) -> None:
    with pytest.raises(
        StatusError, match=rf'Get "https://127.0.0.1:\d+/containerLogs/ns/p/c": .*{why}'
    ) as refused:
        asyncio.run(fetched(serving(*pieces)))
    assert refused.value.code == 500
