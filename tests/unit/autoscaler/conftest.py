"""A fake cluster, a controller on it, and fake logs."""

from collections.abc import Iterator

import pytest

from autoscaler.logs.poller import LogPoller
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_logs import Logs, Nodes


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def harness(cluster: FakeCluster) -> ControllerHarness:
    return ControllerHarness(cluster)


@pytest.fixture
def profiling(cluster: FakeCluster) -> ControllerHarness:
    """Every young job is profiled, whatever is to be expected of it."""
    return ControllerHarness(cluster, expects=False)


@pytest.fixture
def logs() -> Logs:
    return Logs()


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    nodes = Nodes()
    yield nodes
    nodes.over.set()


@pytest.fixture
def poller(logs: Logs) -> Iterator[LogPoller]:
    poller = LogPoller(logs, readers=2, poll_seconds=10)
    yield poller
    poller.close()
