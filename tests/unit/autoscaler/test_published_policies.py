"""Policies that decide all counts anew, on a cluster: by the loop that runs ours."""

from optimus.interval import Action
from optimus.kube.times import format_second
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


def test_under_smd_the_job_with_the_earlier_deadline_gets_more(cluster: FakeCluster) -> None:
    """Its changes are weighed against their restarts, as ours are."""
    cluster.cpus = 12
    harness = ControllerHarness(cluster, policy="smd")
    due = {"a": cluster.at + 3000.0, "b": cluster.at + 300_000.0}
    jobs = {
        name: cluster.submit(tf_job(name, 1, 1, **USUAL, finish_by=format_second(at)))
        for name, at in due.items()
    }
    harness.run(600, tick=4)
    assert sum(jobs["a"].counts) > sum(jobs["b"].counts) >= 2
    assert not any(job.suspended for job in jobs.values())


def test_dl2_runs_on_a_cluster_and_says_what_was_learned(cluster: FakeCluster) -> None:
    """Where that does not hold the reason says so."""
    cluster.cpus = 12
    harness = ControllerHarness(cluster, policy="dl2")
    jobs = [cluster.submit(tf_job(name, 1, 1, **USUAL)) for name in NAMES]
    reasons = set[str]()
    for _ in range(100):
        harness.run(4, tick=4)
        decisions = [each.decision for each in harness.controller.managed]
        reasons |= {each.reason for each in decisions if each is not None}
    assert all(sum(job.counts) > 2 for job in jobs)
    assert any(each.startswith(("its gain counts", "not learned")) for each in reasons), reasons
