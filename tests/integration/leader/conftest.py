"""One embedded cluster, an extender and two autoscalers, each behind a proxy."""

from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from localcluster.specs import Backend
from tests.harness.optimus_cluster import training_nodes
from tests.integration.faults.setup import fault_scenario
from tests.integration.leader.leader_scenario import NAMES, LeaderScenario


@pytest.fixture(scope="package")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LeaderScenario]:
    nodes = training_nodes("4", "4")
    with (
        LocalCluster("leader", nodes, backend=Backend.EMBEDDED) as cluster,
        fault_scenario(cluster, tmp_path_factory.mktemp("leader"), NAMES) as made,
    ):
        yield LeaderScenario(made)
