"""What a user reads with kubectl, and what an operator gets from one run of the autoscaler by
hand."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.api import Json
from tests.harness.job_recorder import JobRecorder
from tests.harness.optimus_cluster import AUTOSCALER, REPOSITORY, SYSTEM_NAMESPACE, OptimusCluster
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import at, set_bounds, small_job
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

BEFORE, AFTER = (1, 2), (1, 3)


def run_autoscaler(scenario: Scenario, folder: Path, *flags: str) -> str:
    """Run the autoscaler here, once, as the cluster's administrator; return what it printed."""
    kubeconfig = f"--kubeconfig={scenario.optimus.cluster.kubeconfig}"
    command = [
        sys.executable,
        "-m",
        "autoscaler",
        "--once",
        kubeconfig,
        "--listen=127.0.0.1:0",
        *flags,
    ]
    config = folder / "config.yaml"
    config.write_text("autoscaler: {tick-seconds: 0.5, log-poll-seconds: 1}")
    command += [f"--config={config}", "--node-selector=optimus.dl/pool=training"]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def by_hand(optimus: OptimusCluster) -> Iterator[None]:
    """Nobody decides but the test; afterwards the deployed autoscaler does again."""
    scale = ("-n", SYSTEM_NAMESPACE, "scale", f"deployment/{AUTOSCALER}")
    optimus.cluster.kubectl(*scale, "--replicas=0")
    wait_until("the deployed autoscaler has ended", lambda: not optimus.pods_of(AUTOSCALER))
    yield
    optimus.cluster.kubectl(*scale, "--replicas=1")
    optimus.wait_rolled_out(AUTOSCALER)


def spec_of(scenario: Scenario) -> Json:
    (stored,) = scenario.api.items(f"/apis/kubeflow.org/v1/namespaces/{scenario.namespace}/tfjobs")
    spec: Json = stored["spec"]
    return spec


@pytest.mark.usefixtures("by_hand")
def test_one_run_by_hand_prints_its_decisions_and_carries_them_out_unless_it_is_dry(
    scenario: Scenario, tmp_path: Path
) -> None:
    job = small_job("once", BEFORE)
    with JobRecorder(scenario) as recorder:
        scenario.submit(job)
        scenario.wait(lambda: recorder.logs.steps_of_last("once"), "the job trains")
        set_bounds(scenario, job, AFTER)
        before = spec_of(scenario)
        decision = (
            f"{scenario.namespace}/once\tgrow\t1 PS + 2 workers -> 1 PS + 3 workers\tits "
            "bounds do not allow"
        )
        assert decision in run_autoscaler(scenario, tmp_path, "--dry-run")
        assert spec_of(scenario) == before
        assert scenario.profile(job) is None
        assert not [
            each
            for each in scenario.events("once")
            if each["source"].get("component") == "optimus-autoscaler"
        ]
        assert decision in run_autoscaler(scenario, tmp_path)
        assert spec_of(scenario)["tfReplicaSpecs"]["Worker"]["replicas"] == 3
        assert not spec_of(scenario)["runPolicy"].get("suspend")
        grown = at(job, AFTER)
        scenario.wait(lambda: len(scenario.bound(grown)) == grown.pods, "it runs at its new counts")
        assert not recorder.training_violations(job)
