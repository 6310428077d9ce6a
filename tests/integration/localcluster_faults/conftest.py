"""One embedded cluster, both processes behind proxies, and one job that every scene rescales once."""

from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from localcluster.specs import Backend
from tests.e2e.harness.api import Api
from tests.e2e.harness.scene import scene
from tests.e2e.harness.stack import REPOSITORY, Optimus, training_nodes
from tests.integration.localcluster_faults.acting import Stage
from tests.integration.localcluster_faults.product import TUNING, Product, product
from tests.integration.localcluster_faults.recording import recorder


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    nodes = training_nodes("4", "4")
    with LocalCluster("faults", nodes, backend=Backend.EMBEDDED) as running:
        yield running


@pytest.fixture(scope="session")
def running(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    cluster.apply(REPOSITORY / "manifests" / "crd-trainingprofiles.yaml")
    with product(cluster, tmp_path_factory.mktemp("product")) as processes:
        yield processes


@pytest.fixture(scope="session")
def stage(cluster: LocalCluster, running: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with cluster.api_client() as client:
        optimus = Optimus(cluster, Api(client), TUNING)
        with (
            scene(optimus, "faults", tmp_path_factory.mktemp("checkpoints")) as made,
            recorder(made.api, "faults") as seen,
        ):
            yield Stage(optimus, "faults", running, seen)
