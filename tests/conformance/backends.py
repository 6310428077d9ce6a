"""The two control planes behind one interface."""

from contextlib import AbstractContextManager
from typing import Final

from localcluster.cluster import LocalCluster
from localcluster.specs import Backend

REAL: Final = "real"
EMBEDDED: Final = "embedded"


def start(name: str) -> AbstractContextManager[LocalCluster]:
    """A control plane without nodes, up for the length of a `with` block."""
    return LocalCluster("conformance", backend=Backend(name))
