"""The speed of jobs that were measured at few counts: hypotheses join the fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.jobs import Batch, BatchScope, Counts, TrainingMode
from optimus.models.speed.curve import MergedSamples, SpeedTerms
from optimus.models.speed.hypotheses import values_of_measuring
from optimus.models.speed.model import SpeedModel
from optimus.progress.types import SpeedSample

SYNC, ASYNC = (SpeedTerms(mode) for mode in TrainingMode)
EACH_ITS_BATCH = SpeedTerms(TrainingMode.SYNC, Batch(64, BatchScope.WORKER))
TERMS = st.sampled_from([SYNC, ASYNC, EACH_ITS_BATCH])
COUNTS = st.builds(Counts, st.integers(1, 40), st.integers(1, 40))
GRID = [Counts(ps, workers) for ps in (1, 2, 4, 8) for workers in (1, 2, 4, 8)]


def measured(*samples: tuple[tuple[int, int], float]) -> MergedSamples:
    return MergedSamples.of(
        SpeedSample(Counts(*counts), speed, 60.0, 0.0) for counts, speed in samples
    )


@given(terms=TERMS, counts=COUNTS, speed=st.floats(1e-3, 1e3))
def test_one_sample_is_nearly_met(terms: SpeedTerms, counts: Counts, speed: float) -> None:
    found = SpeedModel.of(measured((counts, speed)), terms)
    assert float(found.steps_per_second(*counts)) == pytest.approx(speed, rel=0.1)


@given(terms=TERMS, counts=COUNTS, factor=st.floats(0.01, 100))
def test_it_scales_with_the_speed(terms: SpeedTerms, counts: Counts, factor: float) -> None:
    slow, fast = (SpeedModel.of(measured((counts, each)), terms) for each in (1.0, factor))
    ps, workers = np.array(GRID).T
    assert fast.steps_per_second(ps, workers) == pytest.approx(
        factor * slow.steps_per_second(ps, workers)
    )


def test_async_workers_add_up_and_sync_ones_share_a_batch() -> None:
    one = measured(((1, 1), 1.0))
    async_, sync, own = (
        float(SpeedModel.of(one, each).steps_per_second(4, 4))
        for each in (ASYNC, SYNC, EACH_ITS_BATCH)
    )
    assert async_ > 3
    assert 1 < sync < async_
    assert own < 1.05, "the steps of workers with a batch of their own do not get shorter"


def test_more_tasks_do_not_pay_for_ever() -> None:
    found = SpeedModel.of(measured(((1, 2), 1.0)), SYNC)
    few, many = found.steps_per_second(np.array([4, 400]), np.array([8, 800]))
    assert many < few


@pytest.mark.parametrize(
    ("second", "more_workers_help"),
    [
        pytest.param(((1, 4), 3.6), True, id="four times the workers were nearly as much faster"),
        pytest.param(((1, 4), 0.3), False, id="four times the workers made it slower"),
    ],
)
def test_a_second_sample_weighs_the_hypotheses(
    second: tuple[tuple[int, int], float], more_workers_help: bool
) -> None:
    found = SpeedModel.of(measured(((1, 1), 1.0), second), SYNC)
    assert (found.steps_per_second(1, 8) > found.steps_per_second(1, 2)) == more_workers_help
    assert float(found.steps_per_second(*second[0])) == pytest.approx(second[1], rel=0.15)


@pytest.mark.parametrize("computing", [0.2, 0.5, 0.8])
def test_two_samples_lead_to_counts_that_are_not_far_from_the_best(computing: float) -> None:
    def speed(ps: int, workers: int) -> float:
        transfer = (1 - computing) * workers / ps
        return 1 / (computing / workers + transfer + 0.003 * (ps + workers))

    found = SpeedModel.of(measured(((1, 1), speed(1, 1)), ((4, 8), speed(4, 8))), SYNC)
    chosen = GRID[int(found.steps_per_second(*np.array(GRID).T).argmax())]
    assert speed(*chosen) > 0.6 * max(speed(*each) for each in GRID)


def test_anchoring_keeps_the_ratios() -> None:
    found = SpeedModel.of(measured(((1, 1), 1.0), ((2, 4), 3.0)), SYNC)
    moved = found.anchored(Counts(2, 4), 5.0)
    assert float(moved.steps_per_second(2, 4)) == pytest.approx(5.0)
    before, after = (
        float(each.steps_per_second(8, 8) / each.steps_per_second(1, 1)) for each in (found, moved)
    )
    assert after == pytest.approx(before)


class TestTheValueOfASample:
    def test_it_is_never_negative_and_nothing_where_it_is_known(self) -> None:
        values = values_of_measuring(measured(((1, 1), 1.0)), SYNC, GRID)
        assert values.min() >= -1e-9
        assert values[0] == pytest.approx(0.0, abs=1e-9), "all hypotheses agree there"
        assert 0.03 < values.max() < 1

    def test_it_is_larger_where_hypotheses_disagree_about_the_best_counts(self) -> None:
        one = measured(((1, 1), 1.0))
        sync, async_ = (values_of_measuring(one, each, GRID).max() for each in (SYNC, ASYNC))
        assert sync > async_, "more of both is best for an async job under nearly all of them"

    def test_it_falls_with_what_is_known(self) -> None:
        one = measured(((1, 1), 1.0))
        two = measured(((1, 1), 1.0), ((1, 8), 5.0))
        first, second = (values_of_measuring(each, SYNC, GRID).max() for each in (one, two))
        assert second < first

    def test_one_pair_of_counts_leaves_nothing_to_choose(self) -> None:
        values = values_of_measuring(measured(((1, 1), 1.0)), SYNC, [Counts(1, 1)])
        assert values.tolist() == [0.0]

    @pytest.mark.parametrize("batch_per_worker", [False, True])
    def test_it_does_not_depend_on_how_fast_a_job_is(self, batch_per_worker: bool) -> None:
        slow, fast = (
            values_of_measuring(
                measured(((1, 1), speed), ((2, 2), 1.5 * speed)),
                EACH_ITS_BATCH,
                GRID,
                batch_per_worker=batch_per_worker,
            )
            for speed in (0.01, 100.0)
        )
        assert slow == pytest.approx(fast)
