"""Two clusters for the same tests: the real control plane and the embedded one.

The real one is the judge: where the two differ, the embedded one is wrong. Neither has nodes; a
test acts as the kubelet of its pods."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from localcluster.api_calls import ApiCalls, object_path
from localcluster.binaries.modules import DEFAULT_OPERATOR
from localcluster.cluster import LocalCluster
from localcluster.testing.backends import EMBEDDED, REAL, start
from localcluster.testing.clusters import Shown
from localcluster.testing.waiting import wait_until
from optimus.kube.client import connect
from optimus.kube.errors import ErrorKind, KubeError

_PATIENCE_SECONDS: Final = 180


@dataclass(frozen=True)
class Api:
    """Calls in one namespace, by plural; a plural with a group and a version is a custom one."""

    calls: ApiCalls
    namespace: str

    def path(self, plural: str, name: str = "", subresource: str = "") -> str:
        """Return the path of a collection, an object or its subresource."""
        if "/" not in plural:
            return object_path(plural, self.namespace, name, subresource)
        version, _, plural = plural.rpartition("/")
        parts = ["/apis", version, "namespaces", self.namespace, plural, name, subresource]
        return "/".join(filter(None, parts)).replace("//", "/")

    def create(self, plural: str, body: dict[str, Any]) -> dict[str, Any]:
        return self.calls.create(self.path(plural), body)

    def get(self, plural: str, name: str) -> dict[str, Any]:
        return self.calls.get(self.path(plural, name))

    def find(self, plural: str, name: str) -> dict[str, Any] | None:
        try:
            return self.get(plural, name)
        except KubeError as error:
            if error.kind is ErrorKind.NOT_FOUND:
                return None
            raise

    def items(self, plural: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.calls.get(self.path(plural))["items"]
        return found


def eventually(look: Any, sentence: str) -> None:
    wait_until(look, sentence, _PATIENCE_SECONDS)


@pytest.fixture(scope="session", params=[pytest.param(REAL, marks=pytest.mark.e2e), EMBEDDED])
def backend(request: pytest.FixtureRequest, shown: Shown) -> Iterator[LocalCluster]:
    """The cluster under test, shared by all tests of the run; it has no nodes."""
    operators = {REAL: request.config.getoption("--training-operator"), EMBEDDED: DEFAULT_OPERATOR}
    with start(request.param, operators[request.param]) as cluster, shown(cluster):
        yield cluster


@pytest.fixture
def api(backend: LocalCluster) -> Iterator[Api]:
    """A namespace of the test's own, in which pods can be made; it goes with all that is in it."""
    calls = ApiCalls(connect(backend.kubeconfig, user_agent="test"))
    name = f"test-{secrets.token_hex(4)}"
    calls.create("/api/v1/namespaces", {"metadata": {"name": name}})
    api = Api(calls, name)
    eventually(lambda: api.find("serviceaccounts", "default"), "its account exists")
    yield api
    for each in api.items("pods"):
        pod = api.path("pods", each["metadata"]["name"])
        calls.patch(pod, {"metadata": {"finalizers": None}})
        calls.delete(pod, {"gracePeriodSeconds": 0})
    calls.delete(f"/api/v1/namespaces/{name}", {})


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """A pod that no scheduler looks at."""
    container = {"name": "main", "image": "image:1", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": "nobody", "containers": [container], **spec}
    head = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "a"}}}
    return {**head, "spec": spec}
