"""Speeds with known coefficients, and the samples of them that the product would take."""

from collections.abc import Callable, Sequence

from optimus.jobs import Batch, BatchScope, Counts, TrainingMode
from optimus.models.experiment_design import next_sample
from optimus.models.speed.curve import SpeedForm, SpeedTerms
from optimus.models.speed.model import SpeedModel
from optimus.progress.types import SpeedSample
from tests.unit.models.measured import sample

SHARED, OWN = Batch(64, BatchScope.JOB), Batch(16, BatchScope.WORKER)

GRID = [Counts(ps, workers) for ps in range(1, 7) for workers in range(1, 7)]

Truth = Callable[[Counts], float]


def knee(counts: Counts) -> float:
    return max(counts.workers / counts.ps, 1.0)


def ratio(counts: Counts) -> float:
    return counts.workers / counts.ps


def sync(t: Sequence[float], term: Truth = knee, batch: float = 64) -> Truth:
    """Equation 4 with these coefficients."""
    return lambda c: (
        1 / (t[0] * batch / c.workers + t[1] + t[2] * term(c) + t[3] * c.workers + t[4] * c.ps)
    )


def asynchronous(t: Sequence[float], term: Truth = knee) -> Truth:
    """Equation 3 with these coefficients."""
    return lambda c: c.workers / (t[0] + t[1] * term(c) + t[2] * c.workers + t[3] * c.ps)


def fitted(
    samples: Sequence[SpeedSample],
    mode: TrainingMode,
    batch: Batch,
    form: SpeedForm = SpeedForm.BLEND,
) -> SpeedModel:
    model = SpeedModel.fit(samples, mode, batch, form)
    assert isinstance(model, SpeedModel)
    return model


def designed(
    truth: Truth, count: int, mode: TrainingMode, batch: Batch, form: SpeedForm
) -> list[SpeedSample]:
    samples = [sample(Counts(1, 1), truth(Counts(1, 1)))]
    while len(samples) < count:
        counts = next_sample(samples, GRID, SpeedTerms(mode, batch, form))
        assert counts is not None
        samples.append(sample(counts, truth(counts)))
    return samples
