"""The real control plane shared by end-to-end tests, and the framework environments."""

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from localcluster.environments import framework_environments
from localcluster.progress import PlainProgress
from localcluster.specs import numbered_nodes
from localcluster.testing.clusters import Shown, build_control_plane
from localcluster.testing.waiting import wait_until

__all__ = [
    "cluster",
    "frameworks",
    "namespace",
    "pytest_collection_finish",
    "pytest_configure",
    "pytest_sessionstart",
]

_ENVIRONMENTS = pytest.StashKey[Mapping[str, Path | str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Prepare where fixtures find what was built."""
    config.stash[_ENVIRONMENTS] = {}


def pytest_sessionstart(session: pytest.Session) -> None:
    """Build what parallel processes need before they begin."""
    if session.config.pluginmanager.hasplugin("dsession") and not session.config.option.collectonly:
        build_control_plane()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the environments before the first test: it takes longer than a test may."""
    wanted = any("frameworks" in getattr(item, "fixturenames", ()) for item in session.items)
    if wanted and not session.config.option.collectonly:
        session.config.stash[_ENVIRONMENTS] = framework_environments(PlainProgress())


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, shown: Shown) -> Iterator[LocalCluster]:
    """Yield a control plane with four equal nodes, shared by all tests of the run."""
    stash = request.config.stash
    nodes = numbered_nodes(4, {"cpu": "4", "memory": "8Gi"})
    with LocalCluster("e2e", nodes, images=stash[_ENVIRONMENTS]) as running, shown(running):
        yield running


@pytest.fixture
def namespace(cluster: LocalCluster) -> Iterator[str]:
    """A namespace of the test's own on the shared cluster, in which pods can be made; removed
    afterwards."""
    name = f"test-{secrets.token_hex(4)}"
    cluster.kubectl("create", "namespace", name)
    account = ("get", "serviceaccount", "-n", name, "-o", "name")
    wait_until(lambda: "default" in cluster.kubectl(*account), f"{name} has its account", 180)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def frameworks(request: pytest.FixtureRequest) -> Mapping[str, Path | str]:
    """Return the environments of the framework examples, also known to the shared nodes."""
    return request.config.stash[_ENVIRONMENTS]
