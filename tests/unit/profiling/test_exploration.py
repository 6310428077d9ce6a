"""The one move of an interval that an old job makes to be measured."""

from dataclasses import replace

from optimus.allocation import JobHistory
from optimus.interval import IntervalConfig, ProfilingConfig
from optimus.interval.profiling import ProfilingMove, plan_exploration
from optimus.jobs import Counts, JobKey
from optimus.progress.types import TrainingProgress
from tests.cases import cases
from tests.unit.interval.cluster import job
from tests.unit.profiling.situations import (
    AT,
    FIRST,
    IN_VAIN,
    YOUNG,
    cluster,
    free_capacity,
    measured_at,
    measured_of,
)


def explore(progress: TrainingProgress, history: JobHistory | None = None) -> ProfilingMove | None:
    snapshot, measured = (
        cluster(YOUNG),
        measured_of({"a": progress}, {"a": history or JobHistory()}),
    )
    return plan_exploration(snapshot, measured, free_capacity(snapshot), IntervalConfig())


def test_an_old_job_that_is_not_identified_makes_one_exploratory_move() -> None:
    move = explore(measured_at((1, 2), trained=7000))
    assert move is not None
    assert move.reason.startswith("to measure its speed: ")
    assert move.counts != YOUNG.counts


def test_a_young_job_makes_one_once_it_has_had_all_its_runs() -> None:
    runs = ProfilingConfig().runs
    assert explore(FIRST, JobHistory(profiled=(Counts(1, 1),) * (runs - 1))) is None
    assert explore(FIRST, JobHistory(profiled=(Counts(1, 1),) * runs)) is not None


@cases(
    ("progress", "history"),
    {
        "a young one is profiled instead": (FIRST, None),
        "an identified one needs none": (
            measured_at((1, 2), (2, 4), (3, 3), (1, 1), trained=7000),
            None,
        ),
        "one not measured where it is yet": (measured_at((1, 2), seconds=5, trained=7000), None),
        "one in the middle of a rescale": (
            measured_at((1, 2), trained=7000),
            JobHistory(rescaling_to=Counts(1, 1)),
        ),
        "one rescaled too often": (
            measured_at((1, 2), trained=7000),
            JobHistory(moves=(AT - 60,) * 5),
        ),
        "one that was just rescaled": (
            measured_at((1, 2), trained=7000),
            JobHistory(last_rescaled_at=AT - 10),
        ),
        "one whose pods just found no place": (
            measured_at((1, 2), trained=7000),
            JobHistory(placement_failures=(IN_VAIN,)),
        ),
    },
)
def test_makes_no_exploratory_move(progress: TrainingProgress, history: JobHistory | None) -> None:
    assert explore(progress, history) is None


def test_exploratory_moves_go_to_the_namespaces_in_turn() -> None:
    jobs = [
        replace(job(name, (1, 2)), key=JobKey(namespace, name), created_at=created_at)
        for created_at, (name, namespace) in enumerate([("a", "x"), ("b", "x"), ("c", "y")])
    ]
    snapshot = cluster(*jobs)
    measured = measured_of({name: measured_at((1, 2), trained=7000) for name in "abc"})
    free = free_capacity(snapshot)
    moves = [
        plan_exploration(snapshot, measured, free, IntervalConfig(), turn=turn) for turn in range(4)
    ]
    assert [move and move.uid for move in moves] == ["uid-a", "uid-c", "uid-a", "uid-c"]
