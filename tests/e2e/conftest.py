"""The real control plane that end-to-end tests share, and what is said about it when a test fails."""

import secrets
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from localcluster.binaries.locate import resolve
from localcluster.cluster import LocalCluster
from localcluster.environments import framework_environments
from localcluster.errors import LocalClusterError
from localcluster.progress import Lines
from localcluster.specs import numbered_nodes

Shown: TypeAlias = Callable[[LocalCluster], AbstractContextManager[None]]

_ENVIRONMENTS = pytest.StashKey[Mapping[str, Path | str]]()
_CLUSTERS = pytest.StashKey[list[LocalCluster]]()


def pytest_configure(config: pytest.Config) -> None:
    """Prepare where fixtures leave what reports and other fixtures need."""
    config.stash[_ENVIRONMENTS] = {}
    config.stash[_CLUSTERS] = []


def pytest_sessionstart(session: pytest.Session) -> None:
    """Where several processes share the tests, build what they need before these begin, and show how that goes."""
    if session.config.pluginmanager.hasplugin("dsession") and not session.config.option.collectonly:
        _control_plane()
        framework_environments(Lines())


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what the collected tests need before the first begins: a build takes longer than a test may."""
    items = [item for item in session.items if item.get_closest_marker("e2e")]
    if not items or session.config.option.collectonly:
        return
    _control_plane()
    if any("frameworks" in getattr(item, "fixturenames", ()) for item in items):
        session.config.stash[_ENVIRONMENTS] = framework_environments(Lines())


def _control_plane() -> None:
    try:
        resolve(None, Lines())
    except LocalClusterError as error:
        raise pytest.UsageError(f"no control plane to test on: {error}") from error


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the last events and log lines of the clusters that run, where a test failed."""
    report = yield
    if report.failed:
        for cluster in item.config.stash[_CLUSTERS]:
            report.sections.append((f"cluster {cluster.name}", cluster.diagnose()))
    return report


@pytest.fixture(scope="session")
def shown(request: pytest.FixtureRequest) -> Shown:
    """Wrap a cluster of your own in this, and a failing test shows its events and logs."""
    clusters = request.config.stash[_CLUSTERS]

    @contextmanager
    def show(cluster: LocalCluster) -> Iterator[None]:
        clusters.append(cluster)
        try:
            yield
        finally:
            clusters.remove(cluster)

    return show


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, shown: Shown) -> Iterator[LocalCluster]:
    """A control plane with four equal nodes, shared by all tests of the run; use `namespace` for what you make."""
    stash = request.config.stash
    nodes = numbered_nodes(4, {"cpu": "4", "memory": "8Gi"})
    with LocalCluster("e2e", nodes, images=stash[_ENVIRONMENTS]) as running, shown(running):
        yield running


@pytest.fixture
def namespace(cluster: LocalCluster) -> Iterator[str]:
    """A namespace of the test's own on the shared cluster, removed afterwards with all that is in it."""
    name = f"test-{secrets.token_hex(4)}"
    cluster.kubectl("create", "namespace", name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def frameworks(request: pytest.FixtureRequest) -> Mapping[str, Path | str]:
    """The environments of the framework examples; where a test asks for them, the shared nodes have them too."""
    return request.config.stash[_ENVIRONMENTS]
