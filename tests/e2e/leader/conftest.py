"""One real control plane with an audit log, an extender and two autoscalers behind proxies."""

from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from localcluster.testing.clusters import Shown
from tests.e2e.leader.leader_scenario import NAMES, LeaderScenario
from tests.harness.faults.setup import fault_scenario
from tests.harness.optimus_cluster import training_nodes


@pytest.fixture(scope="package")
def scenario(shown: Shown, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LeaderScenario]:
    with (
        LocalCluster("leader-real", training_nodes("4", "4"), audit=True) as cluster,
        shown(cluster),
        fault_scenario(cluster, tmp_path_factory.mktemp("leader"), NAMES) as made,
    ):
        yield LeaderScenario(made)
