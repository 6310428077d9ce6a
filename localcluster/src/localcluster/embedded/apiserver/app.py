"""The server as an ASGI application: one request is read whole, handled in one piece, and
answered."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import aclosing, suppress
from typing import Any, Final, TypeAlias

import msgspec

from localcluster.embedded.apiserver.answers import Answer, answer
from localcluster.embedded.apiserver.controllers import Controllers
from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.logs import LogRequest, fetch
from localcluster.embedded.apiserver.refusals import Refusal, too_large
from localcluster.embedded.apiserver.requests import JSON, Request
from localcluster.embedded.apiserver.routes import Outcome, Routes
from localcluster.embedded.apiserver.watching import Waker, Watches, WatchRequest

_LOG = logging.getLogger(__name__)

LATE_SECONDS: Final = 0.05
"""How long after a change the slower controllers act. A caller sees what it would see of a real
cluster: an owner gone and what it owned still there, a namespace that is being emptied."""

LARGEST_BYTES: Final = 3 * 1024 * 1024
"""How long the body of a request may be, as for the real server."""

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


class App:
    """Speaks ASGI in front of the routes; lets the controllers act after each change."""

    def __init__(self, routes: Routes, watches: Watches, controllers: Controllers) -> None:
        self._routes = routes
        self._watches = watches
        self._controllers = controllers
        self._late = False

    def end(self) -> None:
        """End what would go on for ever: the server stops."""
        self._watches.end()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        try:
            body, headers = await _body(receive), dict(scope["headers"])
        except _CutShort:
            return
        except Refusal as refusal:
            await _send_whole(send, answer(refusal.status, refusal.code))
            return
        request = Request.of(scope["method"], scope["path"], scope["query_string"], headers, body)
        outcome = self._handle(request)
        if not self._controllers.quiet:
            self._settle_soon()
        if isinstance(outcome, Answer):
            await _send_whole(send, outcome)
        elif isinstance(outcome, WatchRequest):
            await self._watch(outcome, receive, send)
        else:
            await _log(outcome, receive, send)

    def _handle(self, request: Request) -> Outcome:
        try:
            return self._routes.handle(request)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer and the log the rest
            _LOG.exception("%s %s met an error of the server's own", request.method, request.path)
            said: Json = Refusal(500, "InternalError", f"Internal error occurred: {error!r}").status
            return answer(said, 500)

    def _settle_soon(self) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(self._controllers.settle)
        if not self._late:
            self._late = True
            loop.call_later(LATE_SECONDS, self._settle_late)

    def _settle_late(self) -> None:
        self._late = False
        self._controllers.settle_all()

    async def _watch(self, request: WatchRequest, receive: Receive, send: Send) -> None:
        waker = Waker()
        left = asyncio.ensure_future(_disconnected(receive))
        left.add_done_callback(lambda _: waker.wake())
        try:
            await _send_pieces(send, 200, JSON, self._watches.events(request, left.done, waker))
        finally:
            left.cancel()


async def _log(request: LogRequest, receive: Receive, send: Send) -> None:
    try:
        found = await fetch(request)
    except Refusal as refusal:
        await _send_whole(send, answer(refusal.status, refusal.code))
        return
    if found.code != 200:
        said = b"".join([piece async for piece in found.pieces]).decode(errors="replace").strip()
        await _send_whole(send, answer(Refusal(found.code, "BadRequest", said).status, found.code))
        return
    sending = asyncio.ensure_future(_send_pieces(send, 200, found.content_type, found.pieces))
    left = asyncio.ensure_future(_disconnected(receive))
    await asyncio.wait({sending, left}, return_when=asyncio.FIRST_COMPLETED)
    for task in (sending, left):
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class _CutShort(Exception):
    """The caller was gone before the whole request had come: half of one may ask for something
    else."""


async def _body(receive: Receive) -> bytes:
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _CutShort
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > LARGEST_BYTES:
            raise too_large(LARGEST_BYTES)
        if not message.get("more_body"):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_whole(send: Send, answer: Answer) -> None:
    headers = [
        (b"content-type", answer.content_type.encode()),
        (b"content-length", str(len(answer.body)).encode()),
        *((b"warning", b"299 - %b" % msgspec.json.encode(each)) for each in answer.warnings),
    ]
    await send({"type": "http.response.start", "status": answer.code, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


async def _send_pieces(
    send: Send, code: int, content_type: str, pieces: AsyncGenerator[bytes, None]
) -> None:
    headers = [(b"content-type", content_type.encode())]
    await send({"type": "http.response.start", "status": code, "headers": headers})
    await send(
        {"type": "http.response.body", "body": b"", "more_body": True}
    )  # the client waits for the head
    async with aclosing(pieces):
        async for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
