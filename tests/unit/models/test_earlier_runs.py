"""Runs of a workload: what is kept of them, to which jobs they apply, and when a job differs."""

from dataclasses import replace

import pytest

from optimus.jobs import Batch, BatchScope, Counts, Job, ReplicaSpec, TargetLoss, TrainingMode
from optimus.models.earlier_runs import (
    KEPT_SECONDS,
    MOST_LOSSES,
    MOST_RUNS,
    MOST_SAMPLES,
    MOST_USED,
    applicable,
    conditions_of,
    kept,
    run_of,
    why_differs,
)
from optimus.progress.types import EarlierRun, LossPoint, SpeedSample, TrainingProgress
from optimus.resources import Resources
from tests.cases import cases
from tests.unit.models.forecasting import JOB, PER_EPOCH, after, samples, speed

NOW = 1e9


def run(uid: str, at: float = NOW, **fields: object) -> EarlierRun:
    made = run_of(replace(JOB, uid=uid), after(50), at, succeeded=True)
    return replace(made, **fields)  # type: ignore[arg-type]  # EarlierRun's own


def with_run(progress: TrainingProgress, *runs: EarlierRun) -> TrainingProgress:
    return replace(progress, earlier=runs or (run("a"),))


class TestRun:
    def test_it_has_the_epochs_means_and_when_the_goal_was_met(self) -> None:
        found = run("a")
        assert found.in_epochs
        assert found.every_epoch
        assert found.places == tuple(float(k) for k in range(1, 51))
        assert found.losses[44] == pytest.approx(0.2, rel=1e-4)
        assert found.met_at == 46
        assert found.steps_per_epoch == PER_EPOCH

    def test_repeats_at_the_same_counts_become_one_sample(self) -> None:
        twice = samples(Counts(1, 2), Counts(1, 2))
        found = run_of(JOB, replace(after(5), samples=twice), NOW, succeeded=False)
        (only,) = found.samples
        assert only.counts == Counts(1, 2)
        assert only.seconds == 120
        assert only.steps_per_second == pytest.approx(speed(Counts(1, 2)))

    def test_the_losses_of_a_job_that_failed_are_no_example(self) -> None:
        found = run_of(JOB, after(50), NOW, succeeded=False)
        assert found.losses == ()
        assert found.met_at is None
        assert found.samples

    def test_it_is_bounded_however_long_the_job_was(self) -> None:
        many = tuple(
            SpeedSample(Counts(1, n), 1.0, 60.0, float(n)) for n in range(1, 3 * MOST_SAMPLES)
        )
        found = run_of(JOB, replace(after(1000), samples=many), NOW, succeeded=True)
        assert len(found.samples) == MOST_SAMPLES
        assert found.samples[-1].counts == Counts(1, 3 * MOST_SAMPLES - 1)
        assert len(found.losses) == len(found.places) == MOST_LOSSES
        assert not found.every_epoch
        assert found.places[-1] == 1000
        assert found.met_at is not None
        assert 46 <= found.met_at <= 50

    def test_where_the_log_has_no_epochs_steps_count(self) -> None:
        losses = tuple(LossPoint(1 / (0.01 * n + 1), step=n) for n in range(1, 501))
        progress = TrainingProgress(losses, step=500)
        job = replace(JOB, goal=TargetLoss(0.5))
        found = run_of(job, progress, NOW, succeeded=True)
        assert not found.in_epochs
        # The median of 20 points is at most 0.5, the loss after 100 steps, at 110.
        assert found.met_at == pytest.approx(110, abs=1)

    def test_with_a_batch_for_each_worker_an_epochs_steps_are_those_of_one_worker(self) -> None:
        job = replace(JOB, batch=Batch(16, BatchScope.WORKER))
        newest = SpeedSample(Counts(1, 4), 1.0, 60.0, 9.0)
        found = run_of(job, replace(after(5), samples=(newest,)), NOW, succeeded=False)
        assert found.steps_per_epoch == 4 * PER_EPOCH


class TestKept:
    def test_a_later_run_of_the_same_job_replaces_the_earlier(self) -> None:
        first, second = run("a", NOW), run("a", NOW + 1)
        assert kept([first], second, NOW + 1) == (second,)

    def test_only_the_newest_are_kept(self) -> None:
        runs: tuple[EarlierRun, ...] = ()
        for n in range(MOST_RUNS + 3):
            runs = kept(runs, run(str(n), NOW + n), NOW + n)
        assert [each.uid for each in runs] == [str(n) for n in range(3, MOST_RUNS + 3)]

    def test_they_expire_after_thirty_days(self) -> None:
        old, young = run("old", NOW - KEPT_SECONDS), run("young", NOW - KEPT_SECONDS + 1)
        assert kept([old, young], None, NOW) == (young,)
        assert applicable([old, young], replace(JOB, uid="new"), NOW) == (young,)


_OTHER_CONDITIONS: dict[str, dict[str, object]] = {
    "another mode": {"mode": TrainingMode.ASYNC},
    "another batch": {"batch": Batch(32, BatchScope.JOB)},
    "a batch for each worker": {"batch": Batch(64, BatchScope.WORKER)},
    "another image": {"image": "trainer:2"},
    "workers that request more": {"worker": ReplicaSpec(Resources(cpu=9000))},
    "PSs that request more": {"ps": ReplicaSpec(Resources(cpu=9000))},
    "another kind": {"kind": "MXJob" if JOB.kind == "TFJob" else "TFJob"},
}


class TestApplicable:
    @pytest.mark.parametrize("fields", _OTHER_CONDITIONS.values(), ids=_OTHER_CONDITIONS.keys())
    def test_under_other_conditions_a_run_does_not_apply(self, fields: dict[str, object]) -> None:
        other: Job = replace(JOB, uid="new", **fields)  # type: ignore[arg-type]  # Job's own
        assert conditions_of(other) != conditions_of(JOB)
        assert applicable([run("a")], other, NOW) == ()

    def test_counts_bounds_and_goal_may_be_others(self) -> None:
        other = replace(JOB, uid="new", counts=Counts(3, 5), goal=TargetLoss(0.1))
        assert applicable([run("a")], other, NOW) == (run("a"),)

    def test_a_jobs_own_run_is_no_earlier_one(self) -> None:
        assert applicable([run(JOB.uid)], JOB, NOW) == ()

    def test_only_the_newest_few_are_used(self) -> None:
        runs = [run(str(n), NOW + n) for n in range(MOST_USED + 2)]
        found = applicable(runs, replace(JOB, uid="new"), NOW + 99)
        assert [each.uid for each in found] == [str(n) for n in range(2, MOST_USED + 2)]

    def test_a_run_that_differed_ends_what_was_before_it(self) -> None:
        runs = [run("a", NOW), run("b", NOW + 1, differed=True), run("c", NOW + 2)]
        found = applicable(runs, replace(JOB, uid="new"), NOW + 9)
        assert [each.uid for each in found] == ["b", "c"]


def scaled(
    progress: TrainingProgress, *, speed: float = 1.0, loss: float = 1.0
) -> TrainingProgress:
    return replace(
        progress,
        samples=tuple(
            replace(each, steps_per_second=speed * each.steps_per_second)
            for each in progress.samples
        ),
        losses=tuple(replace(each, loss=loss * each.loss) for each in progress.losses),
    )


class TestDiffers:
    def test_a_run_like_the_earlier_ones_does_not(self) -> None:
        assert why_differs(JOB, with_run(after(20))) is None

    def test_without_earlier_runs_there_is_nothing_to_differ_from(self) -> None:
        assert why_differs(JOB, after(20)) is None

    @cases("factor", {"slower": 0.85, "faster": 1.2})
    def test_a_little_slower_or_faster_is_the_same_workload(self, factor: float) -> None:
        assert why_differs(JOB, with_run(scaled(after(3), speed=factor))) is None

    @cases("factor", {"half": 0.5, "double": 2.0})
    def test_a_speed_far_off_is_said_with_both_figures(self, factor: float) -> None:
        own = replace(after(2), samples=samples(Counts(2, 2)))
        found = why_differs(JOB, with_run(scaled(own, speed=factor)))
        assert found is not None
        expected = speed(Counts(2, 2))
        assert found.startswith(f"{factor * expected:.3g} steps/s at 2 PS + 2 workers; earlier")
        assert f"predict {expected:.3g} within " in found

    def test_a_speed_of_a_few_seconds_is_not_held_against_it(self) -> None:
        short = tuple(replace(each, seconds=30.0) for each in samples(Counts(2, 2)))
        own = scaled(replace(after(2), samples=short), speed=0.5)
        assert why_differs(JOB, with_run(own)) is None

    @pytest.mark.parametrize(
        ("kind", "differs"),
        [("a100", True), ("v100", False), ("a100*2,v100*1", False), ("a100*3", True)],
    )
    def test_on_another_class_of_nodes_another_speed_is_no_difference(
        self, kind: str, differs: bool
    ) -> None:
        on_a100 = tuple(replace(each, node_kind="a100") for each in run("a").samples)
        own = tuple(replace(each, node_kind=kind) for each in samples(Counts(2, 2)))
        progress = scaled(replace(after(2), samples=own), speed=0.4)
        found = why_differs(JOB, with_run(progress, run("a", samples=on_a100)))
        assert (found is not None) is differs

    def test_losses_on_one_side_of_the_band_are_said_with_both_figures(self) -> None:
        found = why_differs(JOB, with_run(scaled(after(10), loss=2.0)))
        assert found is not None
        assert "a loss of 1.45 after 3 epochs; earlier runs predict 0.725 within" in found

    def test_two_losses_outside_are_not_enough(self) -> None:
        assert why_differs(JOB, with_run(scaled(after(2), loss=2.0))) is None

    def test_one_odd_epoch_is_not_enough(self) -> None:
        own = after(10)
        odd = tuple(
            replace(each, loss=3 * each.loss) if n % 3 == 0 else each
            for n, each in enumerate(own.losses)
        )
        assert why_differs(JOB, with_run(replace(own, losses=odd))) is None

    def test_among_runs_that_vary_more_is_the_same(self) -> None:
        varied = [
            replace(run(str(factor)), losses=tuple(factor * each for each in run("a").losses))
            for factor in (0.5, 1.0, 2.0)
        ]
        own = scaled(after(10), loss=1.8)
        assert why_differs(JOB, with_run(own)) is not None
        assert why_differs(JOB, with_run(own, *varied)) is None

    def test_a_goal_that_is_not_met_in_twice_the_time_is_said(self) -> None:
        job = replace(JOB, goal=TargetLoss(0.15))
        early = replace(run("a"), losses=(), places=(), goal=job.goal, met_at=20.0)
        assert why_differs(job, with_run(after(40), early)) is None
        assert why_differs(job, with_run(after(41), early)) == (
            "its goal is not met after 41 epochs; the slowest earlier run needed 20"
        )

    def test_a_job_that_trains_on_at_its_goal_is_not_late(self) -> None:
        job = replace(JOB, goal=TargetLoss(0.3))
        early = replace(run("a"), losses=(), places=(), goal=job.goal, met_at=20.0)
        assert why_differs(job, with_run(after(50), early)) is None
