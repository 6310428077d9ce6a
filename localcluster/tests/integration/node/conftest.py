"""The node_harness on which these tests run pods."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.node.machine import NodeHarness


@pytest.fixture
def node_harness(tmp_path: Path) -> Iterator[NodeHarness]:
    """A node without a control plane."""
    node_harness = NodeHarness(tmp_path)
    yield node_harness
    node_harness.close()
