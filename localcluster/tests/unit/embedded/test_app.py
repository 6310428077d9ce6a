"""A request over ASGI: whole, in pieces, too long, or cut in the middle."""

import asyncio
from random import Random
from typing import Any

import msgspec

from localcluster.embedded.apiserver.app import MAX_BODY_BYTES, App, Message
from localcluster.embedded.apiserver.watches import Watches
from tests.cases import cases
from tests.unit.embedded.api_server import ApiServer, config_map

PATH = "/api/v1/namespaces/ns/configmaps"
GONE: Message = {"type": "http.disconnect"}


def piece(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def sent(server: ApiServer, method: str, path: str, *messages: Message) -> list[Message]:
    """What is sent back when these messages come in."""
    app = App(server.routes, Watches(server.store, Random(1)), server.controllers)
    coming, answers = list(messages), list[Message]()

    async def receive() -> Message:
        return coming.pop(0)

    async def send(message: Message) -> None:
        answers.append(message)

    headers = [(b"content-type", b"application/json")]
    scope: Message = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": headers,
    }
    asyncio.run(app(scope, receive, send))
    return answers


def test_a_body_in_pieces_is_one_body() -> None:
    server, body = ApiServer(), msgspec.json.encode(config_map("c"))
    answers = sent(server, "POST", PATH, piece(body[:7], more=True), piece(body[7:]))
    assert answers[0]["status"] == 201
    assert "c" in server.names("configmaps")


@cases(
    "begun",
    {
        "nothing of the body has come": (),
        "a part of the body has come": (piece(b'{"preconditions":', more=True),),
        "what has come could be a whole body": (piece(b"{}", more=True),),
    },
)
def test_an_incomplete_request_is_not_executed(begun: tuple[Message, ...]) -> None:
    """Without its body a deletion would be one without preconditions."""
    server = ApiServer()
    server.create("configmaps", config_map("c"))
    assert sent(server, "DELETE", f"{PATH}/c", *begun, GONE) == []
    assert "c" in server.names("configmaps")


def test_a_body_that_is_too_long_is_not_kept_until_its_end() -> None:
    server = ApiServer()
    half = piece(b"x" * (MAX_BODY_BYTES // 2 + 1), more=True)
    answers = sent(server, "POST", PATH, half, half)
    response: Any = msgspec.json.decode(answers[1]["body"])
    assert (answers[0]["status"], response["reason"]) == (413, "RequestEntityTooLarge")
