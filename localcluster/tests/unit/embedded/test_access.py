"""Authentication: by the administrator's token, which pods are given, too."""

import base64

import msgspec

from localcluster.embedded.apiserver.auth import Authenticator
from localcluster.embedded.apiserver.routes import Routes
from localcluster.embedded.apiserver.wire import Request, Response
from tests.unit.embedded.api_server import NS, ApiServer


def test_a_pods_token_admits_until_the_server_ends() -> None:
    server, gate = ApiServer(), Authenticator(b"secret")
    account = server.get("serviceaccounts", "default") or {}
    answer = gate.token_for(account, {"spec": {"expirationSeconds": 600}}, server.clock())
    assert answer["kind"] == "TokenRequest"
    assert answer["status"]["expirationTimestamp"] == "2026-01-01T00:10:00Z"
    assert gate.admits(b"Bearer " + answer["status"]["token"].encode())


def test_callers_without_the_token_are_strangers() -> None:
    gate = Authenticator(b"secret")
    basic = base64.b64encode(b"admin:")
    for stranger in (b"Basic " + basic, b"", b"Bearer ", b"Basic secret", b"Bearer Secret"):
        assert not gate.admits(stranger), stranger
    assert gate.admits(b"Basic " + base64.b64encode(b"admin:secret"))
    assert Authenticator().admits(b"")


def test_an_unauthenticated_caller_gets_401_and_may_read_the_health() -> None:
    routes = Routes(ApiServer().objects, "here", Authenticator(b"secret"))
    refused = routes.handle(Request("GET", f"{NS}/pods", {}))
    assert isinstance(refused, Response)
    assert (refused.code, msgspec.json.decode(refused.body)["reason"]) == (401, "Unauthorized")
    for request in (
        Request("GET", "/readyz", {}),
        Request("GET", f"{NS}/pods", {}, authorization=b"Bearer secret"),
    ):
        answer = routes.handle(request)
        assert isinstance(answer, Response)
        assert answer.code == 200
