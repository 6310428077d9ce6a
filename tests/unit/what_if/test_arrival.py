"""When a job that comes now would start and end."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from optimus.allocation import NO_HISTORY, JobHistory
from optimus.errors import NotReady
from optimus.interval import IntervalConfig
from optimus.interval.capacity_plan import Claim
from optimus.interval.decision_settings import DecisionSettings
from optimus.jobs import CountBounds, Counts, Job, JobKey
from optimus.models.forecast import Forecast, TimeLeft, time_left
from optimus.policies import policy_named
from optimus.quotas import Quota, QuotaCharge
from optimus.resources import Resources
from optimus.snapshot import ClusterSnapshot
from optimus.what_if.arrival import ARRIVING_UID, Arrival, Arriving, arrival, duration_of
from optimus.what_if.counts import DecisionBasis
from tests.cases import cases
from tests.unit.interval.cases import AT
from tests.unit.interval.cluster import bind, done, expecting, job, nodes, steps

ONE = Resources({"requests.cpu": 1000})
FIXED = CountBounds(min_ps=2, min_workers=2, max_ps=2, max_workers=2)
DEFAULT = DecisionSettings()
HOUR = TimeLeft(3000, 3600, 4500)


def running(name: str, **settings: Any) -> Job:
    """A job of 2 PSs and 2 workers that may have no others."""
    return job(name, (2, 2), bounds=FIXED, **settings)


def coming(counts: tuple[int, int] = (2, 2), **settings: Any) -> Job:
    return replace(running("new", **settings), uid=ARRIVING_UID, counts=Counts(*counts))


def asked(
    new: Job,
    placed: Sequence[Job],
    work: dict[str, float],
    *,
    cores: int = 8,
    waiting: Sequence[Job] = (),
    quotas: Sequence[Quota] = (),
    since: float = 0.0,
    settings: DecisionSettings = DEFAULT,
    history: JobHistory = NO_HISTORY,
) -> Arrival:
    """One node; ``work`` are the steps left of jobs by name."""
    pods = [pod for each in placed for pod in bind(each, ["node-00"] * sum(each.counts))]
    snapshot = ClusterSnapshot.of(AT, [*placed, *waiting], nodes(1, cores), pods)
    known = {
        each.uid: DecisionBasis(
            replace(steps(work[each.key.name]), late_factor=1.5)
            if each.key.name in work
            else NotReady("3 loss points, 5 needed"),
            AT - since,
            history=history,
        )
        for each in placed
    }
    return arrival(
        Arriving(
            new, replace(snapshot, quotas=tuple(quotas)), settings, known, duration=lambda _: HOUR
        )
    )


def median_left(of: Job, work: float) -> float:
    left = time_left(steps(work), of.counts)
    assert left is not None
    return left.median


def test_it_starts_at_once_where_there_is_room_and_ends_after_its_duration() -> None:
    found = asked(coming(), [running("a")], {"a": 100})
    assert found.starts == TimeLeft(0, 0, 0)
    assert found.ends == HOUR
    assert (found.waits_for, found.shrinks, found.refusal) == ((), (), "")


def test_it_waits_for_the_job_that_ends_first_as_surely_as_that_is_known() -> None:
    a, b = running("a"), running("b")
    found = asked(coming(), [a, b], {"a": 1000, "b": 100})
    left = median_left(b, 100)
    assert found.starts is not None
    assert found.starts.median == pytest.approx(left, abs=0.1)
    assert found.starts.high == pytest.approx(1.5 * left, abs=0.1)
    assert found.waits_for == ("team/b",)
    assert found.ends is not None
    assert found.ends.median == pytest.approx(left + 3600, abs=0.1)
    assert found.ends.high == pytest.approx(1.5 * left + 4500, abs=0.1)
    assert found.refusal


def test_what_was_done_since_the_forecast_is_not_waited_for() -> None:
    b = running("b")
    left = median_left(b, 100)
    found = asked(coming(), [running("a"), b], {"a": 1000, "b": 100}, since=left / 2)
    assert found.starts is not None
    assert found.starts.median == pytest.approx(left / 2, abs=0.2)


def test_it_may_need_the_room_of_several() -> None:
    a, b = running("a"), running("b")
    new = replace(coming((4, 4)), bounds=CountBounds(min_ps=4, min_workers=4))
    found = asked(new, [a, b], {"a": 1000, "b": 100})
    assert found.starts is not None
    assert found.starts.median == pytest.approx(median_left(a, 1000), abs=0.1)
    assert found.waits_for == ("team/b", "team/a")


def test_a_job_that_waits_already_goes_first() -> None:
    a, b = running("a"), running("b")
    found = asked(coming(), [a, b], {"a": 1000, "b": 100}, waiting=[running("w")])
    assert found.starts is not None
    assert found.starts.median == pytest.approx(median_left(a, 1000), abs=0.1)


def test_one_of_a_higher_priority_does_not_wait_for_it() -> None:
    """The extender plans gangs of a higher priority first."""
    a, b = running("a"), running("b")
    new = replace(coming(), priority=10)
    found = asked(new, [a, b], {"a": 1000, "b": 100}, waiting=[running("w")])
    assert found.starts is not None
    assert found.starts.median == pytest.approx(median_left(b, 100), abs=0.1)


def test_others_that_can_shrink_give_it_room_now() -> None:
    large = job("a", (4, 4))
    found = asked(coming(), [large], {"a": 1000})
    assert found.starts == TimeLeft(0, 0, 0)
    assert found.shrinks == ("team/a",)


def test_others_shrink_only_as_the_policy_and_the_limits_of_the_decision_let_them() -> None:
    large = job("a", (4, 4))
    fifo = replace(DEFAULT, policy=policy_named("fifo"))
    assert asked(coming(), [large], {"a": 1000}, settings=fifo).shrinks == ()
    # It may not be moved in its cooldown, and a cooldown of another length is over.
    moved = JobHistory(last_rescaled_at=AT - 40.0)
    assert asked(coming(), [large], {"a": 1000}, history=moved).shrinks == ()
    short = replace(DEFAULT, interval=IntervalConfig(cooldown_seconds=30.0))
    found = asked(coming(), [large], {"a": 1000}, history=moved, settings=short)
    assert found.shrinks == ("team/a",)


def test_jobs_of_which_only_an_expectation_is_known_shrink_where_that_decides() -> None:
    large = job("a", (4, 4))
    known = {large.uid: DecisionBasis(expecting(1000), AT)}
    snapshot = ClusterSnapshot.of(AT, [large], nodes(1, 8), bind(large, ["node-00"] * 8))
    for expects, shrinks in ((True, ("team/a",)), (False, ())):
        settings = replace(DEFAULT, expects=expects)
        assert arrival(Arriving(coming(), snapshot, settings, known)).shrinks == shrinks


def test_room_that_is_kept_for_a_rescale_in_progress_is_not_counted_on() -> None:
    a = running("a")
    snapshot = ClusterSnapshot.of(AT, [a], nodes(1, 8), bind(a, ["node-00"] * 4))
    target, no_forecast = Counts(2, 4), NotReady("3 loss points, 5 needed")
    known = {a.uid: DecisionBasis(no_forecast, AT, history=JobHistory(rescaling_to=target))}
    claims = [Claim(a, target, keeps_pods=True)]
    assert arrival(Arriving(coming(), snapshot, DEFAULT, known)).starts == TimeLeft(0, 0, 0)
    assert arrival(Arriving(coming(), snapshot, DEFAULT, known, claims)).starts is None


def test_a_job_that_ends_before_without_making_room_is_not_waited_for() -> None:
    """Its quota lacks what jobs of its own namespace hold."""
    a, other, new = running("a"), running("b", key=JobKey("other", "b")), coming()
    held = quota(6, a, new, held=[a])
    found = asked(new, [a, other], {"a": 1000, "b": 100}, cores=40, quotas=[held])
    assert found.waits_for == ("team/a",)


def test_without_an_end_of_others_its_start_is_not_known() -> None:
    found = asked(coming(), [running("a"), running("b")], {})
    assert found.starts is None
    assert found.ends is None
    assert set(found.without_end) == {"team/a", "team/b"}
    assert found.refusal


def test_a_job_that_no_node_holds_never_starts() -> None:
    new = replace(coming((20, 20)), bounds=CountBounds(min_ps=20, min_workers=20))
    found = asked(new, [running("a")], {"a": 10})
    assert found.starts is None
    assert found.without_end == ()


def test_a_job_at_its_goal_ends_at_no_time_that_is_known() -> None:
    a, b = running("a"), running("b")
    pods = [pod for each in (a, b) for pod in bind(each, ["node-00"] * 4)]
    snapshot = ClusterSnapshot.of(AT, [a, b], nodes(1, 8), pods)
    known = {a.uid: DecisionBasis(done(), AT), b.uid: DecisionBasis(steps(100), AT)}
    found = arrival(
        Arriving(replace(coming(), goal=None), snapshot, DEFAULT, known, duration=lambda _: HOUR)
    )
    assert found.without_end == ("team/a",)


@cases(
    ("forecast", "trained", "expected"),
    {
        "nothing is known": (None, 60.0, None),
        "there is no forecast yet": (NotReady("3 samples, 5 needed"), 60.0, None),
        "a young job": (replace(steps(100), is_expected=True), 60.0, None),
        "at its goal before it was seen": (done(), 0.0, None),
        "at its goal: as long as it trained": (done(), 60.0, TimeLeft(60, 60, 60)),
    },
)
def test_a_duration_that_is_not_forecast(
    forecast: Forecast | NotReady | None, trained: float, expected: TimeLeft | None
) -> None:
    assert duration_of(forecast, Counts(2, 2), trained) == expected


def test_a_duration_is_what_is_left_and_what_was_done_at_the_same_speed() -> None:
    quarter = replace(steps(100), progress_fraction=0.25, late_factor=1.5)
    left = median_left(running("a"), 100)
    found = duration_of(quarter, Counts(2, 2), 60.0)
    assert found is not None
    assert found.median == pytest.approx(left / 0.75, abs=0.2)
    assert found.high == pytest.approx(1.5 * left + left / 3, abs=0.2)
    faster = duration_of(quarter, Counts(4, 4), 60.0)
    assert faster is not None
    assert faster.median < found.median


def quota(room: int, *jobs: Job, held: Sequence[Job] = ()) -> Quota:
    charges = {
        each.uid: QuotaCharge(ONE, ONE, held=ONE * (sum(each.counts) if each in held else 0))
        for each in jobs
    }
    left = Resources({"requests.cpu": room * 1000})
    return Quota("team", "quota compute", ("requests.cpu",), left, charges)


def test_a_quota_holds_it_back_although_nodes_are_free() -> None:
    a, new = running("a"), coming()
    found = asked(new, [a], {"a": 100}, cores=40, quotas=[quota(6, a, new, held=[a])])
    assert found.starts is not None
    assert found.starts.median == pytest.approx(median_left(a, 100), abs=0.1)
    assert found.refusal.startswith("quota compute of namespace team leaves 2 of requests.cpu")


def test_the_end_of_a_job_of_another_namespace_makes_no_room_in_a_quota() -> None:
    a, other, new = running("a"), running("b", key=JobKey("other", "b")), coming()
    held = quota(6, a, new, held=[a])
    found = asked(new, [a, other], {"a": 1000, "b": 100}, cores=40, quotas=[held])
    assert found.starts is not None
    assert found.starts.median == pytest.approx(median_left(a, 1000), abs=0.1)


@cases(
    ("policy", "counts"),
    {
        "equal parts": ("drf", Counts(2, 2)),
        "short and small jobs first": ("tetris", Counts(1, 1)),
        "pauses the longer job": ("srtf", Counts(1, 1)),
    },
)
def test_a_policy_that_decides_anew_frees_capacity_at_once(policy: str, counts: Counts) -> None:
    """It decides all counts from scratch, so that the job that holds the whole node gives way."""
    new = replace(job("new", (1, 1)), uid=ARRIVING_UID)
    settings = DecisionSettings(policy_named(policy))
    assert not settings.policy.traits.weighs_restarts
    found = asked(new, [job("a", (3, 5))], {"a": 100_000}, settings=settings)
    assert found.starts == TimeLeft(0, 0, 0)
    assert (found.counts, found.shrinks) == (counts, ("team/a",))


def test_fifo_lets_it_wait_for_the_end_of_the_job_before_it() -> None:
    new = replace(job("new", (1, 1)), uid=ARRIVING_UID)
    settings = DecisionSettings(policy_named("fifo"))
    found = asked(new, [job("a", (3, 5))], {"a": 100_000}, settings=settings)
    assert (found.waits_for, found.shrinks) == (("team/a",), ())
