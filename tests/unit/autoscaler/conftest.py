"""A cluster in miniature, an autoscaler that rules it, and logs in several states."""

from collections.abc import Iterator

import pytest

from autoscaler.log_reading import LogReading
from tests.unit.autoscaler.logs import Logs, Nodes
from tests.unit.autoscaler.mayor import Mayor
from tests.unit.autoscaler.town import Town


@pytest.fixture
def town() -> Town:
    return Town()


@pytest.fixture
def mayor(town: Town) -> Mayor:
    return Mayor(town)


@pytest.fixture
def logs() -> Logs:
    return Logs()


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    nodes = Nodes()
    yield nodes
    nodes.over.set()


@pytest.fixture
def reading(logs: Logs) -> Iterator[LogReading]:
    reading = LogReading(logs, readers=2, poll_seconds=10)
    yield reading
    reading.close()
