"""Sets the stage of the scenes on a running cluster of either back end: what a cluster needs, and
who acts on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localcluster.cluster import LocalCluster
from localcluster.testing.waiting import wait_until
from tests.harness.api import OPTIMUS, Api
from tests.harness.scene import scene
from tests.harness.stack import REPOSITORY, Optimus
from tests.integration.faults.acting import Stage
from tests.integration.faults.product import TUNING, product
from tests.integration.faults.recording import recorder

_GRANTED = (
    "namespace.yaml",
    "crd-trainingprofiles.yaml",
    "rbac-autoscaler.yaml",
    "rbac-scheduler.yaml",
)
_NAMESPACE = "faults"


@contextmanager
def staged(cluster: LocalCluster, folder: Path) -> Iterator[Stage]:
    """Give the two processes their rights, run them, and set up the namespace of the one job."""
    for name in _GRANTED:
        cluster.apply(REPOSITORY / "manifests" / name)
    with cluster.api_client() as client:
        api = Api(client)
        wait_until(lambda: api.find(f"{OPTIMUS}/trainingprofiles"), "profiles are served", 30)
        with (
            product(cluster, api, folder) as running,
            scene(Optimus(cluster, api, TUNING), _NAMESPACE, folder / "checkpoints") as made,
            recorder(api, _NAMESPACE) as seen,
        ):
            yield Stage(made, running, seen)
