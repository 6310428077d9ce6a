"""What the agent reads from and writes to the API server: tokens, claims, nodes, events."""

import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from localcluster.node.api import ApiError
from localcluster.node.environment import Unresolved
from localcluster.node.events import EventRecorder
from localcluster.node.nodes import NodeRegistrar, current_labels
from localcluster.node.objects import ClusterObjects, Remembered, TokenRequest, Tokens
from localcluster.node.probes import Threshold
from localcluster.specs import NodeSpec, Taint
from tests.unit.node.pods import pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REQUEST = TokenRequest("ns", "me", "p", "u1", "", 3600)


class Server:
    """Keeps every call; answers from `objects`, and refuses what `refused` names with that code."""

    def __init__(self, objects: Mapping[str, dict[str, Any]] | None = None, **refused: int) -> None:
        self.objects = dict(objects or {})
        self.refused = refused
        self.calls: list[tuple[str, str, Mapping[str, Any]]] = []
        self.enough = threading.Condition()

    def get(self, path: str) -> dict[str, Any]:
        if path not in self.objects:
            raise ApiError(404, "not found")
        return self.objects[path]

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        expires = (NOW + timedelta(seconds=3600)).isoformat()
        return self._call("create", path, body) or {
            "status": {"token": "t", "expirationTimestamp": expires}
        }

    def merge(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._call("merge", path, body)

    def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._call("patch", path, body)

    def _call(self, verb: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        with self.enough:
            self.calls.append((verb, path, body))
            self.enough.notify_all()
        if verb in self.refused:
            raise ApiError(self.refused[verb], "refused")
        return {}


def test_a_token_is_asked_for_once_and_renewed_after_four_fifths_of_its_life() -> None:
    server, seconds = Server(), [0.0]
    tokens = Tokens(server, clock=lambda: NOW + timedelta(seconds=seconds[0]))
    assert tokens.token(REQUEST) == "t"
    seconds[0] = 2879
    tokens.token(REQUEST)
    assert len(server.calls) == 1
    seconds[0] = 2881
    tokens.token(REQUEST)
    assert len(server.calls) == 2
    assert server.calls[0][1] == "/api/v1/namespaces/ns/serviceaccounts/me/token"


def test_the_tokens_of_a_pod_go_with_it() -> None:
    server = Server()
    tokens = Tokens(server, clock=lambda: NOW)
    tokens.token(REQUEST)
    tokens.forget("other")
    tokens.token(REQUEST)
    assert len(server.calls) == 1
    tokens.forget("u1")
    tokens.token(REQUEST)
    assert len(server.calls) == 2


def test_a_token_that_is_refused_is_a_sentence() -> None:
    with pytest.raises(Unresolved, match="no token for service account ns/me: refused"):
        Tokens(Server(create=403)).token(REQUEST)


CLAIM = "/api/v1/namespaces/ns/persistentvolumeclaims/c"


@pytest.mark.parametrize(
    ("objects", "sentence"),
    [
        pytest.param({}, 'persistentvolumeclaim "c" not found', id="no claim"),
        pytest.param({CLAIM: {"spec": {}}}, "is not bound", id="a claim without a volume"),
        pytest.param(
            {CLAIM: {"spec": {"volumeName": "v"}, "status": {"phase": "Pending"}}},
            "is not bound",
            id="pending",
        ),
        pytest.param(
            {CLAIM: {"spec": {"volumeName": "v"}, "status": {"phase": "Bound"}}},
            'persistentvolume "v" of claim "c" not found',
            id="a volume that is gone",
        ),
    ],
)
def test_a_claim_without_its_volume_is_a_sentence(
    objects: dict[str, dict[str, Any]], sentence: str
) -> None:
    with pytest.raises(Unresolved, match=sentence):
        ClusterObjects(Server(objects)).volume_of_claim("ns", "c")


def test_config_maps_and_secrets_are_bytes_by_key() -> None:
    objects = {
        "/api/v1/namespaces/ns/configmaps/c": {"data": {"a": "x"}, "binaryData": {"b": "AP8="}},
        "/api/v1/namespaces/ns/secrets/s": {"data": {"k": "c2VjcmV0"}},
    }
    source = ClusterObjects(Server(objects))
    assert source.values("configmap", "ns", "c") == {"a": b"x", "b": b"\x00\xff"}
    assert source.values("secret", "ns", "s") == {"k": b"secret"}
    assert source.values("secret", "ns", "no") is None


def test_a_round_reads_each_object_once() -> None:
    server = Server({"/api/v1/namespaces/ns/configmaps/c": {"data": {"a": "x"}}})
    remembered = Remembered(ClusterObjects(server))
    first = remembered.values("configmap", "ns", "c")
    server.objects.clear()
    assert remembered.values("configmap", "ns", "c") == first


NODE = NodeSpec(
    "n1", {"cpu": "4", "nvidia.com/gpu": "2"}, {"pool": "a"}, (Taint("k", "v", "NoExecute"),)
)


def test_a_node_is_registered_with_what_it_is_said_to_have() -> None:
    server = Server()
    NodeRegistrar(server, (NODE,), 4321, 10).register_all()
    (_, _, node), (_, path, status), *lease = server.calls
    assert node["spec"] == {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}
    assert node["metadata"]["labels"]["pool"] == "a"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "n1"
    assert path == "/api/v1/nodes/n1/status"
    assert status["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    assert status["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 4321}}
    assert status["status"]["addresses"] == [{"type": "InternalIP", "address": "127.0.0.1"}]
    assert [call[0] for call in lease] == ["merge"]


def test_a_node_that_is_there_already_is_taken_over() -> None:
    server = Server(create=409)
    NodeRegistrar(server, (NODE,), 4321, 10).register_all()
    assert [(verb, path) for verb, path, _ in server.calls[:3]] == [
        ("create", "/api/v1/nodes"),
        ("merge", "/api/v1/nodes/n1"),
        ("patch", "/api/v1/nodes/n1/status"),
    ]


def test_labels_are_read_from_the_node_or_else_from_its_specification() -> None:
    assert current_labels(
        Server({"/api/v1/nodes/n1": {"metadata": {"labels": {"x": "y"}}}}), NODE
    ) == {"x": "y"}
    assert current_labels(Server(), NODE)["pool"] == "a"


def test_a_lease_that_is_not_there_is_made() -> None:
    server = Server(merge=404)
    NodeRegistrar(server, (NODE,), 4321, 10).register_all()
    verb, path, body = server.calls[-1]
    assert (verb, path.rpartition("/")[2]) == ("create", "leases")
    assert body["spec"]["holderIdentity"] == "n1"


def test_leases_are_renewed_until_the_end_also_after_a_refusal() -> None:
    server = Server(merge=500)
    registrar = NodeRegistrar(server, (NODE,), 4321, 0.01)
    registrar.start()
    with server.enough:
        assert server.enough.wait_for(lambda: len(server.calls) >= 3, 30)
    registrar.stop()
    registrar.join(timeout=30)
    assert not registrar.is_alive()


def test_equal_events_are_counted_and_a_refused_one_stops_nothing() -> None:
    server = Server(create=403)
    recorder = EventRecorder(server)
    recorder.start()
    for _ in range(3):
        recorder.tell(pod(), "Warning", "BackOff", "again")
    recorder.tell(pod(), "Normal", "Started", "x")
    with server.enough:
        assert server.enough.wait_for(lambda: len(server.calls) >= 4, 30)
    assert [verb for verb, _, _ in server.calls] == ["create", "merge", "merge", "create"]
    assert [body["count"] for _, _, body in server.calls] == [1, 2, 3, 1]
    assert server.calls[0][2]["involvedObject"]["uid"] == "u1"


@pytest.mark.parametrize(
    ("results", "verdicts"),
    [
        pytest.param("++", "+", id="a verdict is told once"),
        pytest.param("---", "-", id="a failure needs two in a row"),
        pytest.param("-+-+", "+", id="single failures are overlooked"),
        pytest.param("+--+", "+-+", id="it turns and turns back"),
    ],
)
def test_thresholds(results: str, verdicts: str) -> None:
    threshold = Threshold(success=1, failure=2)
    turned = [each for each in results if threshold.count(healthy=each == "+")]
    assert "".join(turned) == verdicts
