"""The uncertainty that the speed model tells, held against the measured table."""

from itertools import pairwise

import numpy as np
import pytest

from benchmarks.synthetic_clusters import SyntheticCluster
from optimus.jobs import Batch, BatchScope, Counts, TrainingMode
from optimus.models.speed.curve import SpeedForm
from optimus.models.speed.model import SpeedModel
from optimus.progress.types import SpeedSample
from tests.unit.models.measured import BATCHES, learned, sample, speeds

GRID = [Counts(ps, workers) for ps in range(1, 7) for workers in range(1, 7)]
CLUSTER = SyntheticCluster(
    mode=TrainingMode.SYNC, batch=Batch(64, BatchScope.JOB), transfer=0.3, own_link=0.3, fixed=0.1
)


@pytest.mark.parametrize("number", [3, 5, 10])
def test_it_covers_the_measured_table(number: int) -> None:
    apart = []
    for mode in TrainingMode:
        table = speeds(mode)
        ((model, hidden),) = learned(table, [number], mode, BATCHES[mode])
        ps, workers = np.array(hidden).T
        true = np.array([table[counts] for counts in hidden])
        apart.extend(
            np.abs(np.log(model.steps_per_second(ps, workers) / true))
            / model.uncertainty(ps, workers)
        )
    assert np.mean(np.array(apart) < 1.64) > 0.75


@pytest.mark.parametrize("number", [3, 5, 10])
def test_that_of_a_ratio_is_smaller_than_if_both_erred_alone_and_covers_the_table(
    number: int,
) -> None:
    apart, parts = [], []
    for mode in TrainingMode:
        table = speeds(mode)
        ((model, hidden),) = learned(table, [number], mode, BATCHES[mode])
        for now, then in pairwise(hidden):
            (said,) = model.ratio_uncertainty(now, *then)
            error = np.log(model.at(then) / model.at(now) * table[now] / table[then])
            apart.append(abs(error) / said)
            parts.append(said / np.hypot(*model.uncertainty(*np.array([now, then]).T)))
    assert np.mean(np.array(apart) < 1.64) > 0.75
    assert np.mean(parts) < 0.95
    assert model.ratio_uncertainty(Counts(2, 3), 2, 3) == pytest.approx(0.0, abs=1e-6)


def samples_of(
    counts: list[Counts], noise: float = 0.0, seconds: float = 60.0
) -> list[SpeedSample]:
    factors = np.exp(np.random.default_rng(5).normal(0, noise, len(counts)))
    return [
        sample(each, CLUSTER.speed(each) * factor, seconds)
        for each, factor in zip(counts, factors, strict=True)
    ]


def model_of(samples: list[SpeedSample], form: SpeedForm = SpeedForm.BLEND) -> SpeedModel:
    model = SpeedModel.fit(samples, CLUSTER.mode, CLUSTER.batch, form)
    assert isinstance(model, SpeedModel)
    return model


@pytest.mark.parametrize("form", SpeedForm)
class TestItsShape:
    few = (Counts(1, 1), Counts(1, 3), Counts(3, 1), Counts(3, 3), Counts(2, 2))

    def test_grows_away_from_the_samples(self, form: SpeedForm) -> None:
        model = model_of(samples_of(list(self.few), noise=0.03), form)
        near, far, further = model.uncertainty([2, 6, 20], [2, 6, 20])
        assert near < far < further

    def test_falls_with_more_samples(self, form: SpeedForm) -> None:
        few, many = (
            model_of(samples_of(each, noise=0.03), form) for each in (list(self.few), GRID)
        )
        ps, workers = np.array(GRID).T
        assert (many.uncertainty(ps, workers) < few.uncertainty(ps, workers)).all()

    def test_grows_with_the_noise_of_the_samples(self, form: SpeedForm) -> None:
        quiet, noisy = (model_of(samples_of(GRID, noise), form) for noise in (0.0, 0.15))
        assert noisy.uncertainty(3, 4) > 2 * quiet.uncertainty(3, 4)

    def test_is_the_same_whatever_the_unit_of_speed(self, form: SpeedForm) -> None:
        samples = samples_of(list(self.few), noise=0.03)
        scaled = [
            sample(each.counts, each.steps_per_second * 1e6, each.seconds) for each in samples
        ]
        assert model_of(scaled, form).uncertainty(4, 2) == pytest.approx(
            float(model_of(samples, form).uncertainty(4, 2))
        )


def test_shapes_that_disagree_make_it_grow() -> None:
    """Beyond the samples the one form knows how it goes on; the average knows that it does not."""
    samples = samples_of([Counts(n, m) for n in (4, 5, 6) for m in (1, 2, 3)])
    blend, knee = model_of(samples), model_of(samples, SpeedForm.KNEE)
    assert blend.uncertainty(1, 12) > 1.5 * knee.uncertainty(1, 12)
