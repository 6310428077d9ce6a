"""The ASGI application: a request is read whole, handled in one piece, and answered."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import aclosing, suppress
from typing import Any, Final, TypeAlias

from localcluster.embedded.apiserver.controllers import Controllers
from localcluster.embedded.apiserver.errors import StatusError
from localcluster.embedded.apiserver.logs import LogRequest, fetch
from localcluster.embedded.apiserver.routes import Outcome, Routes
from localcluster.embedded.apiserver.watches import Watches, WatchRequest
from localcluster.embedded.apiserver.wire import JSON, Request, Response, respond

_LOG = logging.getLogger(__name__)

DELAY_SECONDS: Final = 0.05
"""How long after a change the delayed controllers act. Until then clients see what they see of a
real cluster: dependents of an owner that is gone, a namespace that is being emptied."""

MAX_BODY_BYTES: Final = 3 * 1024 * 1024
"""The largest body of a request, as for the real server."""

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


class App:
    """Serves the routes over ASGI and lets the controllers act after each change."""

    def __init__(self, routes: Routes, watches: Watches, controllers: Controllers) -> None:
        self._routes = routes
        self._watches = watches
        self._controllers = controllers
        self._scheduled = False

    def close(self) -> None:
        """End the watches, which would go on: the server stops."""
        self._watches.close()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Handle one call of the ASGI interface."""
        if scope["type"] != "http":
            return
        try:
            body, headers = await _body(receive), dict(scope["headers"])
        except _DisconnectedError:
            return
        except StatusError as error:
            await _send_whole(send, respond(error.status, error.code))
            return
        request = Request.of(scope["method"], scope["path"], scope["query_string"], headers, body)
        outcome = self._handle(request)
        if not self._controllers.idle:
            self._schedule_controllers()
        if isinstance(outcome, Response):
            await _send_whole(send, outcome)
        elif isinstance(outcome, WatchRequest):
            await self._watch(outcome, receive, send)
        else:
            await _log(outcome, receive, send)

    def _handle(self, request: Request) -> Outcome:
        try:
            return self._routes.handle(request)
        except Exception as error:  # noqa: BLE001 - one bad request must not end the server
            _LOG.exception("%s %s failed", request.method, request.path)
            failed = StatusError(500, "InternalError", f"Internal error occurred: {error!r}")
            return respond(failed.status, 500)

    def _schedule_controllers(self) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(self._controllers.run_immediate)
        if not self._scheduled:
            self._scheduled = True
            loop.call_later(DELAY_SECONDS, self._run_all)

    def _run_all(self) -> None:
        self._scheduled = False
        self._controllers.run_all()

    async def _watch(self, request: WatchRequest, receive: Receive, send: Send) -> None:
        wakeup = asyncio.Event()
        left = asyncio.ensure_future(_disconnected(receive))
        left.add_done_callback(lambda _: wakeup.set())
        try:
            await _send_pieces(send, JSON, self._watches.events(request, left.done, wakeup))
        finally:
            left.cancel()


async def _log(request: LogRequest, receive: Receive, send: Send) -> None:
    try:
        log = await fetch(request)
    except StatusError as error:
        await _send_whole(send, respond(error.status, error.code))
        return
    if log.code != 200:
        text = b"".join([piece async for piece in log.pieces]).decode(errors="replace").strip()
        await _send_whole(send, respond(StatusError(log.code, "BadRequest", text).status, log.code))
        return
    sending = asyncio.ensure_future(_send_pieces(send, log.content_type, log.pieces))
    left = asyncio.ensure_future(_disconnected(receive))
    await asyncio.wait({sending, left}, return_when=asyncio.FIRST_COMPLETED)
    for task in (sending, left):
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class _DisconnectedError(Exception):
    """The client left before its request was complete."""


async def _body(receive: Receive) -> bytes:
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _DisconnectedError
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > MAX_BODY_BYTES:
            why = f"Request entity too large: limit is {MAX_BODY_BYTES}"
            raise StatusError(413, "RequestEntityTooLarge", why)
        if not message.get("more_body"):
            return b"".join(pieces)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_whole(send: Send, response: Response) -> None:
    headers = [
        (b"content-type", response.content_type.encode()),
        (b"content-length", str(len(response.body)).encode()),
    ]
    await send({"type": "http.response.start", "status": response.code, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})


async def _send_pieces(send: Send, content_type: str, pieces: AsyncGenerator[bytes, None]) -> None:
    headers = [(b"content-type", content_type.encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    # The client waits for the head, which goes out with the first piece.
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    async with aclosing(pieces):
        async for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
