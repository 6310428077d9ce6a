"""One real control plane, both processes behind proxies, and one job that every scene rescales
once."""

from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from localcluster.testing.clusters import Shown
from tests.harness.stack import training_nodes
from tests.integration.faults.acting import Stage
from tests.integration.faults.staging import staged


@pytest.fixture(scope="package")
def stage(shown: Shown, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A cluster with two training nodes, behind the proxies; its own TLS, accounts and rights."""
    with (
        LocalCluster("faults-real", training_nodes("4", "4")) as cluster,
        shown(cluster),
        staged(cluster, tmp_path_factory.mktemp("faults")) as made,
    ):
        yield made
