"""One request as the HTTP server hands it over: whole, in pieces, too long, or cut in the
middle."""

import asyncio
from random import Random
from typing import Any

import msgspec
import pytest

from localcluster.embedded.apiserver.app import LARGEST_BYTES, App, Message
from localcluster.embedded.apiserver.watching import Watches
from tests.unit.embedded.world import World, config_map

PATH = "/api/v1/namespaces/ns/configmaps"
GONE: Message = {"type": "http.disconnect"}


def piece(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def sent(world: World, method: str, path: str, *messages: Message) -> list[Message]:
    """What is sent back when these messages come in."""
    app = App(world.routes, Watches(world.store, Random(1)), world.controllers)
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
    world, body = World(), msgspec.json.encode(config_map("c"))
    answers = sent(world, "POST", PATH, piece(body[:7], more=True), piece(body[7:]))
    assert answers[0]["status"] == 201
    assert "c" in world.names("configmaps")


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param((), id="nothing of the body has come"),
        pytest.param((piece(b'{"preconditions":', more=True),), id="a part of the body has come"),
        pytest.param((piece(b"{}", more=True),), id="what has come could be a whole body"),
    ],
)
def test_half_a_request_is_not_carried_out(begun: tuple[Message, ...]) -> None:
    """Without its body a deletion would be one without preconditions."""
    world = World()
    world.create("configmaps", config_map("c"))
    assert sent(world, "DELETE", f"{PATH}/c", *begun, GONE) == []
    assert "c" in world.names("configmaps")


def test_a_body_that_is_too_long_is_not_kept_until_its_end() -> None:
    world = World()
    half = piece(b"x" * (LARGEST_BYTES // 2 + 1), more=True)
    answers = sent(world, "POST", PATH, half, half)
    said: Any = msgspec.json.decode(answers[1]["body"])
    assert (answers[0]["status"], said["reason"]) == (413, "RequestEntityTooLarge")


def test_warnings_stand_in_the_head_of_the_answer() -> None:
    world = World()
    body = {
        "apiVersion": "test.io/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"sise": 1},
    }
    answers = sent(
        world, "POST", "/apis/test.io/v1/namespaces/ns/widgets", piece(msgspec.json.encode(body))
    )
    assert (b"warning", b'299 - "unknown field \\"spec.sise\\""') in answers[0]["headers"]
