"""The columns of the two equations, shape by shape."""

from collections.abc import Sequence

import numpy as np
import pytest

from optimus.jobs import Batch, BatchScope, Counts, TrainingMode
from optimus.models.speed.curve import Shape, SpeedForm, SpeedTerms, fit_relative
from optimus.models.speed.model import SpeedModel
from optimus.progress.types import SpeedSample
from tests.cases import cases

SHARED, OWN = Batch(60, BatchScope.JOB), Batch(16, BatchScope.WORKER)
SYNC, ASYNC = TrainingMode.SYNC, TrainingMode.ASYNC
GRID = [Counts(ps, workers) for ps in range(1, 8) for workers in range(1, 8)]


@cases(
    ("mode", "batch", "form", "ps", "workers", "columns"),
    {
        "equation 4": (SYNC, SHARED, SpeedForm.PAPER, 2, 6, [10, 1, 3, 6, 2]),
        "equation 4, more PSs than workers": (
            SYNC,
            SHARED,
            SpeedForm.PAPER,
            6,
            2,
            [30, 1, 1 / 3, 2, 6],
        ),
        "with a knee": (SYNC, SHARED, SpeedForm.KNEE, 6, 2, [30, 1, 1, 2, 6]),
        "batch unknown": (SYNC, None, SpeedForm.PAPER, 2, 4, [1 / 4, 1, 2, 4, 2]),
        "a batch for each worker": (SYNC, OWN, SpeedForm.PAPER, 2, 6, [1, 3, 6, 2]),
        "equation 3": (ASYNC, OWN, SpeedForm.PAPER, 2, 6, [1, 3, 6, 2]),
        "equation 3 with a knee": (ASYNC, SHARED, SpeedForm.KNEE, 6, 2, [1, 1, 2, 6]),
    },
)
def test_columns(
    mode: TrainingMode,
    batch: Batch | None,
    form: SpeedForm,
    ps: int,
    workers: int,
    columns: Sequence[float],
) -> None:
    assert SpeedTerms(mode, batch, form).columns(ps, workers)[0].tolist() == pytest.approx(columns)


def shape_of(mode: TrainingMode, knee: float, update: float, cores: float) -> int:
    shapes = SpeedTerms(mode).shapes
    (index,) = [
        i for i, s in enumerate(shapes) if (s.knee, s.update, s.cores) == (knee, update, cores)
    ]
    return index


@cases(
    ("mode", "batch", "shape", "ps", "workers", "columns"),
    {
        "the PSs update once a step": (SYNC, SHARED, (1.0, 4.0, 0.0), 2, 6, [10, 1, 5, 6, 2]),
        "below its knee": (SYNC, SHARED, (1.0, 4.0, 0.0), 7, 1, [60, 1, 5, 1, 7]),
        "six workers on three cores": (SYNC, SHARED, (0.7, 0.0, 3.0), 2, 6, [20, 1, 3, 6, 2]),
        "two workers on three cores": (SYNC, SHARED, (0.7, 0.0, 3.0), 2, 2, [30, 1, 1, 2, 2]),
        "six workers of their own on three cores": (
            ASYNC,
            OWN,
            (0.7, 0.0, 3.0),
            2,
            6,
            [1, 3, 6, 2],
        ),
        "two workers of their own on three cores": (
            ASYNC,
            OWN,
            (0.7, 0.0, 3.0),
            2,
            2,
            [1, 1, 3, 2],
        ),
    },
)
def test_columns_of_other_shapes(
    mode: TrainingMode,
    batch: Batch,
    shape: tuple[float, float, float],
    ps: int,
    workers: int,
    columns: Sequence[float],
) -> None:
    found = SpeedTerms(mode, batch).columns(ps, workers)[shape_of(mode, *shape)]
    assert found.tolist() == pytest.approx(columns)


def test_counts_are_broadcast_for_every_shape() -> None:
    terms = SpeedTerms(SYNC, SHARED)
    columns = terms.columns(np.arange(1, 4)[:, None], np.arange(1, 6)[None, :])
    assert columns.shape == (len(terms.shapes), 3, 5, 5)
    assert columns[:, 2, 4].tolist() == terms.columns(3, 5).tolist()


@pytest.mark.parametrize("mode", TrainingMode)
@pytest.mark.parametrize("batch", [SHARED, OWN, None])
@pytest.mark.parametrize("form", SpeedForm)
def test_the_total_is_that_of_the_columns(
    mode: TrainingMode, batch: Batch | None, form: SpeedForm
) -> None:
    terms = SpeedTerms(mode, batch, form)
    ps, workers = np.arange(1, 9)[:, None], np.arange(1, 12)[None, :]
    columns = terms.columns(ps, workers)
    coefficients = np.random.default_rng(4).uniform(0, 1, (len(terms.shapes), columns.shape[-1]))
    coefficients[::3] = 0
    total = terms.total(ps, workers, coefficients)
    assert total.shape == (8, 11)
    assert total == pytest.approx(np.einsum("spwk,sk->pw", columns, coefficients), rel=1e-12)
    assert terms.total(3, 5, coefficients) == pytest.approx(total[2, 4])


def test_every_shape_has_odds_and_none_is_there_twice() -> None:
    for mode in TrainingMode:
        shapes = SpeedTerms(mode).shapes
        assert all(shape.prior > 0 for shape in shapes)
        assert len({shape[:2] + shape[3:] for shape in shapes}) == len(shapes)
        assert Shape(1.0, 0.0, 1.0) in shapes


@pytest.mark.parametrize("mode", TrainingMode)
def test_the_average_finds_any_of_its_shapes(mode: TrainingMode) -> None:
    """Speeds without noise of each shape in turn: the average is that shape, with its
    coefficients."""
    terms = SpeedTerms(mode, SHARED)
    t = np.array([0.02, 0.3, 0.4, 0.01, 0.02][-terms.columns(1, 1).shape[-1] :])
    for index in range(len(terms.shapes)):
        speeds = [float(terms.steps(c.workers) / (terms.columns(*c)[index] @ t)) for c in GRID]
        samples = [SpeedSample(c, speed, 60.0, 0.0) for c, speed in zip(GRID, speeds, strict=True)]
        model = SpeedModel.fit(samples, mode, SHARED)
        assert isinstance(model, SpeedModel)
        assert model.coefficients == pytest.approx(t, abs=1e-6)
        assert [model.at(counts) for counts in GRID] == pytest.approx(speeds, rel=1e-6)


def test_many_fits_at_once_are_the_fits_one_by_one() -> None:
    generator = np.random.default_rng(2)
    columns, target = generator.uniform(0, 1, (4, 9, 3)), generator.uniform(0.5, 2, 9)
    weights = generator.uniform(0, 1, 9)
    together = fit_relative(columns, target, weights)
    assert together.tolist() == [
        fit_relative(each[np.newaxis], target, weights)[0].tolist() for each in columns
    ]
