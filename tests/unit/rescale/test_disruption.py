"""The disruption budget: which jobs may be stopped for a rescale now, and which of them first."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from optimus.jobs import Counts, Job, JobKey
from optimus.rescale.disruption import (
    NO_LIMIT,
    UNLIMITED,
    DisruptionBudget,
    DisruptionLimits,
    Limit,
    StoppedTime,
    rescale_order,
)
from optimus.rescale.purpose import RescalePurpose
from tests.unit.interval.cluster import job


def jobs(count: int, namespace: str = "default") -> list[Job]:
    """That many jobs of a namespace."""
    names = [f"{namespace}-{number}" for number in range(count)]
    return [job(name, key=JobKey(namespace, name)) for name in names]


def free_places(managed: list[Job], limits: DisruptionLimits, stopped: int) -> int:
    """How many more of the jobs are let stop, one after the other."""
    budget = DisruptionBudget(managed, limits)
    for each in managed[:stopped]:
        budget.note(each, is_stopped=True)
    found = 0
    for each in managed[stopped:]:
        if budget.allows(each, RescalePurpose.INTERVAL):
            budget.note(each, is_stopped=True)
            found += 1
    return found


@pytest.mark.parametrize(
    ("limit", "count", "stopped", "free"),
    [
        pytest.param(NO_LIMIT, 5, 2, 3, id="without a limit all"),
        pytest.param(Limit(number=3), 5, 0, 3, id="a number"),
        pytest.param(Limit(number=3), 5, 2, 1, id="those that are stopped count"),
        pytest.param(Limit(number=3), 5, 4, 0, id="none beyond it"),
        pytest.param(Limit(percent=50), 6, 0, 3, id="a share of the jobs"),
        pytest.param(Limit(percent=25), 5, 0, 2, id="a share is rounded up"),
        pytest.param(Limit(percent=1), 5, 0, 1, id="a small share is one job"),
        pytest.param(Limit(percent=100), 5, 0, 5, id="the whole"),
    ],
)
def test_as_many_jobs_as_the_limit_are_stopped_at_once(
    limit: Limit, count: int, stopped: int, free: int
) -> None:
    assert free_places(jobs(count), DisruptionLimits(limit), stopped) == free
    assert free_places(jobs(count), DisruptionLimits(namespace=limit), stopped) == free


def test_each_namespace_has_a_limit_beside_the_clusters() -> None:
    managed = [*jobs(4, "a"), *jobs(2, "b")]
    half = DisruptionLimits(namespace=Limit(percent=50))
    assert free_places(managed, half, 0) == 2 + 1
    assert free_places(managed, replace(half, cluster=Limit(number=2)), 0) == 2


def test_a_job_that_trains_again_does_not_count() -> None:
    first, second = jobs(2)
    budget = DisruptionBudget([first, second], DisruptionLimits(Limit(number=1)))
    budget.note(first, is_stopped=True)
    assert not budget.allows(second, RescalePurpose.INTERVAL)
    budget.note(first, is_stopped=False)
    assert budget.allows(second, RescalePurpose.INTERVAL)


@pytest.mark.parametrize("purpose", RescalePurpose)
def test_what_is_urgent_is_not_held_back(purpose: RescalePurpose) -> None:
    first, second = jobs(2)
    budget = DisruptionBudget([first, second], DisruptionLimits(Limit(number=1), Limit(number=1)))
    budget.note(first, is_stopped=True)
    urgent = {
        RescalePurpose.TURN,
        RescalePurpose.TAKE_BACK,
        RescalePurpose.RESTART,
        RescalePurpose.RECOVERY,
        RescalePurpose.PREEMPTION,
    }
    assert budget.allows(second, purpose) is (purpose in urgent)


def test_a_job_that_is_stuck_counts_in_its_own_namespace_alone() -> None:
    managed = [*jobs(2, "a"), *jobs(2, "b")]
    limits = DisruptionLimits(Limit(number=1), Limit(percent=50))
    budget, (stuck, own, other, _) = DisruptionBudget(managed, limits), managed
    budget.note(stuck, is_stopped=True)
    assert not budget.allows(other, RescalePurpose.INTERVAL)
    budget.note(stuck, is_stopped=True, is_stuck=True)
    assert budget.allows(other, RescalePurpose.INTERVAL)
    assert not budget.allows(own, RescalePurpose.INTERVAL)
    budget.note(stuck, is_stopped=True)
    assert not budget.allows(other, RescalePurpose.INTERVAL)


def test_jobs_of_a_namespace_that_has_used_too_much_hold_back_only_their_own() -> None:
    managed = [*jobs(2, "a"), *jobs(2, "b")]
    stopped, own, other, last = managed
    budget = DisruptionBudget(managed, DisruptionLimits(Limit(number=1)), {"a"})
    budget.note(stopped, is_stopped=True)
    assert budget.allows(other, RescalePurpose.INTERVAL)
    assert not budget.allows(own, RescalePurpose.INTERVAL)
    budget.note(other, is_stopped=True)
    assert not budget.allows(last, RescalePurpose.INTERVAL)


def held_back_seconds(stopped: Callable[[int], int], part: float) -> int:
    """For how many seconds of six hours a namespace counts against the cluster's limit."""
    time = StoppedTime()
    over = (time.note({"a": stopped(at)}, part, float(at)) for at in range(6 * 3600))
    return sum("a" not in each for each in over)


def test_a_namespace_whose_jobs_never_start_again_does_not_hold_back_the_others_for_ever() -> None:
    """Whether it is one job, or another one every ten minutes."""
    assert held_back_seconds(lambda _: 1, 0.5) == 1201
    assert held_back_seconds(lambda at: int(at % 600 > 10), 0.5) < 1300


def test_a_namespace_that_stops_its_part_may_do_so_all_the_time() -> None:
    assert held_back_seconds(lambda at: int(at % 600 < 300), 0.5) == 6 * 3600
    assert held_back_seconds(lambda _: 3, math.inf) == 6 * 3600


def test_a_job_that_is_stopped_goes_on() -> None:
    first, _ = managed = jobs(2)
    budget = DisruptionBudget(managed, DisruptionLimits(Limit(number=1)))
    budget.note(first, is_stopped=True)
    assert budget.allows(first, RescalePurpose.INTERVAL)


def test_what_releases_capacity_is_first_and_then_the_largest_gain() -> None:
    one, two, interval = Counts(1, 1), Counts(1, 2), RescalePurpose.INTERVAL
    rescales = {
        "gains little": (interval, one, two, 10.0),
        "gains much": (interval, one, two, 500.0),
        "shrinks": (interval, two, one, -30.0),
        "returns to its counts": (interval, one, one, 0.0),
        "is measured": (RescalePurpose.PROFILING, one, two, 0.0),
        "is begun elsewhere": (RescalePurpose.STRAGGLER, two, two, 100.0),
    }
    assert sorted(rescales, key=lambda name: rescale_order(*rescales[name])) == [
        "returns to its counts",
        "shrinks",
        "gains much",
        "is begun elsewhere",
        "gains little",
        "is measured",
    ]


@pytest.mark.parametrize(
    ("limit", "text"),
    [(Limit(number=4), "4"), (Limit(percent=25.0), "25%"), (NO_LIMIT, "no limit")],
)
def test_a_limit_is_written_as_its_setting(limit: Limit, text: str) -> None:
    assert str(limit) == text
    assert limit == NO_LIMIT or Limit.parse(text) == limit


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("4", Limit(number=4)),
        ("25%", Limit(percent=25.0)),
        ("999999", Limit(number=999_999)),
        ("1", Limit(number=1)),
        ("0", None),
        ("0%", None),
        ("", None),
        ("%", None),
        ("-1", None),
        ("1.5", None),
        ("1000000", None),
        ("²", None),
        ("5%%", None),
    ],
)
def test_a_limit_is_a_number_or_a_percentage(text: str, limit: Limit | None) -> None:
    assert Limit.parse(text) == limit


def test_by_default_nothing_is_limited() -> None:
    assert DisruptionLimits() == UNLIMITED
    assert free_places(jobs(3), UNLIMITED, 0) == 3
