"""How far a job may grow before a measured speed confirms that larger counts help."""

from dataclasses import replace

from optimus.allocation import JobHistory
from optimus.interval import Action, IntervalInput, plan_interval
from optimus.interval.classify import IntervalConfig
from optimus.interval.growth import GrowthRule
from optimus.jobs import Batch, BatchScope, CountBounds, Counts, TrainingMode
from optimus.progress.types import NOTHING, SpeedSample, TrainingProgress
from optimus.snapshot import ClusterSnapshot
from tests.cases import cases
from tests.unit.interval.cases import AT
from tests.unit.interval.cluster import bind, job, nodes, steps, strategies

RULE = GrowthRule(few=8, least_gain_fraction=0.05)
OWN = Counts(1, 1)


def measured(*speeds: tuple[int, int, float], kind: str = "") -> TrainingProgress:
    samples = [
        SpeedSample(Counts(ps, workers), speed, 60.0, AT - 10, kind)
        for ps, workers, speed in speeds
    ]
    return replace(NOTHING, samples=tuple(samples))


@cases(
    ("at", "speeds", "most", "gives_back"),
    {
        "nothing is measured": ((1, 1), [], (8, 8), False),
        "as a profiling run may have": ((1, 1), [(1, 1, 1.0)], (8, 8), False),
        "twice what is faster": ((8, 8), [(1, 1, 1.0), (8, 8, 4.0)], (16, 16), False),
        "no faster with more": ((1, 1), [(1, 1, 1.0), (8, 8, 1.0)], (2, 2), False),
        "faster by noise alone": ((8, 8), [(1, 1, 1.0), (8, 8, 1.03)], (2, 2), True),
        "it may keep twice": ((2, 2), [(1, 1, 1.0), (2, 2, 1.0)], (2, 2), False),
        "no faster with more workers": ((1, 200), [(1, 1, 1.0), (1, 200, 1.0)], (2, 2), True),
        "a slow run with other parts says nothing of both": (
            (2, 2),
            [(1, 1, 1.0), (8, 1, 0.9), (2, 2, 1.8)],
            (8, 8),
            False,
        ),
        "twice what was faster is kept": (
            (16, 16),
            [(1, 1, 1.0), (8, 8, 4.0), (16, 16, 4.0)],
            (16, 16),
            False,
        ),
        "measured late for the first time": (
            (40, 40),
            [(8, 8, 4.0), (40, 40, 4.0)],
            (16, 16),
            True,
        ),
        "compared with nothing": ((40, 40), [(40, 40, 4.0)], (80, 80), False),
    },
)
def test_the_limit_follows_what_was_measured(
    at: tuple[int, int],
    speeds: list[tuple[int, int, float]],
    most: tuple[int, int],
    gives_back: bool,
) -> None:
    found = RULE.limit(job("a", at), OWN, measured(*speeds))
    assert (found.most, found.gives_back) == (Counts(*most), gives_back)


def test_its_users_counts_are_confirmed() -> None:
    found = RULE.limit(job("a", (20, 20)), Counts(20, 20), measured((20, 20, 1.0)))
    assert found.most == Counts(40, 40)


def test_a_role_that_may_not_grow_refutes_nothing_by_staying() -> None:
    one_ps = job("a", (1, 1), bounds=CountBounds(max_ps=1))
    found = RULE.limit(one_ps, OWN, measured((1, 1, 1.0), (1, 4, 1.0)))
    assert found.most == Counts(2, 2)
    assert found.within(one_ps.bounds).max_ps == 1


def test_workers_with_a_batch_of_their_own_are_compared_by_examples() -> None:
    of_worker = job(
        "a", (4, 4), mode=TrainingMode.SYNC, batch=Batch(32, BatchScope.WORKER, rate_follows=True)
    )
    found = RULE.limit(of_worker, OWN, measured((1, 1, 1.0), (4, 4, 0.9)))
    assert found.confirmed == Counts(4, 4)


def test_without_a_learning_rate_that_follows_more_sync_workers_refute_themselves() -> None:
    of_worker = job("a", (4, 4), mode=TrainingMode.SYNC, batch=Batch(32, BatchScope.WORKER))
    found = RULE.limit(of_worker, OWN, measured((1, 1, 1.0), (4, 4, 0.9)))
    assert found.confirmed == OWN


def test_kinds_of_nodes_are_not_compared() -> None:
    fast, slow = measured((1, 1, 2.0), kind="new"), measured((4, 4, 1.5), kind="old")
    both = replace(NOTHING, samples=(*fast.samples, *slow.samples))
    assert not RULE.limit(job("a", (4, 4)), OWN, both).gives_back


@cases(
    ("remaining", "bounds", "action"),
    {
        "it gives back": (1e5, CountBounds(), Action.SHRINK),
        "not at the price of a restart": (10.0, CountBounds(), Action.KEEP),
        "not below its minimum": (1e5, CountBounds(8, None, 8, None), Action.KEEP),
    },
)
def test_a_job_that_is_no_faster_gives_back_although_nobody_waits(
    remaining: float, bounds: CountBounds, action: Action
) -> None:
    wide = job("a", (8, 8), bounds=bounds)
    snapshot = ClusterSnapshot.of(AT, [wide], nodes(2, 16), bind(wide, ["node-00"] * 16))
    progress = {wide.uid: measured((1, 1, 1.0), (2, 2, 1.0), (8, 8, 1.0))}
    inputs = IntervalInput(snapshot, progress, {wide.uid: JobHistory(user_counts=OWN)})
    config = IntervalConfig()
    (decision,) = plan_interval("i1", inputs, strategies({"a": steps(remaining)}), config).decisions
    assert decision.action is action
    if action is Action.SHRINK:
        assert max(decision.counts) <= 2
    assert ("it is not 5% faster than with 1 PS" in decision.reason) is (action is Action.SHRINK)


def test_the_reason_names_the_limit() -> None:
    small = job("a")
    snapshot = ClusterSnapshot.of(AT, [small], nodes(4, 16), bind(small, ["node-00"] * 2))
    inputs = IntervalInput(snapshot, {small.uid: measured((1, 1, 1.0))})
    (decision,) = plan_interval(
        "i1", inputs, strategies({"a": steps(1e6)}), IntervalConfig()
    ).decisions
    assert max(decision.counts) == 8
    assert "is the most before it is measured to be faster with more than" in decision.reason
