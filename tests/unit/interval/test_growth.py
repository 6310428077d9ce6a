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
from tests.unit.interval.cluster import Sync, bind, job, nodes, steps, strategies

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
        "no faster with twice as many": ((2, 2), [(1, 1, 1.0), (2, 2, 1.0)], (1, 1), True),
        "only some are fewer": ((1, 4), [(1, 1, 1.0), (2, 2, 2.0), (1, 4, 2.0)], (8, 8), False),
        "no faster with more workers": ((1, 200), [(1, 1, 1.0), (1, 200, 1.0)], (2, 2), True),
        "a slow run with other parts says nothing of both": (
            (2, 2),
            [(1, 1, 1.0), (8, 1, 0.9), (2, 2, 1.8)],
            (8, 8),
            False,
        ),
        "no faster with twice what was faster": (
            (16, 16),
            [(1, 1, 1.0), (8, 8, 4.0), (16, 16, 4.0)],
            (8, 8),
            True,
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
    assert (found.most, found.times is not None) == (Counts(*most), gives_back)


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
    assert RULE.limit(job("a", (4, 4)), OWN, both).times is None


@cases(
    ("counts", "speeds", "seconds", "bounds", "back"),
    {
        "it gives back": ((8, 8), [1.0, 1.0, 1.0], 1e5, CountBounds(), (1, 1)),
        "to where it is as fast": ((2, 2), [3.12, 3.12], 1e5, CountBounds(), (1, 1)),
        "not to where only the fit is as fast": (
            (8, 8),
            [1.0, 2.0, 2.0],
            1e5,
            CountBounds(),
            (2, 2),
        ),
        "not what is of use": ((2, 2), [3.12, 3.4], 1e5, CountBounds(), None),
        "not at the price of a restart": ((2, 2), [3.12, 3.12], 1e3, CountBounds(), None),
        "not where both together are dear": ((2, 2), [3.0, 3.12], 3e3, CountBounds(), None),
        "not below its minimum": (
            (8, 8),
            [1.0, 1.0, 1.0],
            1e5,
            CountBounds(8, None, 8, None),
            None,
        ),
    },
)
def test_a_move_that_proved_useless_is_taken_back_while_nobody_waits(
    counts: tuple[int, int],
    speeds: list[float],
    seconds: float,
    bounds: CountBounds,
    back: tuple[int, int] | None,
) -> None:
    at = [Counts(1, 1), Counts(2, 2), Counts(8, 8)]
    known = measured(*((*each, speed) for each, speed in zip(at, speeds, strict=False)))
    wide, idle = job("a", counts, bounds=bounds), Sync(work=0.0, link=0.0, overhead=0.0, fixed=1.0)
    snapshot = ClusterSnapshot.of(AT, [wide], nodes(2, 16), bind(wide, ["node-00"] * sum(counts)))
    inputs = IntervalInput(snapshot, {wide.uid: known}, {wide.uid: JobHistory(user_counts=OWN)})
    by_fit = strategies({"a": steps(seconds, idle)})
    (decision,) = plan_interval("i1", inputs, by_fit, IntervalConfig()).decisions
    assert decision.counts == Counts(*(back or counts))
    assert ("it gives back what brings nothing" in decision.reason) is (back is not None)
    off = IntervalConfig(takes_back=False)
    (decision,) = plan_interval("i1", inputs, by_fit, off).decisions
    assert decision.action is Action.KEEP


def test_the_reason_names_the_limit() -> None:
    small = job("a")
    snapshot = ClusterSnapshot.of(AT, [small], nodes(4, 16), bind(small, ["node-00"] * 2))
    inputs = IntervalInput(snapshot, {small.uid: measured((1, 1, 1.0))})
    (decision,) = plan_interval(
        "i1", inputs, strategies({"a": steps(1e6)}), IntervalConfig()
    ).decisions
    assert max(decision.counts) == 8
    assert "is the most before it is measured to be faster with more than" in decision.reason
