"""One real control plane, both processes behind proxies, and one job that every scenario rescales
once."""

from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from localcluster.testing.clusters import Shown
from tests.harness.faults.fault_scenario import FaultScenario
from tests.harness.faults.setup import fault_scenario
from tests.harness.optimus_cluster import training_nodes


@pytest.fixture(scope="package")
def scenario(shown: Shown, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultScenario]:
    """A cluster with two training nodes, behind the proxies; its own TLS, accounts and rights."""
    with (
        LocalCluster("faults-real", training_nodes("4", "4")) as cluster,
        shown(cluster),
        fault_scenario(cluster, tmp_path_factory.mktemp("faults")) as made,
    ):
        yield made
