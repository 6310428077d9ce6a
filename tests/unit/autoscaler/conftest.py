"""A cluster in miniature, an autoscaler that rules it, and logs in several states."""

from collections.abc import Iterator

import pytest

from autoscaler.logs.poller import LogPoller
from tests.unit.autoscaler.logs import Logs, Nodes
from tests.unit.autoscaler.mayor import ControllerHarness
from tests.unit.autoscaler.town import FakeCluster


@pytest.fixture
def town() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def mayor(town: FakeCluster) -> ControllerHarness:
    return ControllerHarness(town)


@pytest.fixture
def logs() -> Logs:
    return Logs()


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    nodes = Nodes()
    yield nodes
    nodes.over.set()


@pytest.fixture
def reading(logs: Logs) -> Iterator[LogPoller]:
    reading = LogPoller(logs, readers=2, poll_seconds=10)
    yield reading
    reading.close()
