"""Sets up the scenarios on a running cluster of either back end: what a cluster needs, and
who acts on it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from localcluster.cluster import LocalCluster
from localcluster.testing.waiting import wait_until
from tests.harness.api import CORE, OPTIMUS, Api
from tests.harness.faults.fault_scenario import FaultScenario
from tests.harness.faults.processes import AUTOSCALER, EXTENDER, TUNING, product
from tests.harness.faults.state_recorder import recorder
from tests.harness.optimus_cluster import REPOSITORY, OptimusCluster, Tuning
from tests.harness.scenario import scenario_namespace

_GRANTED = (
    "namespace.yaml",
    "crds/crd-trainingprofiles.yaml",
    "crds/crd-workloadprofiles.yaml",
    "rbac-autoscaler.yaml",
    "rbac-scheduler.yaml",
)
_NAMESPACE = "faults"


@contextmanager
def fault_scenario(
    cluster: LocalCluster,
    folder: Path,
    names: Sequence[str] = (EXTENDER, AUTOSCALER),
    tuning: Tuning = TUNING,
) -> Iterator[FaultScenario]:
    """Give the processes their rights, run them, and set up the namespace of the one job."""
    for name in _GRANTED:
        cluster.apply(REPOSITORY / "manifests" / name)
    with cluster.api_client() as client:
        api = Api(client)
        wait_until(lambda: api.find(f"{OPTIMUS}/trainingprofiles"), "profiles are served", 180)
        before = f"{CORE}/namespaces/{_NAMESPACE}"
        wait_until(lambda: not api.find(before), "the scenario before is gone", 180)
        with (
            product(cluster, api, folder, names, tuning) as running,
            scenario_namespace(
                OptimusCluster(cluster, api, tuning), _NAMESPACE, folder / "checkpoints"
            ) as made,
            recorder(api, _NAMESPACE) as seen,
        ):
            yield FaultScenario(made, running, seen)
