"""One cluster for the tests of what others do on a shared cluster."""

from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from localcluster.specs import numbered_nodes
from localcluster.testing.clusters import Shown
from tests.e2e.extender.scheduler import TrainingJobs, wait_until
from tests.harness.api import Api


@pytest.fixture(scope="package")
def four(shown: Shown) -> Iterator[LocalCluster]:
    """Four nodes of four CPUs, used by no other tests."""
    nodes = numbered_nodes(4, {"cpu": "4", "memory": "8Gi"})
    with LocalCluster("shared-by-many", nodes) as cluster, shown(cluster):
        yield cluster


@pytest.fixture
def four_api(four: LocalCluster) -> Iterator[Api]:
    """As administrator of that cluster."""
    with four.api_client() as client:
        yield Api(client)


@pytest.fixture
def four_jobs(four: LocalCluster) -> Iterator[TrainingJobs]:
    """Jobs on that cluster; afterwards it is empty."""
    made = TrainingJobs(four)
    yield made
    made.delete(*made.names)
    wait_until("all pods are gone", lambda: not four.get("pods", "-n", "default")["items"])
