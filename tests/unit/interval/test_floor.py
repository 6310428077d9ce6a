"""No job goes to counts at which a pod has more to bear than any pod had before."""

from dataclasses import replace

from optimus.allocation import FailedCounts, JobHistory
from optimus.jobs import Batch, BatchScope, CountBounds, Counts, TrainingMode
from optimus.models.forecast import Forecast
from optimus.progress.types import SpeedSample, TrainingProgress
from tests.cases import cases
from tests.unit.interval.cases import ON_NODE_00, Case, on_two_nodes
from tests.unit.interval.cluster import job, nodes, steps
from tests.unit.profiling.situations import cluster, measured_at, plan

OWN, ANY = Counts(8, 8), CountBounds()
BIG = replace(job("a", (8, 8)), mode=TrainingMode.SYNC)


def runs_of(history: JobHistory, bounds: CountBounds = ANY) -> list[Counts]:
    """The counts of all profiling runs of a job of 8 + 8."""
    own, progress, runs = replace(BIG, bounds=bounds), measured_at((8, 8)), list[Counts]()
    for _ in range(4):
        done = replace(history, profiled=tuple(runs))
        snapshot = cluster(replace(own, counts=runs[-1] if runs else OWN), cores=64)
        for move in plan(snapshot, {"a": progress}, {"a": done}):
            runs.append(move.counts)
            samples = (*progress.samples, SpeedSample(move.counts, 1.0, 60.0, 1.0))
            progress = TrainingProgress(samples=samples, trained_seconds=100.0)
    return runs


def test_profiling_stays_above_the_counts_that_have_run() -> None:
    runs = runs_of(JobHistory(floor=OWN))
    assert len(runs) == 4
    assert all(each.ps >= 8 and each.workers >= 8 for each in runs)


def test_profiling_goes_down_to_a_minimum_that_the_user_has_set() -> None:
    bounds = CountBounds(min_ps=4, min_workers=2, min_ps_given=True, min_workers_given=True)
    runs = runs_of(JobHistory(floor=OWN), bounds)
    assert min(each.ps for each in runs) < 8
    assert all(each.ps >= 4 and each.workers >= 2 for each in runs)


@cases(
    ("bounds", "floor", "minimum"),
    {
        "none set": (CountBounds(), (8, 8), (8, 8)),
        "of PSs": (CountBounds(min_ps=2, min_ps_given=True), (8, 8), (2, 8)),
        "a maximum below asks for less": (CountBounds(max_ps=4), (8, 8), (4, 8)),
        "more": (CountBounds(min_workers=9, min_workers_given=True), (8, 8), (8, 9)),
    },
)
def test_the_floor_is_the_minimum_where_the_user_has_set_none(
    bounds: CountBounds, floor: tuple[int, int], minimum: tuple[int, int]
) -> None:
    bounded = JobHistory(floor=Counts(*floor)).bounded(replace(BIG, bounds=bounds))
    assert bounded.bounds.minimum == Counts(*minimum)


@cases(
    ("mode", "batch", "splits"),
    {
        "sync: it may be the job's": (TrainingMode.SYNC, None, True),
        "a worker's own": (TrainingMode.SYNC, Batch(64, BatchScope.WORKER), False),
        "async: each worker's own": (TrainingMode.ASYNC, None, False),
        "said to be its": (TrainingMode.ASYNC, Batch(64, BatchScope.JOB), True),
    },
)
def test_fewer_workers_are_a_larger_share_only_of_a_batch_that_is_split(
    mode: TrainingMode, batch: Batch | None, splits: bool
) -> None:
    assert replace(BIG, mode=mode, batch=batch).splits_batch is splits


def test_a_waiting_job_does_not_shrink_another_below_what_its_pods_bear() -> None:
    running, waiting = job("a", (3, 5)), job("b", (1, 2))
    full = [(running, on_two_nodes("node-00", "node-01")), (waiting, [])]
    known = {"a": steps(100)}
    decided = Case(full, known, history={"a": JobHistory(floor=Counts(3, 5))}).decisions()
    assert decided["a"].counts == Counts(3, 5)
    decided = Case(full, known, history={"a": JobHistory(floor=Counts(2, 2))}).decisions()
    assert decided["a"].counts != Counts(3, 5)
    assert decided["a"].counts.ps >= 2
    assert decided["a"].counts.workers >= 2


@cases(
    ("failed", "before", "excluded", "allowed"),
    {
        "fewer PSs": ((1, 8), (8, 8), [(1, 8), (1, 16)], [(2, 8), (8, 8), (2, 2)]),
        "more workers": ((8, 16), (8, 8), [(8, 16), (9, 20)], [(8, 15), (8, 8)]),
        "fewer of both": ((4, 4), (8, 8), [(4, 4), (3, 2)], [(4, 8), (8, 4)]),
    },
)
def test_counts_at_which_a_job_failed_are_not_tried_again(
    failed: tuple[int, int],
    before: tuple[int, int],
    excluded: list[tuple[int, int]],
    allowed: list[tuple[int, int]],
) -> None:
    known = FailedCounts(Counts(*failed), Counts(*before), "worker-0 ended with exit code 137")
    assert [known.excludes(Counts(*each)) for each in (*excluded, *allowed)] == [
        *[True] * len(excluded),
        *[False] * len(allowed),
    ]


def test_an_interval_does_not_go_where_the_job_failed() -> None:
    failed = FailedCounts(Counts(1, 3), Counts(1, 1), "worker-2 ended with exit code 137")
    growing = Case([(job("a"), ON_NODE_00)], {"a": steps(1000)}, nodes=nodes(2, 4))
    assert growing.decisions()["a"].counts.workers >= 3
    growing.history = {"a": JobHistory(failed_counts=(failed,))}
    assert growing.decisions()["a"].counts.workers < 3


@cases("known", {"no forecast": {}, "a forecast": {"a": steps(1000)}})
def test_bounds_that_ask_for_counts_at_which_the_job_failed_are_not_followed(
    known: dict[str, Forecast],
) -> None:
    failed = FailedCounts(Counts(1, 3), Counts(1, 1), "worker-2 ended with exit code 137")
    bounds = CountBounds(min_workers=3, max_workers=3, max_ps=1, min_workers_given=True)
    case = Case([(job("a", bounds=bounds), ON_NODE_00)], known, nodes=nodes(2, 4))
    assert case.decisions()["a"].counts == Counts(1, 3)
    case.history = {"a": JobHistory(failed_counts=(failed,))}
    decision = case.decisions()["a"]
    assert decision.counts == Counts(1, 1)
    assert "it failed at 1 PS + 3 workers" in decision.reason
