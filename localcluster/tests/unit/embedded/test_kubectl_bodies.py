"""What kubectl 1.32 sends: most of its commands write in protobuf, and `drain` evicts."""

import pytest

from tests.cases import cases
from tests.unit.embedded.api_server import NS, ApiServer, patched, pod

PROTOBUF = "application/vnd.kubernetes.protobuf"
EVICTION = b"k8s\0\n\x15\n\tpolicy/v1\x12\x08Eviction\x12\x09\n\x03\n\x01p\x12\x02\x08\x05"
DELETION = b"k8s\0\n\x13\n\x02v1\x12\rDeleteOptions\x12\x02\x08\x05"
GRACE_SECONDS = 5


def test_a_protobuf_body_is_read() -> None:
    labels = b"\n\x01a\x12\x01b"
    metadata = b"\n\x01n" + b"\x5a" + bytes([len(labels)]) + labels
    raw = b"\n" + bytes([len(metadata)]) + metadata
    body = b"k8s\0\n\x0f\n\x02v1\x12\tNamespace\x12" + bytes([len(raw)]) + raw
    code, created = ApiServer().request("POST", "/api/v1/namespaces", body, PROTOBUF)
    assert (code, created["metadata"]["name"]) == (201, "n")
    assert created["metadata"]["labels"]["a"] == "b"


def test_of_a_kind_that_is_read_as_json_only_the_command_is_said() -> None:
    body = b"k8s\0\n\x15\n\x07apps/v1\x12\nDeployment\x12\x00"
    path = "/apis/apps/v1/namespaces/ns/deployments"
    code, status = ApiServer().request("POST", path, body, PROTOBUF)
    assert (code, "--dry-run=client" in status["message"]) == (415, True)


@pytest.fixture
def server() -> ApiServer:
    """A ready pod on a node."""
    server = ApiServer()
    body = pod(nodeName="n", terminationGracePeriodSeconds=60)
    server.create("pods", {**body, "metadata": {"name": "p", "labels": {"a": "b"}}})
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}
    patched(server, "pods", "p", {"status": ready}, "status")
    return server


def grace_of(server: ApiServer) -> object:
    found = server.get("pods", "p")
    return found and found["metadata"].get("deletionGracePeriodSeconds")


@cases(
    ("method", "path", "body", "content"),
    {
        "an eviction": ("POST", f"{NS}/pods/p/eviction", EVICTION, PROTOBUF),
        "an eviction in JSON": (
            "POST",
            f"{NS}/pods/p/eviction",
            {"deleteOptions": {"gracePeriodSeconds": GRACE_SECONDS}},
            "application/json",
        ),
        "a deletion": ("DELETE", f"{NS}/pods/p", DELETION, PROTOBUF),
    },
)
def test_a_pod_goes_in_the_time_that_is_asked_for(
    server: ApiServer, method: str, path: str, body: object, content: str
) -> None:
    code, _ = server.request(method, path, body, content)
    assert (code in {200, 201}, grace_of(server)) == (True, GRACE_SECONDS)


@cases(
    ("budget", "code"),
    {
        "one has to stay": ({"minAvailable": 1}, 429),
        "a part has to stay": ({"minAvailable": "1%"}, 429),
        "none may go": ({"maxUnavailable": 0}, 429),
        "one may go": ({"maxUnavailable": 1}, 201),
    },
)
def test_a_disruption_budget_holds_an_eviction_up(
    server: ApiServer, budget: dict[str, object], code: int
) -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, **budget}
    server.create("poddisruptionbudgets", {"metadata": {"name": "b"}, "spec": spec})
    assert server.request("POST", f"{NS}/pods/p/eviction", EVICTION, PROTOBUF)[0] == code
    assert (grace_of(server) is None) == (code == 429)
