"""A job of which one worker is on a slow node is restarted without that node."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.harness.api import Json
from tests.harness.job_recorder import JobRecorder
from tests.harness.light_jobs import LightJob
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import SMALL, small_job

COUNTS = (1, 3)
ALONE = {"cpu": "2500m", "memory": "64Mi"}
"""A node has room for one such worker."""

SLOW_NODE = "/checkpoints/slow-node"
SCRIPT = """
until [ -s "$SLOW_NODE_FILE" ]; do sleep 0.1; done
if [ "$(cat "$SLOW_NODE_FILE")" = "$NODE_NAME" ]; then set -- "$@" --example-seconds=0.03; fi
exec python -m examples.light "$@"
"""
"""Trains as soon as the file names the slow node; there, an example takes fifteen times as long."""


@dataclass(frozen=True)
class SlowedJob(LightJob):
    """A light job whose workers are slow on one node, which a file names."""

    def manifest(self, namespace: str) -> Json:
        """Return the object to create."""
        body = super().manifest(namespace)
        worker = body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
        (container,) = worker["containers"]
        container["command"] = ["sh", "-c", SCRIPT, "trainer"]
        field = {"fieldRef": {"fieldPath": "spec.nodeName"}}
        container["env"] = [
            {"name": "NODE_NAME", "valueFrom": field},
            {"name": "SLOW_NODE_FILE", "value": SLOW_NODE},
        ]
        return body


def slowed_job() -> SlowedJob:
    """A job of three workers, each on a node of its own; bounds hold it at its counts."""
    job = small_job("slowed", COUNTS, requests={"PS": SMALL, "Worker": ALONE})
    annotations = {
        **(job.annotations or {}),
        "optimus.dl/training-mode": "sync",
        "optimus.dl/target-loss": "0.000001",
        "optimus.dl/rescale": "checkpoint",
    }
    job = replace(job, annotations=annotations, flags={**job.flags, "--mode": "sync"})
    return SlowedJob(**{name: getattr(job, name) for name in LightJob.__dataclass_fields__})


@pytest.fixture
def slow_node_file(tmp_path: Path) -> Path:
    """The file as this machine sees it: the scenario's checkpoint volume is in the same folder."""
    return tmp_path / "checkpoints" / Path(SLOW_NODE).name


def workers_on(scenario: Scenario, job: LightJob) -> set[str]:
    return {name for name, roles in scenario.placement(job).items() if roles["worker"]}


def test_a_job_is_restarted_without_the_node_of_its_straggler(
    scenario: Scenario, slow_node_file: Path
) -> None:
    job = slowed_job()
    with JobRecorder(scenario) as recorder:
        scenario.submit(job)
        scenario.wait_bound(job)
        before = workers_on(scenario, job)
        assert len(before) == 3
        slow = scenario.pod("slowed-worker-1")["spec"]["nodeName"]
        slow_node_file.parent.mkdir(parents=True, exist_ok=True)
        slow_node_file.write_text(slow)
        scenario.wait_events(job.name, "Rescaled")  # it was restarted
        recorder.catch_up()
        (rescale,) = recorder.rescales(job)
        assert (rescale.purpose, rescale.before, rescale.target) == ("straggler", COUNTS, COUNTS)
        assert f"worker 1 on {slow} trains at " in rescale.why
        assert rescale.phases[-3:] == ["Suspending", "Resizing", "Starting"]
        assert not recorder.ever_failed(job)
        assert not recorder.training_violations(job)
        (avoided,) = scenario.wait(
            lambda: recorder.status(job).get("avoidedNodes", ()), "its profile names the slow node"
        )
        assert avoided["node"] == slow
    after = workers_on(scenario, job)
    assert slow not in after
    assert len(after) == 3
    assert len(scenario.wait_events(job.name, "StragglerFound")["StragglerFound"]) == 1
    scenario.wait(lambda: not said_of(scenario, job), "none is slow now")


def said_of(scenario: Scenario, job: LightJob) -> str:
    """What the job's profile says of a straggler."""
    status = (scenario.profile(job) or {}).get("status") or {}
    return str(status.get("straggler") or "")
