"""Nodes on the API server: registration, Leases, and a node that was marked Unknown."""

from localcluster.node.node_status import NodeRegistrar, current_labels
from localcluster.specs import NodeSpec, Taint
from optimus.kube.errors import ErrorKind
from tests.unit.node.fake_api import FakeApi

NODE = NodeSpec(
    "n1", {"cpu": "4", "nvidia.com/gpu": "2"}, {"pool": "a"}, (Taint("k", "v", "NoExecute"),)
)
PATH = "/api/v1/nodes/n1"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def registered(api: FakeApi, lease_seconds: float = 10.0) -> NodeRegistrar:
    """A registrar that has registered the node."""
    registrar = NodeRegistrar(api, (NODE,), 4321, lease_seconds)
    registrar.register_all()
    return registrar


def test_a_node_is_registered_with_the_capacity_of_its_spec() -> None:
    api = FakeApi()
    registered(api)
    (_, node), *_ = api.of("create")
    (path, status), (lease, _) = api.of("patch")
    assert node["spec"] == {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}
    assert node["metadata"]["labels"]["pool"] == "a"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "n1"
    assert path == f"{PATH}/status"
    assert status["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    assert status["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 4321}}
    assert status["status"]["addresses"] == [{"type": "InternalIP", "address": "127.0.0.1"}]
    assert lease == f"{LEASES}/n1"


def test_a_node_that_is_there_already_is_updated() -> None:
    api = FakeApi(failing={"create": ErrorKind.EXISTS})
    registered(api)
    assert [(verb, path) for verb, path, _ in api.writes[:3]] == [
        ("create", "/api/v1/nodes"),
        ("patch", PATH),
        ("patch", f"{PATH}/status"),
    ]


def test_labels_are_read_from_the_node_or_else_from_its_spec() -> None:
    assert current_labels(FakeApi({PATH: {"metadata": {"labels": {"x": "y"}}}}), NODE) == {"x": "y"}
    assert current_labels(FakeApi(), NODE)["pool"] == "a"


def test_a_lease_that_is_not_there_is_created() -> None:
    api = FakeApi()
    registrar = NodeRegistrar(api, (NODE,), 4321, 10)
    api.failing["patch"] = ErrorKind.NOT_FOUND
    registrar.keep_alive()
    ((path, body),) = api.of("create")
    assert (path, body["spec"]["holderIdentity"]) == (LEASES, "n1")


def test_leases_are_renewed_until_the_end_also_after_an_error() -> None:
    api = FakeApi()
    registrar = NodeRegistrar(api, (NODE,), 4321, 0.01)
    api.failing["patch"] = ErrorKind.TRANSIENT
    registrar.start()
    api.wait(lambda: len(api.of("patch")) >= 3)
    registrar.stop()
    registrar.join(timeout=30)
    assert not registrar.is_alive()


def statuses(api: FakeApi) -> int:
    """How often the node's status was written."""
    return [path for path, _ in api.of("patch")].count(f"{PATH}/status")


def test_a_node_that_is_ready_only_renews_its_lease() -> None:
    api = FakeApi()
    registered(api).keep_alive()
    assert (statuses(api), len(api.of("patch"))) == (1, 3)


def test_a_node_that_was_marked_unknown_writes_its_status_again() -> None:
    api = FakeApi()
    registrar = registered(api)
    for condition in api.objects[PATH]["status"]["conditions"]:
        condition["status"] = "Unknown"
    api.failing = {"get": ErrorKind.TRANSIENT, "patch": ErrorKind.TRANSIENT}
    registrar.keep_alive()
    api.failing = {}
    registrar.keep_alive()
    assert api.objects[PATH]["status"]["conditions"][0]["status"] == "True"
