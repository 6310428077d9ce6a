"""One embedded cluster, both processes behind proxies, and one job that every scenario rescales
once."""

from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from localcluster.specs import Backend
from tests.harness.optimus_cluster import training_nodes
from tests.integration.faults.fault_scenario import FaultScenario
from tests.integration.faults.setup import fault_scenario


@pytest.fixture(scope="package")
def cluster() -> Iterator[LocalCluster]:
    nodes = training_nodes("4", "4")
    with LocalCluster("faults", nodes, backend=Backend.EMBEDDED) as running:
        yield running


@pytest.fixture(scope="package")
def scenario(
    cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FaultScenario]:
    with fault_scenario(cluster, tmp_path_factory.mktemp("faults")) as made:
        yield made
