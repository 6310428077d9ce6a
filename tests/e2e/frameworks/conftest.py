"""A cluster whose nodes have the frameworks, and the runs of their jobs, side by side."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest

from localcluster.testing.clusters import Shown
from tests.e2e.frameworks.framework_jobs import MXNET_ASYNC, MXNET_SYNC, TENSORFLOW, FrameworkJob
from tests.e2e.frameworks.rescale_run import RescaleRun, RescaleRunner
from tests.harness.api import CORE, Json, in_namespace
from tests.harness.optimus_cluster import (
    QUICK_TUNING,
    OptimusCluster,
    optimus_cluster,
    training_nodes,
)
from tests.harness.scenario import Scenario

_NAMESPACE = "frameworks"
_STORY_SECONDS = 1100

Runs: TypeAlias = Mapping[str, Future[RescaleRun]]


@pytest.fixture(scope="package")
def optimus(shown: Shown, frameworks: Mapping[str, Path | str]) -> Iterator[OptimusCluster]:
    """Two training nodes on which the images of both frameworks run, under both processes."""
    missing = [why for why in frameworks.values() if isinstance(why, str)]
    assert frameworks, "no environment of a framework was made"
    assert not missing, "; ".join(missing)
    tuning = replace(QUICK_TUNING, autoscaler={**QUICK_TUNING.autoscaler, "report_seconds": "1"})
    with (
        optimus_cluster(
            "frameworks", training_nodes("4", "4"), tuning, images=frameworks
        ) as running,
        shown(running.cluster),
    ):
        running.deploy()
        yield running


@pytest.fixture(scope="package")
def runs(optimus: OptimusCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Submit all three jobs at once; each run by the name of its job, as soon as it has come to
    its end."""
    scenario = _namespace(optimus, _NAMESPACE)
    jobs = (MXNET_SYNC, MXNET_ASYNC, TENSORFLOW)
    for claim in {each.claim()["metadata"]["name"]: each.claim() for each in jobs}.values():
        _provide(scenario, claim, tmp_path_factory.mktemp("checkpoints"))
    players = ThreadPoolExecutor(len(jobs), thread_name_prefix="run")
    try:
        yield {each.name: players.submit(RescaleRunner(scenario, each).play) for each in jobs}
    finally:
        players.shutdown(wait=False, cancel_futures=True)


@pytest.fixture(
    scope="package",
    params=[
        pytest.param(MXNET_SYNC, id="MXNet dist_sync"),
        pytest.param(MXNET_ASYNC, id="MXNet dist_async"),
        pytest.param(TENSORFLOW, id="TensorFlow"),
    ],
)
def job(request: pytest.FixtureRequest) -> FrameworkJob:
    """One of the three jobs."""
    chosen: FrameworkJob = request.param
    return chosen


@pytest.fixture(scope="package")
def run(runs: Runs, job: FrameworkJob) -> RescaleRun:
    """The job's run, from its beginning to its end."""
    return runs[job.name].result(_STORY_SECONDS)


def _namespace(optimus: OptimusCluster, name: str) -> Scenario:
    optimus.api.create(f"{CORE}/namespaces", {"metadata": {"name": name}})
    scenario = Scenario(optimus, name)
    account = in_namespace(CORE, name, "serviceaccounts", "default")
    scenario.wait(lambda: optimus.api.find(account), "the account exists")
    return scenario


def _provide(scenario: Scenario, claim: Json, folder: Path) -> None:
    """Create a claim as it is shipped, and a volume on this machine for it."""
    api, name = scenario.api, claim["metadata"]["name"]
    volume_name = f"{scenario.namespace}-{name}"
    volume = {
        "metadata": {"name": volume_name},
        "spec": {
            "capacity": claim["spec"]["resources"]["requests"],
            "accessModes": claim["spec"]["accessModes"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "hostPath": {"path": str(folder), "type": "DirectoryOrCreate"},
            "claimRef": {"namespace": scenario.namespace, "name": name},
        },
    }
    api.create(f"{CORE}/persistentvolumes", volume)
    claim["spec"] |= {"storageClassName": "", "volumeName": volume_name}
    api.create(in_namespace(CORE, scenario.namespace, "persistentvolumeclaims"), claim)
