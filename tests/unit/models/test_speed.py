"""The speed model and the design of its samples: known coefficients, oracles, the measured table."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from scheduling.errors import NotReady
from scheduling.jobs import Batch, BatchScope, Counts, TrainingMode
from scheduling.models.design import next_sample
from scheduling.models.nnls import fit_relative
from scheduling.models.speed import Measured, SpeedForm, SpeedModel
from scheduling.progress.record import SpeedSample
from tests.unit.models.measured import BATCHES, sample, speeds

SHARED, OWN = Batch(64, BatchScope.JOB), Batch(16, BatchScope.WORKER)
GRID = [Counts(ps, workers) for ps in range(1, 7) for workers in range(1, 7)]
Truth = Callable[[Counts], float]


def knee(counts: Counts) -> float:
    return max(counts.workers / counts.ps, 1.0)


def ratio(counts: Counts) -> float:
    return counts.workers / counts.ps


def sync(t: Sequence[float], term: Truth = knee, batch: float = 64) -> Truth:
    """Equation 4 with these coefficients."""
    return lambda c: 1 / (t[0] * batch / c.workers + t[1] + t[2] * term(c) + t[3] * c.workers + t[4] * c.ps)


def asynchronous(t: Sequence[float], term: Truth = knee) -> Truth:
    """Equation 3 with these coefficients."""
    return lambda c: c.workers / (t[0] + t[1] * term(c) + t[2] * c.workers + t[3] * c.ps)


def fitted(samples: Sequence[SpeedSample], mode: TrainingMode, batch: Batch, form: SpeedForm) -> SpeedModel:
    model = SpeedModel.fit(samples, mode, batch, form)
    assert isinstance(model, SpeedModel)
    return model


@pytest.mark.parametrize(
    ("truth", "mode", "batch", "form", "coefficients"),
    [
        pytest.param(
            sync((0.02, 0.3, 0.4, 0.01, 0.005)), TrainingMode.SYNC, SHARED, SpeedForm.KNEE,
            (0.02, 0.3, 0.4, 0.01, 0.005), id="sync, knee",
        ),
        pytest.param(
            sync((1.02, 2.78, 4.92, 0.0, 0.02), ratio), TrainingMode.SYNC, SHARED, SpeedForm.PAPER,
            (1.02, 2.78, 4.92, 0.0, 0.02), id="sync, the paper's table 2",
        ),
        pytest.param(
            asynchronous((2.83, 3.92, 0.0, 0.11), ratio), TrainingMode.ASYNC, OWN, SpeedForm.PAPER,
            (2.83, 3.92, 0.0, 0.11), id="async, the paper's table 2",
        ),
        pytest.param(
            asynchronous((0.13, 0.11, 0.004, 0.01)), TrainingMode.ASYNC, OWN, SpeedForm.KNEE,
            (0.13, 0.11, 0.004, 0.01), id="async, knee",
        ),
        pytest.param(
            sync((0.0, 0.4, 0.3, 0.02, 0.01)), TrainingMode.SYNC, OWN, SpeedForm.KNEE,
            (0.4, 0.3, 0.02, 0.01), id="sync, each worker a batch of its own",
        ),
    ],
)  # fmt: skip
def test_noise_free_speeds_give_their_coefficients_back(
    truth: Truth, mode: TrainingMode, batch: Batch, form: SpeedForm, coefficients: tuple[float, ...]
) -> None:
    model = fitted([sample(counts, truth(counts)) for counts in GRID], mode, batch, form)
    assert model.coefficients == pytest.approx(coefficients, abs=1e-6)
    assert [model.at(counts) for counts in GRID] == pytest.approx([truth(counts) for counts in GRID], rel=1e-6)


def test_seven_designed_samples_identify_a_noise_free_model() -> None:
    truth = sync((0.02, 0.3, 0.4, 0.01, 0.005))
    samples = [sample(Counts(1, 2), truth(Counts(1, 2)))]
    for _ in range(6):
        counts = next_sample(samples, GRID, TrainingMode.SYNC, SHARED)
        assert counts is not None
        samples.append(sample(counts, truth(counts)))
    model = fitted(samples, TrainingMode.SYNC, SHARED, SpeedForm.KNEE)
    assert [model.at(counts) for counts in GRID] == pytest.approx([truth(counts) for counts in GRID], rel=1e-6)


@given(
    st.lists(st.tuples(st.sampled_from(GRID), st.floats(0.05, 50.0), st.floats(0.5, 600.0)), min_size=3, max_size=12),
    st.sampled_from(TrainingMode),
)
@settings(deadline=None)
def test_the_fit_is_the_bounded_least_squares_solution(
    drawn: list[tuple[Counts, float, float]], mode: TrainingMode
) -> None:
    """Oracle: another solver of the same weighted problem leaves no smaller residuals."""
    measured = Measured.of(sample(*each) for each in drawn)
    model = SpeedModel.fit([sample(*each) for each in drawn], mode, BATCHES[mode])
    if isinstance(model, NotReady):
        return
    columns = model.terms.columns(measured.ps, measured.workers)
    target = model.terms.inverse(measured.workers) / measured.steps_per_second
    rows = np.sqrt(measured.weights) / target
    oracle = lsq_linear(columns * rows[:, None], target * rows, bounds=(0, np.inf), method="bvls")
    ours = np.sum(((columns @ np.array(model.coefficients) - target) * rows) ** 2)
    assert ours <= 2 * oracle.cost * (1 + 1e-6) + 1e-9


def test_relative_errors_are_what_is_minimised() -> None:
    columns, target = np.array([[1.0], [1.0]]), np.array([1.0, 100.0])
    solution = fit_relative(columns, target, np.ones(2))
    best = (1 / 1 + 1 / 100) / (1 / 1 + 1 / 100**2)
    assert solution.tolist() == pytest.approx([best])


class TestNotReady:
    @pytest.mark.parametrize(
        ("samples", "reason"),
        [
            ([], "speed was measured at 0 different counts, 3 needed"),
            ([sample(Counts(1, 2), 1.0), sample(Counts(1, 2), 1.1)], "speed was measured at 1 different counts"),
            ([sample(Counts(n, n), 1.0) for n in (1, 2, 3, 4)], "only with as many PSs as workers"),
            ([sample(Counts(n, 1), 0.0) for n in (1, 2, 3)], "speed was measured at 0 different counts"),
        ],
    )
    def test_says_why(self, samples: list[SpeedSample], reason: str) -> None:
        refusal = SpeedModel.fit(samples, TrainingMode.SYNC, SHARED)
        assert isinstance(refusal, NotReady)
        assert reason in refusal.reason


class TestValues:
    truth = staticmethod(sync((0.02, 0.3, 0.4, 0.01, 0.005)))

    def model(self, noise: float = 0.0, only: Sequence[Counts] = GRID) -> SpeedModel:
        factors = np.random.default_rng(7).normal(1.0, noise, len(only))
        samples = [sample(c, self.truth(c) * factor) for c, factor in zip(only, factors, strict=True)]
        return fitted(samples, TrainingMode.SYNC, SHARED, SpeedForm.KNEE)

    def test_a_grid_is_answered_at_once(self) -> None:
        grid = self.model().steps_per_second(np.arange(1, 7)[:, None], np.arange(1, 5)[None, :])
        assert grid.shape == (6, 4)
        assert grid[2, 3] == pytest.approx(self.truth(Counts(3, 4)))

    def test_an_anchor_moves_the_whole_curve_and_keeps_its_ratios(self) -> None:
        model = self.model()
        anchored = model.anchored(Counts(2, 3), 5.0)
        assert anchored.at(Counts(2, 3)) == pytest.approx(5.0)
        ratios = [anchored.at(counts) / model.at(counts) for counts in GRID]
        assert ratios == pytest.approx([ratios[0]] * len(GRID))

    def test_uncertainty_grows_away_from_the_samples_and_falls_with_more_of_them(self) -> None:
        few = self.model(noise=0.03, only=[Counts(1, 1), Counts(1, 2), Counts(2, 1), Counts(2, 2)])
        many = self.model(noise=0.03)
        assert few.uncertainty(1, 12) > 2 * few.uncertainty(1, 2)
        assert (many.uncertainty(*np.array(GRID).T) < few.uncertainty(*np.array(GRID).T)).all()

    def test_repeats_are_averaged_by_their_seconds(self) -> None:
        repeats = [sample(Counts(1, 2), 1.0, seconds=30), sample(Counts(1, 2), 2.0, seconds=10)]
        assert Measured.of(repeats).steps_per_second.tolist() == [1.25]

    def test_a_long_sample_outweighs_a_short_one_that_is_off(self) -> None:
        samples = [sample(c, self.truth(c), seconds=300) for c in GRID if c != Counts(6, 6)]
        model = fitted([*samples, sample(Counts(6, 6), 0.1, seconds=1)], TrainingMode.SYNC, SHARED, SpeedForm.KNEE)
        assert model.at(Counts(4, 4)) == pytest.approx(self.truth(Counts(4, 4)), rel=0.1)


class TestDesign:
    def test_without_a_sample_the_smallest_counts_come_first(self) -> None:
        assert next_sample([], [Counts(2, 2), Counts(1, 2), Counts(2, 1)], TrainingMode.SYNC) == Counts(1, 2)

    def test_nothing_is_left_once_all_is_measured(self) -> None:
        assert next_sample([sample(Counts(1, 1), 1.0)], [Counts(1, 1)], TrainingMode.SYNC) is None

    def test_it_does_not_depend_on_the_order_of_what_is_allowed(self) -> None:
        samples = [sample(Counts(1, 2), 2.4), sample(Counts(1, 1), 2.0)]
        forth = next_sample(samples, GRID, TrainingMode.SYNC, SHARED)
        assert forth == next_sample(samples[::-1], GRID[::-1], TrainingMode.SYNC, SHARED)

    @given(
        st.lists(st.sampled_from(GRID), min_size=2, unique=True),
        st.sampled_from(GRID),
        st.sampled_from(TrainingMode),
        st.sampled_from(SpeedForm),
        st.lists(st.floats(0.1, 10.0), min_size=6, max_size=6),
    )
    @settings(deadline=None)
    def test_it_never_stays_on_the_diagonal(
        self, allowed: list[Counts], first: Counts, mode: TrainingMode, form: SpeedForm, measured: list[float]
    ) -> None:
        samples: list[SpeedSample] = [sample(first, measured[0])]
        for speed in measured[1:]:
            counts = next_sample(samples, allowed, mode, BATCHES[mode], form)
            if counts is None:
                break
            assert counts in allowed
            assert counts not in {each.counts for each in samples}
            samples.append(sample(counts, speed))
        on_diagonal = all(each.counts.ps == each.counts.workers for each in samples)
        assert not on_diagonal or all(counts.ps == counts.workers for counts in allowed)


@pytest.mark.parametrize(
    ("mode", "form", "count", "bound"),
    [
        pytest.param(TrainingMode.SYNC, SpeedForm.KNEE, 5, 0.03, id="sync, knee, 5 samples"),
        pytest.param(TrainingMode.SYNC, SpeedForm.KNEE, 10, 0.025, id="sync, knee, 10 samples"),
        pytest.param(TrainingMode.ASYNC, SpeedForm.KNEE, 5, 0.065, id="async, knee, 5 samples"),
        pytest.param(TrainingMode.ASYNC, SpeedForm.KNEE, 10, 0.065, id="async, knee, 10 samples"),
        pytest.param(TrainingMode.SYNC, SpeedForm.PAPER, 5, 0.08, id="sync, the paper's form, 5 samples"),
        pytest.param(TrainingMode.ASYNC, SpeedForm.PAPER, 5, 0.08, id="async, the paper's form, 5 samples"),
    ],
)
def test_error_on_real_speeds_that_were_not_sampled(
    mode: TrainingMode, form: SpeedForm, count: int, bound: float
) -> None:
    table = speeds(mode)
    samples = [sample(Counts(1, 1), table[Counts(1, 1)])]
    while len(samples) < count:
        counts = next_sample(samples, list(table), mode, BATCHES[mode], form)
        assert counts is not None
        samples.append(sample(counts, table[counts]))
    model = fitted(samples, mode, BATCHES[mode], form)
    hidden = [counts for counts in table if counts not in {each.counts for each in samples}]
    assert np.mean([abs(model.at(counts) / table[counts] - 1) for counts in hidden]) < bound
    picked = max(table, key=model.at)
    assert table[picked] / max(table.values()) > 0.95
