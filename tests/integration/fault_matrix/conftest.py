"""One embedded cluster of its own, both processes behind proxies, and the one job."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from localcluster.cluster import LocalCluster
from localcluster.specs import Backend
from tests.harness.optimus_cluster import training_nodes
from tests.integration.fault_matrix.matrix_scenario import MatrixScenario
from tests.integration.faults.processes import TUNING
from tests.integration.faults.setup import fault_scenario

# An autoscaler that is killed leaves its Lease: the next one waits for so long.
_TUNING = replace(TUNING, autoscaler={**TUNING.autoscaler, "lease_seconds": "6"})


@pytest.fixture(scope="package")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MatrixScenario]:
    """The cluster, and the points of an undisturbed rescale."""
    folder = tmp_path_factory.mktemp("matrix")
    with (
        LocalCluster("matrix", training_nodes("4", "4"), backend=Backend.EMBEDDED) as cluster,
        fault_scenario(cluster, folder, tuning=_TUNING) as made,
    ):
        yield MatrixScenario(made)
