"""The paired live experiment: its jobs are the same on both sides, and its figures add up."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from benchmarks.live_jobs import (
    SENSIBLE,
    SENSIBLE_RANKS,
    PlannedJob,
    Saving,
    planned_jobs,
    planned_rank_jobs,
)
from benchmarks.live_report import (
    Circumstances,
    JobPair,
    Pair,
    figures,
    read_pair,
    stops,
    write_pair,
)
from benchmarks.live_run import JobRecord

ON_STOP = Saving(on_stop=True, every_seconds=3600)


def planned(name: str, counts: tuple[int, int] = (2, 3)) -> PlannedJob:
    (found,) = [each for each in planned_jobs(1, counts, 300, ON_STOP) if name in each.job.name]
    return found


def test_jobs_take_about_the_mean_at_sensible_counts_with_servers_and_as_ranks() -> None:
    for plan, sensible in ((planned_jobs, SENSIBLE), (planned_rank_jobs, SENSIBLE_RANKS)):
        for each in plan(1, sensible, 300, ON_STOP):
            assert 150 < each.training_seconds(*sensible) < 450


def test_the_steps_of_a_job_do_not_depend_on_its_counts() -> None:
    few, many = (planned_jobs(1, counts, 300, ON_STOP) for counts in ((1, 2), (5, 5)))
    assert [each.steps for each in few] == [each.steps for each in many]
    assert [each.arrives_at for each in few] == [each.arrives_at for each in many]
    assert all(
        slow.training_seconds(1, 2) > fast.training_seconds(5, 5)
        for slow, fast in zip(few, many, strict=True)
    )


def test_a_deadline_is_met_at_the_counts_of_the_user() -> None:
    job = planned("d-deadline")
    assert job.slack_seconds > job.training_seconds(2, 3) + 10
    assert "optimus.dl/finish-by" in (job.created(1000.0).annotations or {})
    assert "optimus.dl/finish-by" not in (planned("a-loss").created(1000.0).annotations or {})


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


def test_a_pair_is_read_as_it_was_written(tmp_path: Path) -> None:
    pair = a_pair(JobPair("a", MOVED, UNTOUCHED, 300.0))
    sides = [Records("managed", {"a": MOVED}), Records("untouched", {"a": UNTOUCHED})]
    write_pair(tmp_path, sides, ALONE)
    again = read_pair(tmp_path)
    assert figures([pair._replace(name=again.name)]) == figures([again])
