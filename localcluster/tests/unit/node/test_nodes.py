"""A node that was given up while nobody could renew its Lease comes back."""

from typing import Any

from localcluster.node.api import ApiError
from localcluster.node.nodes import NodeRegistrar
from localcluster.specs import NodeSpec

_NODE = "/api/v1/nodes/n1"
_LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1"


class ApiServer:
    """One node and its Lease; ``answers`` false: nothing is read or written."""

    def __init__(self) -> None:
        self.answers = True
        self.node: dict[str, Any] = {}
        self.statuses = 0
        self.renewals = 0

    def get(self, path: str) -> dict[str, Any]:
        self._reach()
        assert path == _NODE
        return self.node

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._reach()
        self.node = {**body, **self.node}
        return body

    def merge(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._reach()
        self.renewals += path == _LEASE
        return body

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._reach()
        assert path == f"{_NODE}/status"
        self.statuses += 1
        self.node = {**self.node, **body}
        return self.node

    def give_up(self) -> None:
        for condition in self.node["status"]["conditions"]:
            condition["status"] = "Unknown"

    def ready(self) -> str:
        found: str = next(
            each["status"] for each in self.node["status"]["conditions"] if each["type"] == "Ready"
        )
        return found

    def _reach(self) -> None:
        if not self.answers:
            raise ApiError(0, "not reached")


def _registered() -> tuple[NodeRegistrar, ApiServer]:
    api = ApiServer()
    registrar = NodeRegistrar(api, (NodeSpec("n1", {"cpu": "4"}),), logs_port=1, lease_seconds=10.0)
    registrar.register_all()
    return registrar, api


def test_a_node_that_is_ready_only_renews_its_lease() -> None:
    registrar, api = _registered()
    registrar.keep_alive()
    assert (api.renewals, api.statuses) == (2, 1)


def test_a_node_that_was_given_up_says_again_that_it_is_ready() -> None:
    registrar, api = _registered()
    api.answers = False
    registrar.keep_alive()
    api.give_up()
    assert api.ready() == "Unknown"
    api.answers = True
    registrar.keep_alive()
    assert api.ready() == "True"
