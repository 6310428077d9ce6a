"""The bench on which these tests run pods."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.node.machine import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A node without a control plane."""
    bench = Bench(tmp_path)
    yield bench
    bench.close()
