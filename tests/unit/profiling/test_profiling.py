"""Which job is measured next, and at which counts."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.allocation import JobHistory, PlacementFailure
from optimus.interval.profiling import (
    Expected,
    _untried,
    is_first_measured,
    is_fully_profiled,
    plan_profiling,
    return_counts,
    run_is_over,
    why_not_profiled,
)
from optimus.jobs import (
    Batch,
    BatchScope,
    CountBounds,
    Counts,
    Job,
    JobKey,
    RescaleRule,
    TrainingMode,
)
from optimus.progress.types import LossPoint, TrainingProgress
from optimus.resources import Resources
from optimus.snapshot import BoundPod
from tests.cases import cases
from tests.unit.interval.cluster import TASK, bind, expecting, job
from tests.unit.profiling.situations import (
    AT,
    CONFIG,
    FIRST,
    IN_VAIN,
    YOUNG,
    cluster,
    free_capacity,
    measured_at,
    measured_of,
    plan,
)


def test_a_young_job_is_measured_at_other_counts_than_its_own() -> None:
    (move,) = plan(cluster(YOUNG), {"a": FIRST})
    assert move.counts != YOUNG.counts
    assert move.reason.startswith("run 1 measures its speed")


def test_the_runs_identify_the_model_and_never_repeat() -> None:
    progress, profiled, given_job = FIRST, list[Counts](), YOUNG
    for _ in range(CONFIG.runs):
        history = {"a": JobHistory(profiled=tuple(profiled))}
        (move,) = plan(cluster(given_job), {"a": progress}, history)
        assert move.counts not in {*profiled, YOUNG.counts}
        profiled.append(move.counts)
        given_job = replace(YOUNG, counts=move.counts)
        progress = measured_at((1, 2), *[(each.ps, each.workers) for each in profiled])
    assert any(counts.ps != counts.workers for counts in profiled)
    assert (
        plan(cluster(given_job), {"a": progress}, {"a": JobHistory(profiled=tuple(profiled))}) == ()
    )


REFUSALS: list[tuple[str, Job, TrainingProgress, JobHistory, str]] = [
    (
        "its own counts come first",
        YOUNG,
        measured_at((1, 2), seconds=30),
        JobHistory(),
        "is being measured",
    ),
    (
        "it has trained too long",
        YOUNG,
        measured_at((1, 2), trained=700),
        JobHistory(),
        "has trained 700 s",
    ),
    (
        "all runs were made",
        YOUNG,
        FIRST,
        JobHistory(profiled=(Counts(1, 1),) * 4),
        "4 profiling runs",
    ),
    (
        "its workload is known",
        YOUNG,
        FIRST,
        JobHistory(workload_known=True),
        "known from earlier runs",
    ),
    (
        "it says never",
        job("a", (1, 2), rescale=RescaleRule.NEVER),
        FIRST,
        JobHistory(),
        "may not be rescaled",
    ),
    ("it is not managed", job("a", (1, 2), goal=None), FIRST, JobHistory(), "may not be rescaled"),
    (
        "it is suspended",
        job("a", (1, 2), suspended=True),
        FIRST,
        JobHistory(),
        "may not be rescaled",
    ),
    (
        "its user moved the bounds",
        job("a", (1, 2), bounds=CountBounds(min_workers=3)),
        FIRST,
        JobHistory(),
        "may not be",
    ),
    (
        "its pods just found no place",
        YOUNG,
        FIRST,
        JobHistory(placement_failures=(IN_VAIN,)),
        "were not placed",
    ),
    (
        "it is being rescaled",
        YOUNG,
        FIRST,
        JobHistory(rescaling_to=Counts(2, 2)),
        "may not be rescaled",
    ),
    (
        "its goal is met",
        YOUNG,
        replace(
            FIRST, losses=tuple(LossPoint(0.05, float(epoch), epoch * 10) for epoch in range(1, 9))
        ),
        JobHistory(),
        "goal is met",
    ),
]


@pytest.mark.parametrize(
    ("given_job", "progress", "history", "reason"),
    [each[1:] for each in REFUSALS],
    ids=[each[0] for each in REFUSALS],
)
def test_is_not_profiled(
    given_job: Job, progress: TrainingProgress, history: JobHistory, reason: str
) -> None:
    snapshot, measured = cluster(given_job), measured_of({"a": progress}, {"a": history})
    assert reason in (why_not_profiled(given_job, snapshot, measured, CONFIG) or "")
    assert plan(snapshot, {"a": progress}, {"a": history}) == ()


def test_an_old_job_that_saves_when_it_is_stopped_is_profiled() -> None:
    old = {"a": measured_at((1, 2), trained=7000)}
    assert not plan(cluster(YOUNG), old)
    (move,) = plan(cluster(YOUNG), old, {"a": JobHistory(saves_on_stop=True)})
    assert move.counts != YOUNG.counts


def test_a_job_of_which_not_all_pods_are_bound_is_not_profiled() -> None:
    assert plan(cluster(YOUNG, bound=False), {"a": FIRST}) == ()


def test_room_that_is_not_free_is_not_used() -> None:
    full = [BoundPod("x", "node-01", TASK * 16), BoundPod("y", "node-00", TASK * 13)]
    moves = plan(cluster(YOUNG, others=full), {"a": FIRST})
    assert all(sum(move.counts) <= 3 for move in moves)


def test_the_room_of_pods_being_deleted_is_not_free_yet() -> None:
    full = [BoundPod("x", "node-01", TASK * 16, leaving=True), BoundPod("y", "node-00", TASK * 13)]
    assert all(sum(move.counts) <= 3 for move in plan(cluster(YOUNG, others=full), {"a": FIRST}))


def test_the_oldest_two_come_first() -> None:
    jobs = [job(name, (1, 2), created_at=float(-index)) for index, name in enumerate("abc")]
    moves = plan(cluster(*jobs), dict.fromkeys("abc", FIRST))
    assert [move.uid for move in moves] == ["uid-c", "uid-b"]


@given(
    failed_counts=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 8)), min_size=1, max_size=5)
)
def test_counts_that_found_no_place_are_not_measured_nor_what_asks_for_as_much(
    failed_counts: list[tuple[int, int]],
) -> None:
    failed = tuple(
        PlacementFailure(Counts(*each), Counts(1, 2), AT - 80_000, 60.0) for each in failed_counts
    )
    for move in plan(cluster(YOUNG), {"a": FIRST}, {"a": JobHistory(placement_failures=failed)}):
        assert not any(
            move.counts.ps >= ps and move.counts.workers >= workers for ps, workers in failed_counts
        )


def test_after_each_failure_half_of_what_is_left_is_tried() -> None:
    """A quota of 6 pods, of which nobody tells: three tries find it, however wide the nodes are."""
    tried, failed, at = [], list[PlacementFailure](), AT
    for _ in range(20):
        history = {"a": JobHistory(placement_failures=tuple(failed))}
        snapshot = replace(cluster(YOUNG), at=at)
        moves = plan(snapshot, {"a": FIRST}, history)
        at += 600.0
        if not moves:
            continue
        tried.append(moves[0].counts)
        if sum(moves[0].counts) <= 6:
            break
        failed.append(PlacementFailure(moves[0].counts, YOUNG.counts, at, 600.0))
    assert sum(tried[-1]) <= 6
    assert len(tried) <= 4


def test_jobs_under_way_count_and_go_on() -> None:
    jobs = [job(name, (1, 2)) for name in "abc"]
    history = {
        "b": JobHistory(profiling_since=AT - 90, profiled=(Counts(1, 2),)),
        "c": JobHistory(profiling_since=AT - 5),
    }
    progress = {"a": FIRST, "b": FIRST, "c": measured_at((1, 2), seconds=4)}
    assert [move.uid for move in plan(cluster(*jobs), progress, history)] == ["uid-b"]


@cases(
    ("under_way", "begun"),
    {
        "of each the oldest": (0, ["uid-t0", "uid-honest"]),
        "first that of which nothing is being profiled": (1, ["uid-honest"]),
    },
)
def test_many_old_jobs_of_one_namespace_leave_places_to_the_others(
    under_way: int, begun: list[str]
) -> None:
    tenant = [job(f"t{n}", (1, 2), key=JobKey("tenant", f"t{n}")) for n in range(5)]
    honest = job("honest", (1, 2), key=JobKey("honest", "honest"), created_at=AT - 1)
    history = {f"t{n}": JobHistory(profiling_since=AT - 5) for n in range(under_way)}
    progress = dict.fromkeys([each.key.name for each in (*tenant, honest)], FIRST)
    progress |= {name: measured_at((1, 2), seconds=4) for name in history}
    moves = plan(cluster(*tenant, honest), progress, history)
    assert [move.uid for move in moves] == begun


@cases(
    ("running", "waiting", "begun"),
    {
        "two of a few": (3, 0, 2),
        "two are not less than a third of eight": (8, 0, 2),
        "a third of many": (12, 0, 4),
        "jobs that wait are no reason to stop more of those that run": (3, 9, 2),
    },
)
def test_a_third_of_the_running_jobs_is_profiled_at_once(
    running: int, waiting: int, begun: int
) -> None:
    jobs = [job(f"job-{n:02}", (1, 2)) for n in range(running + waiting)]
    pods = [
        pod
        for n, each in enumerate(jobs[:running])
        for pod in bind(each, [f"node-{n:02}"] * sum(each.counts))
    ]
    progress = {f"job-{n:02}": FIRST for n in range(running)}
    assert len(plan(cluster(*jobs, bound=False, others=pods), progress)) == begun


@cases(
    ("measures", "begun"),
    {
        "on their way to a run count": (True, []),
        "on any other way do not, though they were measured at its end once": (False, ["a"]),
    },
)
def test_jobs_in_a_rescale(measures: bool, begun: list[str]) -> None:
    jobs = [job(name, (1, 2)) for name in "abc"]
    moving = JobHistory(rescaling_to=Counts(2, 2), profiled=(Counts(2, 2),), measures=measures)
    history = {"b": moving, "c": moving}
    moves = plan(cluster(*jobs), dict.fromkeys("abc", FIRST), history)
    assert [move.uid for move in moves] == [f"uid-{name}" for name in begun]


def test_two_runs_at_once_do_not_share_room() -> None:
    jobs = [job(name, (1, 2)) for name in "ab"]
    moves = plan(cluster(*jobs, cores=4), dict.fromkeys("ab", FIRST))
    assert len(moves) == 2
    assert sum(sum(move.counts) for move in moves) <= 12


@cases(
    ("seconds", "since", "over"),
    {
        "not enough steady training yet": (59.0, 100.0, None),
        "enough of it": (60.0, 100.0, "60 s of steady training at 1 PS + 2 workers"),
        "it does not train": (0.0, 301.0, "no 60 s of steady training"),
    },
)
def test_a_run_is_over(seconds: float, since: float, over: str | None) -> None:
    measured = measured_of(
        {"a": measured_at((1, 2), seconds=seconds)},
        {"a": JobHistory(profiling_since=AT - since, profiled=(Counts(1, 2),))},
    )
    found = run_is_over(YOUNG, AT, measured, CONFIG)
    assert found == over or (over is not None and found is not None and over in found)


@given(
    bounds=st.builds(
        CountBounds, st.integers(1, 6), st.none(), st.integers(1, 3), st.integers(3, 5)
    ),
    cores=st.integers(9, 20),
)
def test_a_run_keeps_to_the_bounds_and_to_the_room(bounds: CountBounds, cores: int) -> None:
    given_job = replace(YOUNG, bounds=bounds, counts=bounds.minimum)
    for move in plan(cluster(given_job, cores=cores), {"a": measured_at(bounds.minimum)}):
        assert bounds.allow(move.counts)
        assert sum(move.counts) <= 2 * cores


NARROW = replace(YOUNG, bounds=CountBounds(max_ps=1, max_workers=3))


@cases(
    ("given_job", "progress", "history", "none_follows"),
    {
        "before the first": (YOUNG, FIRST, JobHistory(), False),
        "after as many as there are to be": (
            YOUNG,
            FIRST,
            JobHistory(profiled=(Counts(1, 1),) * 4),
            True,
        ),
        "of a job that is too old for it": (
            YOUNG,
            measured_at((1, 2), trained=700),
            JobHistory(),
            True,
        ),
        "bounds leave one more": (
            NARROW,
            measured_at((1, 1), (1, 2)),
            JobHistory(profiled=(Counts(1, 1),)),
            False,
        ),
        "all that narrow bounds allow are measured": (
            NARROW,
            measured_at((1, 1), (1, 2), (1, 3)),
            JobHistory(),
            True,
        ),
        "during the last": (
            YOUNG,
            FIRST,
            JobHistory(profiled=(Counts(1, 1),) * 4, profiling_since=AT),
            False,
        ),
    },
)
def test_whether_a_run_follows(
    given_job: Job, progress: TrainingProgress, history: JobHistory, none_follows: bool
) -> None:
    assert (
        is_fully_profiled(given_job, measured_of({"a": progress}, {"a": history}), CONFIG)
        is none_follows
    )


@cases(
    ("counts", "own", "bounds", "expected"),
    {
        "it is where a run has put it": ((2, 2), Counts(1, 3), CountBounds(), Counts(1, 3)),
        "its user moved the bounds": (
            (2, 2),
            Counts(1, 3),
            CountBounds(max_workers=2),
            Counts(1, 2),
        ),
        "an interval has put it elsewhere": ((3, 3), Counts(1, 3), CountBounds(), None),
        "an interval has put it there": ((2, 2), None, CountBounds(), None),
    },
)
def test_the_counts_before_profiling_are_those_of_the_user_within_the_bounds(
    counts: tuple[int, int], own: Counts | None, bounds: CountBounds, expected: Counts | None
) -> None:
    history = JobHistory(own_counts=own, profiled=(Counts(2, 1), Counts(2, 2)))
    assert return_counts(job("a", counts, bounds=bounds), history) == expected


@cases(
    ("trained", "is_measured"),
    {"young": (599.0, True), "as old as a young one must not be": (600.0, False)},
)
def test_the_first_measurement_is_that_of_a_young_job(trained: float, is_measured: bool) -> None:
    progress = measured_at((1, 2), trained=trained)
    assert CONFIG.trained_limit_seconds == 600
    assert is_first_measured(YOUNG, progress, JobHistory(), CONFIG) is is_measured


def test_a_job_with_a_batch_for_each_worker_is_measured_by_its_own_speed_model() -> None:
    """Its step takes as long with more workers; a shared batch is divided among them."""
    samples = measured_at((2, 2), (1, 4), (1, 2))
    counts = set()
    for scope in BatchScope:
        sync = job("a", (1, 2), mode=TrainingMode.SYNC, batch=Batch(64, scope))
        (move,) = plan(cluster(sync), {"a": samples})
        counts.add(move.counts)
    assert len(counts) == 2


@cases(
    ("price_seconds", "hysteresis_fraction", "begins"),
    {
        "what it saves is more than two restarts": (1.0, 0.0, True),
        "what it saves is too small a part of what is left": (1.0, 0.9, False),
        "two restarts cost more": (1e6, 0.0, False),
    },
)
def test_a_run_has_to_save_more_than_it_costs(
    price_seconds: float, hysteresis_fraction: float, begins: bool
) -> None:
    known = Expected(expecting(10_000), price_seconds, hysteresis_fraction)
    snapshot, measured = cluster(YOUNG), measured_of({"a": FIRST})
    free = free_capacity(snapshot)
    moves = plan_profiling(snapshot, measured, free, CONFIG, lambda *_: known)
    assert bool(moves) is begins


@cases(
    ("minimum", "most", "untried"),
    {
        "one of each is all that a run may have": ((1, 1), 1, False),
        "beyond a larger minimum there is always some to choose": ((1, 2), 2, True),
    },
)
def test_the_most_tasks_of_a_run(minimum: tuple[int, int], most: int, untried: bool) -> None:
    config = replace(CONFIG, max_replicas=most)
    bounds = CountBounds(min_ps=minimum[0], max_ps=1, min_workers=minimum[1])
    given_job = job("a", minimum, bounds=bounds)
    measured = measured_of({"a": measured_at(minimum)})
    assert is_fully_profiled(given_job, measured, config) is not untried


def test_nothing_is_worked_out_of_a_job_of_which_no_run_fits() -> None:
    asked = list[Job]()

    def expected(of: Job, *_: object) -> None:
        asked.append(of)

    young = job("a", (1, 2), bounds=CountBounds(min_workers=2))
    snapshot = cluster(young, cores=3)
    full = [*snapshot.pods, BoundPod("p", "node-01", Resources(cpu=3000, pods=1))]
    snapshot = replace(snapshot, pods=tuple(sorted(full, key=lambda each: each.uid)))
    free = free_capacity(snapshot)
    assert plan_profiling(snapshot, measured_of({"a": FIRST}), free, CONFIG, expected) == ()
    assert asked == []


def test_of_hundreds_of_young_jobs_some_of_each_namespace_are_looked_at() -> None:
    """Whatever is found of them: each takes milliseconds, at every tick."""
    asked = set[str]()

    def expected(of: Job, *_: object) -> Expected:
        asked.add(of.uid)
        return Expected(expecting(1e9), 1e9, 1.0)  # no run is worth its restart

    names = [f"j{number}" for number in range(300)]
    jobs = [replace(job(name, (1, 2)), key=JobKey("many", name), created_at=1.0) for name in names]
    jobs.append(replace(job("z", (1, 2)), key=JobKey("other", "z"), created_at=2.0))
    snapshot = cluster(*jobs)
    measured = measured_of(dict.fromkeys([*names, "z"], FIRST))
    free = free_capacity(snapshot)
    assert plan_profiling(snapshot, measured, free, CONFIG, expected) == ()
    assert "uid-z" in asked
    assert len(asked) == 100
    for later in range(1, 10):
        plan_profiling(replace(snapshot, at=AT + later), measured, free, CONFIG, expected)
    assert len(asked) == 301


def test_a_job_with_a_large_minimum_has_few_counts_to_choose_among() -> None:
    large = job("a", (200, 200), bounds=CountBounds(min_ps=200, min_workers=200))
    measured = measured_of({"a": measured_at((200, 200))})
    assert len(_untried(large, measured, CONFIG)) <= 17**2
