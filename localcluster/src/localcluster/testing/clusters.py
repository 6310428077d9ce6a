"""Clusters that tests run on; a failing test shows their events and logs."""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

import pytest

from localcluster.binaries.locate import resolve
from localcluster.cluster import LocalCluster
from localcluster.errors import LocalClusterError
from localcluster.progress import PlainProgress

Shown: TypeAlias = Callable[[LocalCluster], AbstractContextManager[None]]

_CLUSTERS = pytest.StashKey[list[LocalCluster]]()


def pytest_configure(config: pytest.Config) -> None:
    """Prepare where the fixture leaves what a failed test's report needs."""
    config.stash[_CLUSTERS] = []


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the real control plane before the first test: it takes longer than a test may."""
    if (
        any(item.get_closest_marker("e2e") for item in session.items)
        and not session.config.option.collectonly
    ):
        build_control_plane()


def build_control_plane() -> None:
    """Have the programs of the real control plane ready. Raises pytest.UsageError."""
    try:
        resolve(PlainProgress())
    except LocalClusterError as error:
        raise pytest.UsageError(f"no control plane to test on: {error}") from error


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
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
