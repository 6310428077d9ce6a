"""The two control planes behind one interface."""

from contextlib import AbstractContextManager
from typing import Final

import pytest

from localcluster.cluster import LocalCluster

REAL: Final = "real"
EMBEDDED: Final = "embedded"


def start(name: str) -> AbstractContextManager[LocalCluster]:
    """A control plane without nodes, up for the length of a `with` block."""
    if name == REAL:
        return LocalCluster("conformance")
    pytest.skip("the embedded control plane cannot be started yet")
