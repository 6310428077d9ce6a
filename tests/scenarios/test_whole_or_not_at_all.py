"""A job is placed whole or waits whole, whoever else wants the room."""

import pytest

from tests.harness.brute_force import complaints
from tests.harness.jobs import Kind, LightJob
from tests.harness.scene import Scene

# Four nodes of four CPUs: a worker takes most of one, so four workers take them all.
WIDE = {"PS": {"cpu": "500m", "memory": "64Mi"}, "Worker": {"cpu": "2500m", "memory": "64Mi"}}


def wide(name: str, workers: int) -> LightJob:
    return LightJob("TFJob", name, ps=2, workers=workers, requests=WIDE)


def test_a_job_that_does_not_fit_waits_whole_and_is_placed_when_room_appears(stage: Scene) -> None:
    first, second = wide("first", 3), wide("second", 3)
    with stage.history() as history:
        stage.submit(first)
        stage.wait_bound(first)
        stage.submit(second)
        stage.wait_refused(
            second, f"job {stage.namespace}/second (2 PS + 3 workers) does not fit as a whole"
        )
        stage.holds(lambda: not stage.bound(second), "no pod of the waiting job has a node", 3)
        assert not history.ever(lambda bound: "second" in bound)
        stage.delete(first)
        stage.wait_bound(second)
    assert not complaints(second.demand(), stage.free_room_without(second), stage.placement(second))


def test_a_waiting_job_is_quiet_and_says_the_same_at_every_try(stage: Scene) -> None:
    first, second = wide("first", 3), wide("second", 3)
    stage.submit(first)
    stage.wait_bound(first)
    with stage.history() as history:
        stage.submit(second)
        stage.wait_refused(second, "does not fit as a whole")
        stage.touch_node("train-1")  # kube-scheduler tries every refused pod again
        stage.wait(
            lambda: history.quiet_seconds() > 4,
            "nothing is written on the waiting pods any more",
            30,
        )
    for name, sentences in history.refusals().items():
        assert len([each for each in sentences if "does not fit" in each]) <= 1, (name, sentences)


def test_two_jobs_that_fit_one_at_a_time_never_both_hold_a_part(stage: Scene) -> None:
    jobs = (wide("one", 4), wide("two", 4))
    with stage.history() as history:
        stage.submit(*jobs)
        stage.wait(
            lambda: [job for job in jobs if len(stage.bound(job)) == job.pods],
            "one of them is placed",
        )
        winner, loser = sorted(jobs, key=lambda job: len(stage.bound(job)), reverse=True)
        stage.wait_refused(loser, "does not fit as a whole")
        stage.holds(lambda: not stage.bound(loser), "the other holds nothing", 3)
        assert not history.ever(lambda bound: len(bound) > 1)
    stage.delete(winner)
    stage.wait_bound(loser)


@pytest.mark.slow
def test_jobs_that_fit_one_at_a_time_all_get_their_turn(stage: Scene) -> None:
    kinds: tuple[Kind, ...] = ("TFJob", "MXJob", "TFJob")
    short = {"--epochs": "1", "--examples-per-epoch": "640"}
    jobs = [
        LightJob(kind, f"turn-{n}", 1, 4, requests=WIDE, flags=short)
        for n, kind in enumerate(kinds)
    ]
    stage.submit(*jobs)
    stage.wait(
        lambda: all("Succeeded" in stage.conditions(job) for job in jobs),
        "all three have succeeded",
        90,
    )
