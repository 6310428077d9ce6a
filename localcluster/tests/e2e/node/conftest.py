"""The namespace that these tests work in."""

import pytest

from localcluster.cluster import LocalCluster
from tests.e2e.node.pods import Namespace


@pytest.fixture
def space(cluster: LocalCluster, namespace: str) -> Namespace:
    """The test's own namespace on the shared cluster."""
    return Namespace(cluster, namespace)
