"""Who is let in: the administrator's token, and those that were made here."""

import base64

import msgspec

from localcluster.embedded.apiserver.answers import Answer
from localcluster.embedded.apiserver.requests import Request
from localcluster.embedded.apiserver.routes import Routes
from localcluster.embedded.apiserver.tokens import Gate
from tests.unit.embedded.world import NS, World


def test_a_token_says_whose_it_is_and_how_long_it_lasts() -> None:
    code, answer = World().ask(
        "POST", f"{NS}/serviceaccounts/default/token", {"spec": {"expirationSeconds": 600}}
    )
    assert (code, answer["kind"], answer["status"]["expirationTimestamp"]) == (
        201,
        "TokenRequest",
        "2026-01-01T00:10:00Z",
    )
    assert answer["status"]["token"].count(".") == 2


def test_callers_show_the_secret_or_a_token_that_was_made_here() -> None:
    world, gate = World(), Gate(b"secret")
    token = gate.token_for(world.get("serviceaccounts", "default") or {}, {}, world.clock())[
        "status"
    ]["token"].encode()
    forged = Gate(b"another").token_for(
        world.get("serviceaccounts", "default") or {}, {}, world.clock()
    )
    strangers = (
        b"Basic " + base64.b64encode(b"admin:"),
        b"",
        b"Bearer ",
        b"Basic secret",
        b"Bearer Secret",
        b"Bearer " + token[:-1],
        b"Bearer a.b",
    )
    for authorization in (*strangers, b"Bearer " + forged["status"]["token"].encode()):
        assert not gate.admits(authorization, world.clock()), authorization
    for authorization in (
        b"Bearer secret",
        b"Bearer " + token,
        b"Basic " + base64.b64encode(b"admin:secret"),
    ):
        assert gate.admits(authorization, world.clock())
    world.clock.pass_seconds(3601)
    assert not gate.admits(b"Bearer " + token, world.clock())
    assert Gate().admits(b"", world.clock())


def test_who_is_not_let_in_is_told_so_and_may_ask_after_the_servers_health() -> None:
    world = World()
    routes = Routes(world.objects, "here", Gate(b"secret"))
    refused = routes.handle(Request("GET", f"{NS}/pods", {}))
    assert isinstance(refused, Answer)
    status = msgspec.json.decode(refused.body)
    assert (refused.code, status["reason"], status["message"]) == (
        401,
        "Unauthorized",
        "Unauthorized",
    )
    healthy = routes.handle(Request("GET", "/readyz", {}))
    assert isinstance(healthy, Answer)
    assert healthy.code == 200
    listed = routes.handle(Request("GET", f"{NS}/pods", {}, authorization=b"Bearer secret"))
    assert isinstance(listed, Answer)
    assert listed.code == 200


def test_everybody_may_do_everything() -> None:
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    code, answer = World().ask(
        "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review
    )
    assert (code, answer["status"]) == (201, {"allowed": True})
