"""Workloads in which jobs wait: tables, first in, first out, and how bounds are set."""

from pathlib import Path

import pytest

from benchmarks.pollux_workloads import (
    TABLES,
    WHOLE,
    Application,
    PolluxJob,
    Rule,
    outcome,
    packed,
    place,
    read_jobs,
    run,
    untouched,
)
from tests.cases import cases

_CIFAR = Application(TABLES / "cifar10")


def _job(name: str, own: int, *, left: float = 10_000.0, at: float = 0.0) -> PolluxJob:
    return PolluxJob(name, at, _CIFAR, own, 4096, left)


def test_steps_follow_the_tables() -> None:
    # The recorded training at this batch took 2011 steps.
    assert _CIFAR.steps(4096) == pytest.approx(2011, rel=0.1)
    assert _CIFAR.steps(128) == pytest.approx(39062, rel=0.01)
    # 1024 examples fit on a GPU: a worker alone accumulates four times as many.
    alone, four = (_CIFAR.step_seconds(4096, packed(each)) for each in (1, 4))
    assert 3 < alone / four < 4
    assert _CIFAR.most_workers(4096) == WHOLE


def test_a_job_is_predicted_from_those_of_its_workload_that_have_ended() -> None:
    ended, new = _job("ended", 8), _job("new", 2)
    for workers in (2, 4, 8):
        seconds = _CIFAR.step_seconds(4096, packed(workers))
        ended.seen[workers, len(packed(workers))] = seconds
    assert new.speed("alone").steps_per_second(0, 2) == pytest.approx(1.0, rel=0.01)
    new.earlier = (ended.as_earlier(),)
    true = _CIFAR.speed(4096).steps_per_second(0, 4)
    assert new.speed("fitted").steps_per_second(0, 4) == pytest.approx(true, rel=0.05)
    assert (new.most("fitted"), new.most("alone")) == (16, 16)


def test_untouched_jobs_wait_in_their_order_and_small_ones_fill_in() -> None:
    jobs = [_job("first", 40), _job("second", 40), _job("third", 24)]
    counts = untouched(jobs)
    assert counts == {"first": 40, "second": 0, "third": 24}
    place(jobs, counts)
    assert sorted(jobs[0].servers.values()) == [4] * 10
    assert untouched(jobs) == counts


@cases(
    ("bounds", "least", "started"),
    {
        "own counts kept": ("kept", 40, 2),
        "own counts first": ("first", 1, 3),
        "from the minimum": ("free", 1, 3),
    },
)
def test_jobs_go_below_their_own_counts_only_where_the_rule_says_so(
    bounds: str, least: int, started: int
) -> None:
    jobs = [_job("a", 40), _job("b", 40), _job("c", 24)]
    counts = Rule(bounds, -1.5).decide(jobs, 0.0)
    running = {name: each for name, each in counts.items() if each}
    assert len(running) == started
    assert sum(running.values()) <= WHOLE
    assert min(running.get(name, 40) for name in ("a", "b")) >= least
    if bounds == "first":
        assert all(counts[each.name] <= each.own for each in jobs)


def test_every_job_of_a_workload_ends_under_each_rule(tmp_path: Path) -> None:
    lines = (TABLES / "workloads" / "workload-1.csv").read_text().splitlines()
    few = tmp_path / "few.csv"
    few.write_text("\n".join(lines[:13]))
    before, makespan = run(TABLES, "true", 8.0, (few, "untouched"))
    assert list(before) == [each.name for each in read_jobs(TABLES, few)]
    for speeds in ("true", "fitted", "alone"):
        times, _ = run(TABLES, speeds, 8.0, (few, "first-root"))
        assert times.keys() == before.keys()
        found = outcome(times, makespan, before)
        assert found["ratio"] == pytest.approx(
            found["mean_jct_seconds"] * 12 / sum(before.values())
        )
        assert found["ratio"] < 1
