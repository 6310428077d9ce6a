"""How many jobs are stopped at once, and which of them first."""

from dataclasses import replace

from autoscaler.settings import Settings
from optimus.rescale.disruption import DEFAULT_LIMITS, DisruptionLimits, Limit
from tests.cases import cases
from tests.unit.autoscaler.controller_harness import TIMING, ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job

NAMES = ("a", "b", "c", "d")


def harness_with(cluster: FakeCluster, limits: DisruptionLimits) -> ControllerHarness:
    timing = replace(TIMING, disruption=limits)
    return ControllerHarness(cluster, timing=timing, expects=False)


def submit(cluster: FakeCluster) -> list[FakeJob]:
    """Jobs that their bounds hold at 1 PS and 1 worker."""
    common = {"training_mode": "sync", "target_loss": "0.001", "rescale": "any"}
    bounds = {"min_ps": "1", "max_ps": "1", "min_workers": "1", "max_workers": "1"}
    return [cluster.submit(tf_job(name, 1, 1, **common, **bounds)) for name in NAMES]


def most_stopped(cluster: FakeCluster, harness: ControllerHarness, jobs: list[FakeJob]) -> int:
    """The most jobs that were suspended at one time, until all have 2 workers."""
    most = 0
    for _ in range(200):
        harness.run(1)
        most = max(most, sum(job.suspended for job in jobs))
        if all(job.counts.workers == 2 and not job.suspended for job in jobs):
            return most
    raise AssertionError("not all were rescaled")


@cases(
    ("limits", "most"),
    {
        "without a limit": (DisruptionLimits(), 4),
        "a number in the cluster": (DisruptionLimits(Limit(number=2)), 2),
        "a part of the cluster's jobs": (DisruptionLimits(Limit(percent=25)), 1),
        "at least one": (DisruptionLimits(Limit(percent=1)), 1),
        "in a namespace": (DisruptionLimits(namespace=Limit(number=3)), 3),
    },
)
def test_no_more_jobs_are_stopped_at_once_than_allowed(
    cluster: FakeCluster, limits: DisruptionLimits, most: int
) -> None:
    cluster.lingering_seconds = 4.0
    harness, jobs = harness_with(cluster, limits), submit(cluster)
    harness.run(30)
    for job in jobs:
        job.annotate(min_workers="2", max_workers="2")
    assert most_stopped(cluster, harness, jobs) == most


@cases(
    ("limits", "most"),
    {
        "as many as there are places for, without a limit": (DisruptionLimits(), 2),
        "no more than the limit": (DisruptionLimits(Limit(number=1)), 1),
    },
)
def test_jobs_are_stopped_for_profiling_within_the_limit(
    cluster: FakeCluster, limits: DisruptionLimits, most: int
) -> None:
    cluster.lingering_seconds = 4.0
    harness = harness_with(cluster, limits)
    common = {"training_mode": "sync", "target_loss": "0.001", "rescale": "any"}
    jobs = [cluster.submit(tf_job(name, 1, 1, **common)) for name in NAMES[:3]]
    stopped = []
    for _ in range(60):
        harness.run(1)
        stopped.append(sum(job.suspended for job in jobs))
    assert max(stopped) == most
    profiled = [state.record.profiled for state in harness.controller.managed.states.values()]
    assert sum(map(len, profiled)) > 1


def test_a_job_that_must_be_saved_is_stopped_beyond_the_budget(cluster: FakeCluster) -> None:
    cluster.lingering_seconds = 4.0
    harness = harness_with(cluster, DisruptionLimits(Limit(number=1)))
    first, second, *_ = submit(cluster)
    harness.run(30)
    first.annotate(min_workers="2", max_workers="2")
    harness.run_till(lambda: first.suspended)
    second.replicas["Worker"]["replicas"] = 2
    second.annotate(min_workers="2", max_workers="2")
    harness.run(1)
    assert first.suspended
    assert second.suspended


def test_jobs_whose_pods_never_end_do_not_hold_back_another_namespace(cluster: FakeCluster) -> None:
    """A finalizer, or a grace period of years, is all that takes."""
    cluster.lingering_seconds = 4.0
    harness = harness_with(cluster, DEFAULT_LIMITS)
    common = {"training_mode": "sync", "target_loss": "0.001", "rescale": "any"}
    stuck = [tf_job(name, 1, 1, **common) for name in ("x", "y")]
    for each in stuck:
        each.manifest["metadata"]["namespace"] = "tenant"
        cluster.submit(each)
    for _ in range(120):
        harness.run(1)
        for each in stuck:
            each.left_at = float("inf") if each.leaving else each.left_at
    assert any(each.leaving for each in stuck)
    honest = cluster.submit(tf_job("honest", 1, 1, **common))
    for _ in range(90):
        harness.run(10)
        if honest.runs > 1:
            break
    assert honest.runs > 1
    assert any(each.leaving for each in stuck)


def test_the_default_limits_are_those_of_the_settings() -> None:
    defaults = Settings()
    assert (defaults.max_stopped, defaults.max_stopped_per_namespace) == ("25%", "50%")
    assert Limit.parse(defaults.max_stopped) == DEFAULT_LIMITS.cluster
    assert Limit.parse(defaults.max_stopped_per_namespace) == DEFAULT_LIMITS.namespace


def test_jobs_that_are_made_anew_whenever_they_are_stuck_do_not_stop_another_namespace() -> None:
    """Each has ten minutes before it counts as stuck; its user makes the next one before that."""
    cluster = FakeCluster(lingering_seconds=1e9)  # pods do not end, as with a finalizer
    harness = harness_with(cluster, DisruptionLimits(Limit(number=1)))
    common = {"training_mode": "sync", "target_loss": "0.00001", "rescale": "any"}
    bounds = {"min_ps": "1", "max_ps": "1", "min_workers": "1", "max_workers": "1"}
    honest = cluster.submit(tf_job("honest", 1, 1, "other", **common, **bounds))
    harness.run(30)
    honest_may_move = False
    for number in range(6):
        stuck = cluster.submit(tf_job(f"stuck-{number}", 1, 1, **common, **bounds))
        harness.run(30)
        stuck.annotate(min_workers="2", max_workers="2")
        harness.run(60)
        assert stuck.suspended
        honest.annotate(min_workers="2", max_workers="2")
        for _ in range(40):
            harness.run(10, tick=10)
            honest_may_move = honest_may_move or honest.suspended
        del cluster.jobs[stuck.name]
        if honest_may_move:
            break
        honest.annotate(min_workers="1", max_workers="1")
    assert honest_may_move
