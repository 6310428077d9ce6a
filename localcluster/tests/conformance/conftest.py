"""Two clusters for the same tests: the real control plane and the embedded one.

The real one is the judge: where the two differ, the embedded one is wrong. Neither has nodes; a
test creates the nodes that it needs, and acts as the kubelet of their pods.
"""

import secrets
from collections.abc import Iterator

import pytest
from kubernetes import client

from localcluster.binaries.modules import DEFAULT_OPERATOR
from localcluster.cluster import LocalCluster
from localcluster.testing.backends import EMBEDDED, REAL, start
from localcluster.testing.clusters import Shown
from tests.conformance.api_calls import ApiCalls


@pytest.fixture(scope="session", params=[pytest.param(REAL, marks=pytest.mark.e2e), EMBEDDED])
def backend(request: pytest.FixtureRequest, shown: Shown) -> Iterator[LocalCluster]:
    """The cluster under test, shared by all tests of the run; it has no nodes."""
    operators = {REAL: request.config.getoption("--training-operator"), EMBEDDED: DEFAULT_OPERATOR}
    with start(request.param, operators[request.param]) as cluster, shown(cluster):
        yield cluster


@pytest.fixture(scope="session")
def api(backend: LocalCluster) -> Iterator[ApiCalls]:
    """The official client's calls, as the administrator."""
    with backend.api_client() as api:
        yield ApiCalls(api)


@pytest.fixture
def namespace(api: ApiCalls) -> Iterator[str]:
    """A namespace of the test's own, in which pods can be made; it goes with all that is in it."""
    name = f"test-{secrets.token_hex(4)}"
    api.core.create_namespace({"metadata": {"name": name}})
    api.wait_until(
        lambda: api.read_or_none(lambda: api.core.read_namespaced_service_account("default", name)),
        "its account exists",
    )
    yield name
    api.delete_leftovers(name)
    api.core.delete_namespace(name, body=client.V1DeleteOptions(propagation_policy="Background"))
