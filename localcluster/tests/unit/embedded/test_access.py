"""Authentication: the administrator's token, and tokens that were issued here."""

import base64

import msgspec

from localcluster.embedded.apiserver.auth import Authenticator
from localcluster.embedded.apiserver.routes import Routes
from localcluster.embedded.apiserver.wire import Request, Response
from tests.unit.embedded.api_server import NS, ApiServer


def test_a_token_names_its_account_and_its_expiry() -> None:
    code, answer = ApiServer().request(
        "POST", f"{NS}/serviceaccounts/default/token", {"spec": {"expirationSeconds": 600}}
    )
    assert (code, answer["kind"], answer["status"]["expirationTimestamp"]) == (
        201,
        "TokenRequest",
        "2026-01-01T00:10:00Z",
    )
    assert answer["status"]["token"].count(".") == 2


def test_callers_authenticate_by_the_secret_or_an_issued_token() -> None:
    server, gate = ApiServer(), Authenticator(b"secret")
    token = gate.token_for(server.get("serviceaccounts", "default") or {}, {}, server.clock())[
        "status"
    ]["token"].encode()
    forged = Authenticator(b"another").token_for(
        server.get("serviceaccounts", "default") or {}, {}, server.clock()
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
        assert not gate.admits(authorization, server.clock()), authorization
    for authorization in (
        b"Bearer secret",
        b"Bearer " + token,
        b"Basic " + base64.b64encode(b"admin:secret"),
    ):
        assert gate.admits(authorization, server.clock())
    server.clock.pass_seconds(3601)
    assert not gate.admits(b"Bearer " + token, server.clock())
    assert Authenticator().admits(b"", server.clock())


def test_an_unauthenticated_caller_gets_401_and_may_read_the_health() -> None:
    server = ApiServer()
    routes = Routes(server.objects, "here", Authenticator(b"secret"))
    refused = routes.handle(Request("GET", f"{NS}/pods", {}))
    assert isinstance(refused, Response)
    status = msgspec.json.decode(refused.body)
    assert (refused.code, status["reason"], status["message"]) == (
        401,
        "Unauthorized",
        "Unauthorized",
    )
    healthy = routes.handle(Request("GET", "/readyz", {}))
    assert isinstance(healthy, Response)
    assert healthy.code == 200
    listed = routes.handle(Request("GET", f"{NS}/pods", {}, authorization=b"Bearer secret"))
    assert isinstance(listed, Response)
    assert listed.code == 200
