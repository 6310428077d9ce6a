"""The paired live experiment: its jobs are the same on both sides, and its figures add up."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest

from autoscaler.settings import Settings
from benchmarks.live_jobs import PlannedJob, Saving, planned_jobs, step_seconds
from benchmarks.live_report import (
    Circumstances,
    JobPair,
    Pair,
    figures,
    forecast_errors,
    interval,
    read_pair,
    slowdown,
    stops,
    timeline,
    write_pair,
)
from benchmarks.live_run import JobRecord, faster_tuning
from examples.light.problem import Problem
from tests.cases import cases

ON_STOP = Saving(on_stop=True, every_seconds=3600)


def planned(name: str, counts: tuple[int, int] = (2, 3)) -> PlannedJob:
    (found,) = [each for each in planned_jobs(1, counts, 300, ON_STOP) if name in each.job.name]
    return found


def test_the_steps_of_a_job_do_not_depend_on_its_counts() -> None:
    few, many = (planned_jobs(1, counts, 300, ON_STOP) for counts in ((1, 2), (5, 5)))
    assert [each.steps for each in few] == [each.steps for each in many]
    assert [each.arrives_at for each in few] == [each.arrives_at for each in many]
    assert all(
        slow.training_seconds(1, 2) > fast.training_seconds(5, 5)
        for slow, fast in zip(few, many, strict=True)
    )


def test_a_synchronous_job_does_not_meet_its_loss_before_its_last_epoch() -> None:
    job = planned("a-loss")
    assert job.job.annotations
    target = float(job.job.annotations["optimus.dl/target-loss"])
    rate = float(job.job.flags["--learning-rate"])
    problem, parameters, losses = Problem(1), Problem.initial_parameters(), []
    for step in range(job.steps):
        gradient = problem.gradient(parameters, step * 64, 64)
        parameters = parameters - rate * gradient.values / 64
        losses.append(gradient.loss / 64)
    epochs = [sum(losses[first : first + 20]) / 20 for first in range(0, job.steps, 20)]
    assert not any(max(pair) <= target for pair in pairwise(epochs))


def test_a_deadline_is_met_at_the_counts_of_the_user() -> None:
    job = planned("d-deadline")
    assert job.slack_seconds > job.training_seconds(2, 3) + 10
    assert "optimus.dl/finish-by" in (job.created(1000.0).annotations or {})
    assert "optimus.dl/finish-by" not in (planned("a-loss").created(1000.0).annotations or {})


@cases(
    ("saving", "expected"),
    {
        "jobs save when they are stopped": (ON_STOP, ("true", "1", "3600")),
        "jobs save now and then": (Saving(False, 30), ("false", "0", "30")),
    },
)
def test_jobs_save_as_asked(saving: Saving, expected: tuple[str, str, str]) -> None:
    for each in planned_jobs(1, (1, 2), 300, saving):
        own = each.job.annotations or {}, each.job.flags
        assert (
            own[0]["optimus.dl/saves-on-stop"],
            own[1]["--saves-on-stop"],
            own[1]["--checkpoint-seconds"],
        ) == expected


def test_asynchronous_workers_add_up_until_the_links_bind() -> None:
    costs = planned("b-async").costs
    assert step_seconds(costs, 2, 3, False) == pytest.approx(
        step_seconds(costs, 2, 1, False) / 3, rel=0.01
    )
    assert step_seconds(costs, 1, 1000, False) > costs.model_bytes * 8 * 2 / 1e8


def test_settings_are_ten_times_faster() -> None:
    tuning = faster_tuning(recommends=True).autoscaler
    assert float(tuning["interval_seconds"]) == Settings().interval_seconds / 10
    assert "lease_seconds" not in tuning, "a busy machine needs it in full"
    assert tuning["recommend"] == "true"


def record(ended: float | None, *runs: list[tuple[float, int]]) -> JobRecord:
    own = JobRecord("a", (2, 3), 100.0, ended=ended, runs=list(runs))
    return replace(own, counts=[(0.0, 2, 3)])


@dataclass
class Records:
    """What was seen on one cluster."""

    name: str
    records: Mapping[str, JobRecord]


MOVED = record(80.0, [(1.0, 1), (21.0, 21)], [(30.0, 20), (31.0, 21), (32.0, 22), (79.0, 100)])


def test_a_stop_is_what_was_not_trained_and_what_was_trained_again() -> None:
    (stop,) = stops(MOVED)
    assert (stop.at, stop.stopped_seconds, stop.redone_seconds, stop.lost_steps) == (21, 8, 2, 2)
    # 49 s at 80 steps instead of 49.
    assert stop.saved_seconds == pytest.approx(49 * (80 / 49 - 1) - 10)
    (nothing_lost,) = stops(record(80.0, [(1.0, 1), (21.0, 21)], [(30.0, 22)]))
    assert (nothing_lost.redone_seconds, nothing_lost.lost_steps) == (0, 0)


@cases(
    ("rescale", "reason"),
    {
        "a profiling run": ({"purpose": "profiling", "why": "measures"}, "profiling"),
        "a growth by expectation": (
            {"purpose": "profiling", "why": "estimated from its first measurements; more"},
            "expected growth",
        ),
        "a shrink for another": (
            {"purpose": "interval", "why": "estimated; releases capacity to a/b"},
            "releases capacity",
        ),
        "none that is known": ({}, "other"),
    },
)
def test_a_stop_names_its_reason(rescale: dict[str, str], reason: str) -> None:
    told = [(20.0, {"rescale": rescale}), (50.0, {"rescale": {"why": "a later one"}})]
    (stop,) = stops(replace(MOVED, statuses=told))
    assert stop.why == reason
    found = figures([a_pair(JobPair("a", replace(MOVED, statuses=told), UNTOUCHED, 300.0))])
    assert found["stops by reason: number, seconds saved"] == {reason: [1, 21]}


def test_forecasts_are_compared_with_what_was_left() -> None:
    told = [(5.0, {}), (20.0, {"remainingSeconds": 40}), (40.0, {"remainingSeconds": 70})]
    one = replace(record(100.0, [(0.0, 1), (90.0, 90)]), statuses=told)
    never = replace(one, ended=None)
    assert forecast_errors([one, never]) == [-0.5]
    assert forecast_errors([one, never], part=0.3) == [pytest.approx(1 / 6)]


def test_an_untouched_job_is_compared_with_its_stated_costs() -> None:
    assert slowdown(record(110.0, [(1.0, 1), (100.0, 100)])) == pytest.approx(1.0)
    assert slowdown(MOVED) is None


ALONE = Circumstances(300.0, {"managed": 10.0, "untouched": 5.0}, 60, 1.0, 2)


def a_pair(*jobs: JobPair) -> Pair:
    return Pair("embedded-2+3-seed1", jobs, ALONE)


UNTOUCHED = record(100.0, [(1.0, 1), (100.0, 100)])


def test_figures_of_a_pair() -> None:
    unended = JobPair("b", replace(record(None), deadline=90.0), UNTOUCHED, 300.0)
    late = JobPair("c", replace(MOVED, deadline=70.0), replace(UNTOUCHED, deadline=100.0), 300.0)
    found = figures([a_pair(JobPair("a", MOVED, UNTOUCHED, 300.0), unended, late)])
    assert found["managed / untouched, sum of completion times"] == round(460 / 300, 3)
    assert found["jobs, the worst first"] == ["b 3.00", "a 0.80", "c 0.80"]
    assert found["deadlines missed that untouched meets"] == 1
    assert found["seconds to the first step, managed and untouched"] == [2, 3]
    assert (found["restarts"], found["steps lost"], found["not ended, managed"]) == (2, 4, 1)


def test_an_interval_of_equal_jobs_has_no_width() -> None:
    same = JobPair("a", MOVED, UNTOUCHED, 300.0)
    assert interval([a_pair(same, same)]) == (0.8, 0.8)


def test_a_timeline_shows_workers_and_stops() -> None:
    lines = list(timeline(a_pair(JobPair("a", MOVED, UNTOUCHED, 300.0))))
    managed = next(line for line in lines if " managed |" in line)
    assert "3" in managed
    assert "." in managed
    assert managed.rstrip("|").endswith(" ")


def test_a_pair_is_read_as_it_was_written(tmp_path: Path) -> None:
    pair = a_pair(JobPair("a", MOVED, UNTOUCHED, 300.0))
    sides = [Records("managed", {"a": MOVED}), Records("untouched", {"a": UNTOUCHED})]
    write_pair(tmp_path, sides, ALONE)
    again = read_pair(tmp_path)
    assert figures([pair._replace(name=again.name)]) == figures([again])
    assert list(timeline(pair._replace(name=again.name))) == list(timeline(again))
