"""One embedded cluster, both processes behind proxies, and one job that every scene rescales
once."""

from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from localcluster.specs import Backend
from tests.harness.stack import training_nodes
from tests.integration.faults.acting import Stage
from tests.integration.faults.staging import staged


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    nodes = training_nodes("4", "4")
    with LocalCluster("faults", nodes, backend=Backend.EMBEDDED) as running:
        yield running


@pytest.fixture(scope="session")
def stage(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(cluster, tmp_path_factory.mktemp("faults")) as made:
        yield made
