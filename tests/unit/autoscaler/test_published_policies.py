"""Policies that decide all counts anew, on a cluster: by the loop that runs ours."""

from optimus.interval import Action
from tests.cases import cases
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import tf_job

NAMES = ("a", "b")
USUAL = {"training_mode": "sync", "target_epochs": "2000", "rescale": "any"}


@cases(
    ("policy", "counts"),
    {
        "equal shares of 12 cores": ("drf", {(3, 3)}),
        "what their users asked for": ("fifo", {(1, 1)}),
        "one job is packed full first": ("tetris", {(1, 1), (5, 5)}),
    },
)
def test_jobs_are_rescaled_to_what_the_policy_chooses_and_stay_there(
    cluster: FakeCluster, policy: str, counts: set[tuple[int, int]]
) -> None:
    cluster.cpus = 12
    harness = ControllerHarness(cluster, policy=policy)
    jobs = [cluster.submit(tf_job(name, 1, 1, **USUAL)) for name in NAMES]
    harness.run(400, tick=4)
    assert {tuple(job.counts) for job in jobs} == counts
    actions = set[Action]()
    for _ in range(60):
        harness.run(2)
        states = harness.controller.managed
        actions |= {each.decision.action for each in states if each.decision is not None}
        assert not any(job.suspended for job in jobs)
    assert {tuple(job.counts) for job in jobs} == counts
    assert actions == {Action.KEEP}
