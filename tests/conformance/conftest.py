"""Two clusters that every test of this folder meets in the same way: the real control plane, and the embedded one.

The real one is the judge: where the two differ, the embedded one is wrong. Neither has nodes of its own, so that a
test makes exactly the nodes that it needs, and is itself the kubelet of their pods.
"""

import secrets
from collections.abc import Generator, Iterator

import pytest
from kubernetes import client

from localcluster.binaries.locate import resolve
from localcluster.cluster import LocalCluster
from localcluster.errors import LocalClusterError
from localcluster.progress import Lines
from tests.conformance.asking import Asking
from tests.conformance.backends import EMBEDDED, REAL, start

_RUNNING = pytest.StashKey[list[LocalCluster]]()


def pytest_configure(config: pytest.Config) -> None:
    """Prepare where the fixture leaves what a failed test's report needs."""
    config.stash[_RUNNING] = []


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the real control plane before the first test begins: a build takes longer than a test may."""
    real = [item for item in session.items if f"[{REAL}" in item.nodeid]
    if real and not session.config.option.collectonly:
        try:
            resolve(None, Lines())
        except LocalClusterError as error:
            raise pytest.UsageError(f"no control plane to test on: {error}") from error


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the last events and log lines of the cluster, where a test failed."""
    report = yield
    if report.failed:
        for cluster in item.config.stash[_RUNNING]:
            report.sections.append((f"cluster {cluster.name}", cluster.diagnose()))
    return report


@pytest.fixture(scope="session", params=[pytest.param(REAL, marks=pytest.mark.e2e), EMBEDDED])
def backend(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """The cluster under test, shared by all tests of the run; it has no nodes."""
    with start(request.param) as cluster:
        request.config.stash[_RUNNING].append(cluster)
        yield cluster
        request.config.stash[_RUNNING].remove(cluster)


@pytest.fixture(scope="session")
def ask(backend: LocalCluster) -> Iterator[Asking]:
    """The official client's calls, as the administrator."""
    with backend.api_client() as api:
        yield Asking(api)


@pytest.fixture
def namespace(ask: Asking) -> Iterator[str]:
    """A namespace of the test's own, in which pods can be made; it goes with all that is in it."""
    name = f"test-{secrets.token_hex(4)}"
    ask.core.create_namespace({"metadata": {"name": name}})
    ask.until(
        lambda: ask.found(lambda: ask.core.read_namespaced_service_account("default", name)), "its account exists"
    )
    yield name
    ask.sweep(name)
    ask.core.delete_namespace(name, body=client.V1DeleteOptions(propagation_policy="Background"))
