"""Policies that decide all counts anew, on a cluster: by the loop that runs ours."""

import pytest

from optimus.interval import Action
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import tf_job

NAMES = ("a", "b")
USUAL = {"training_mode": "sync", "target_epochs": "2000", "rescale": "any"}


@pytest.mark.parametrize(
    ("policy", "counts"),
    [
        pytest.param("drf", {(3, 3)}, id="equal shares of 12 cores"),
        pytest.param("fifo", {(1, 1)}, id="what their users asked for"),
        pytest.param("tetris", {(1, 1), (5, 5)}, id="one job is packed full first"),
    ],
)
def test_jobs_are_rescaled_to_what_the_policy_chooses_and_stay_there(
    cluster: FakeCluster, policy: str, counts: set[tuple[int, int]]
) -> None:
    cluster.cpus = 12
    harness = ControllerHarness(cluster, policy=policy)
    jobs = [cluster.submit(tf_job(name, 1, 1, **USUAL)) for name in NAMES]
    harness.run(400)
    assert {tuple(job.counts) for job in jobs} == counts
    actions = set[Action]()
    for _ in range(60):
        harness.run(2)
        states = harness.controller.managed
        actions |= {each.decision.action for each in states if each.decision is not None}
        assert not any(job.suspended for job in jobs)
    assert {tuple(job.counts) for job in jobs} == counts
    assert actions == {Action.KEEP}
