"""The speed model: known coefficients, oracles, the measured table."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from optimus.errors import NotReady
from optimus.jobs import Batch, CountBounds, Counts, TrainingMode
from optimus.models.experiment_design import next_sample
from optimus.models.speed.curve import MergedSamples, SpeedForm, SpeedTerms, fit_relative
from optimus.models.speed.model import SpeedModel, needed_counts
from optimus.progress.types import SpeedSample
from tests.unit.models.measured import BATCHES, sample, speeds
from tests.unit.models.truths import (
    GRID,
    OWN,
    SHARED,
    Truth,
    asynchronous,
    designed,
    fitted,
    ratio,
    sync,
)

_NAMES = ("truth", "mode", "batch", "form", "coefficients")


_PLAIN = [
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
    pytest.param(
        sync((0.0, 0.4, 0.3, 0.02, 0.01), ratio), TrainingMode.SYNC, OWN, SpeedForm.PAPER,
        (0.4, 0.3, 0.02, 0.01), id="sync, each worker a batch of its own, the paper's form",
    ),
]  # fmt: skip


_FAR_APART = [
    pytest.param(
        sync((2e-6, 900.0, 3e-4, 40.0, 7e-6), ratio), TrainingMode.SYNC, SHARED, SpeedForm.PAPER,
        (2e-6, 900.0, 3e-4, 40.0, 7e-6), id="sync, coefficients of eight powers of ten",
    ),
    pytest.param(
        asynchronous((5e-5, 30.0, 2e-4, 1e-3)), TrainingMode.ASYNC, OWN, SpeedForm.KNEE,
        (5e-5, 30.0, 2e-4, 1e-3), id="async, coefficients of six powers of ten",
    ),
]  # fmt: skip


PLAIN = pytest.mark.parametrize(_NAMES, _PLAIN)


KNOWN = pytest.mark.parametrize(_NAMES, _PLAIN + _FAR_APART)


class TestKnownCoefficients:
    @KNOWN
    def test_come_back_from_all_counts(
        self,
        truth: Truth,
        mode: TrainingMode,
        batch: Batch,
        form: SpeedForm,
        coefficients: tuple[float, ...],
    ) -> None:
        model = fitted([sample(counts, truth(counts)) for counts in GRID], mode, batch, form)
        assert model.coefficients == pytest.approx(coefficients, abs=1e-6)
        assert [model.at(counts) for counts in GRID] == pytest.approx(
            [truth(counts) for counts in GRID], rel=1e-9
        )

    @KNOWN
    def test_come_back_from_as_many_designed_samples_as_there_are_coefficients(
        self,
        truth: Truth,
        mode: TrainingMode,
        batch: Batch,
        form: SpeedForm,
        coefficients: tuple[float, ...],
    ) -> None:
        model = fitted(designed(truth, len(coefficients), mode, batch, form), mode, batch, form)
        assert model.coefficients == pytest.approx(coefficients, abs=1e-6)
        assert [model.at(counts) for counts in GRID] == pytest.approx(
            [truth(counts) for counts in GRID], rel=1e-6
        )

    @PLAIN
    def test_are_recovered_without_the_form(
        self,
        truth: Truth,
        mode: TrainingMode,
        batch: Batch,
        form: SpeedForm,
        coefficients: tuple[float, ...],
    ) -> None:
        """Errors of a millionth are no accident: of the shapes only the true one stays."""
        model = fitted([sample(counts, truth(counts)) for counts in GRID], mode, batch)
        assert model.coefficients == pytest.approx(coefficients, abs=1e-6)
        assert [model.at(counts) for counts in GRID] == pytest.approx(
            [truth(counts) for counts in GRID], rel=1e-6
        )

    @given(
        st.lists(st.floats(-6, 2), min_size=4, max_size=4),
        st.sampled_from([SpeedForm.KNEE, SpeedForm.PAPER]),
        st.sampled_from([(TrainingMode.ASYNC, OWN), (TrainingMode.SYNC, OWN)]),
    )
    @settings(deadline=None)
    def test_whatever_they_are(
        self, powers: list[float], form: SpeedForm, kind: tuple[TrainingMode, Batch]
    ) -> None:
        terms = SpeedTerms(*kind, form)
        t = 10.0 ** np.array(powers)

        def truth(c: Counts) -> float:
            return float(terms.steps(c.workers) / (terms.columns(c.ps, c.workers)[0] @ t))

        model = fitted(designed(truth, 4, *kind, form), *kind, form)
        assert [model.at(counts) for counts in GRID] == pytest.approx(
            [truth(counts) for counts in GRID], rel=1e-6
        )


@given(
    st.lists(
        st.tuples(st.sampled_from(GRID), st.floats(0.05, 50.0), st.floats(0.5, 600.0)),
        min_size=3,
        max_size=12,
    ),
    st.sampled_from(TrainingMode),
    st.sampled_from([SpeedForm.KNEE, SpeedForm.PAPER]),
)
@settings(deadline=None)
def test_the_fit_is_the_bounded_least_squares_solution(
    drawn: list[tuple[Counts, float, float]], mode: TrainingMode, form: SpeedForm
) -> None:
    """Oracle: another solver of the same weighted problem leaves no smaller residuals."""
    measured = MergedSamples.of(sample(*each) for each in drawn)
    model = SpeedModel.fit([sample(*each) for each in drawn], mode, BATCHES[mode], form)
    if isinstance(model, NotReady):
        return
    columns = model.terms.columns(measured.ps, measured.workers)[0]
    target = model.terms.steps(measured.workers) / measured.steps_per_second
    rows = np.sqrt(measured.fit_weights) / target
    oracle = lsq_linear(columns * rows[:, None], target * rows, bounds=(0, np.inf), method="bvls")
    ours = np.sum(((columns @ np.array(model.coefficients) - target) * rows) ** 2)
    assert ours <= 2 * oracle.cost * (1 + 1e-6) + 1e-9


def test_relative_errors_are_what_is_minimised() -> None:
    columns, target = np.array([[1.0], [1.0]]), np.array([1.0, 100.0])
    (solution,) = fit_relative(columns[np.newaxis], target, np.ones(2))
    best = (1 / 1 + 1 / 100) / (1 / 1 + 1 / 100**2)
    assert solution.tolist() == pytest.approx([best])


class TestNotReady:
    @pytest.mark.parametrize(
        ("samples", "reason"),
        [
            ([], "speed was measured at 0 pairs of counts, 3 needed"),
            (
                [sample(Counts(1, 2), 1.0), sample(Counts(1, 2), 1.1)],
                "speed was measured at 1 pair of counts",
            ),
            ([sample(Counts(n, n), 1.0) for n in (1, 2, 3, 4)], "only with as many PSs as workers"),
            (
                [sample(Counts(n, 1), 0.0) for n in (1, 2, 3)],
                "speed was measured at 0 pairs of counts",
            ),
            (
                [sample(Counts(n, 1), float("nan")) for n in (1, 2, 3)],
                "speed was measured at 0 pairs of counts",
            ),
        ],
    )
    def test_says_why(self, samples: list[SpeedSample], reason: str) -> None:
        refusal = SpeedModel.fit(samples, TrainingMode.SYNC, SHARED)
        assert isinstance(refusal, NotReady)
        assert reason in refusal.reason

    @pytest.mark.parametrize(
        ("bounds", "needed"),
        [
            pytest.param(CountBounds(), 3, id="no bounds"),
            pytest.param(CountBounds(max_ps=1), 3, id="one PS and any number of workers"),
            pytest.param(CountBounds(1, 2, 1, 2), 3, id="four pairs of counts"),
            pytest.param(CountBounds(1, 1, 1, 2), 2, id="two pairs of counts"),
            pytest.param(CountBounds(2, 2, 4, 4), 1, id="one pair of counts"),
        ],
    )
    def test_no_more_counts_are_needed_than_the_bounds_allow(
        self, bounds: CountBounds, needed: int
    ) -> None:
        assert needed_counts(bounds) == needed

    def test_two_samples_do_where_the_bounds_allow_no_third(self) -> None:
        samples = [sample(Counts(1, 1), 2.0), sample(Counts(1, 2), 3.0)]
        model = SpeedModel.fit(samples, TrainingMode.ASYNC, OWN, needed=2)
        assert isinstance(model, SpeedModel)
        assert model.at(Counts(1, 1)) == pytest.approx(2.0, rel=0.05)
        assert model.at(Counts(1, 2)) == pytest.approx(3.0, rel=0.05)


class TestValues:
    truth = staticmethod(sync((0.02, 0.3, 0.4, 0.01, 0.005)))

    def model(self, noise: float = 0.0, only: Sequence[Counts] = GRID) -> SpeedModel:
        factors = np.random.default_rng(7).normal(1.0, noise, len(only))
        samples = [
            sample(c, self.truth(c) * factor) for c, factor in zip(only, factors, strict=True)
        ]
        return fitted(samples, TrainingMode.SYNC, SHARED)

    def test_a_grid_is_answered_at_once(self) -> None:
        grid = self.model(noise=0.05).steps_per_second(
            np.arange(1, 7)[:, None], np.arange(1, 5)[None, :]
        )
        assert grid.shape == (6, 4)
        one_by_one = [
            [self.model(noise=0.05).at(Counts(p, w)) for w in range(1, 5)] for p in range(1, 7)
        ]
        assert grid.tolist() == pytest.approx(np.array(one_by_one), rel=1e-12)

    def test_an_anchor_moves_the_whole_curve_and_keeps_its_ratios(self) -> None:
        model = self.model(noise=0.05)
        anchored = model.anchored(Counts(2, 3), 5.0)
        assert anchored.at(Counts(2, 3)) == pytest.approx(5.0)
        ratios = [anchored.at(counts) / model.at(counts) for counts in GRID]
        assert ratios == pytest.approx([ratios[0]] * len(GRID))

    def test_one_sample_that_is_off_moves_its_neighbours_along_with_it(self) -> None:
        """A step from there to its neighbour must not look like a gain (or loss) of all that it is
        off."""
        good = [sample(c, self.truth(c), seconds=60) for c in GRID]
        off = [
            sample(c, self.truth(c) * (1.15 if c == Counts(3, 3) else 1), seconds=60) for c in GRID
        ]
        before, after = (fitted(each, TrainingMode.SYNC, SHARED) for each in (good, off))
        moved = {c: after.at(c) / before.at(c) - 1 for c in GRID}
        assert 0.01 < moved[Counts(3, 3)] < 0.1
        for neighbour in (Counts(3, 4), Counts(4, 3), Counts(2, 3), Counts(4, 4)):
            assert moved[Counts(3, 3)] - moved[neighbour] < 0.075
        assert abs(moved[Counts(1, 1)]) < 0.01

    def test_predictions_follow_the_measured_values(self) -> None:
        """Of speeds that no curve of these terms meets, the model comes closer to the measured ones
        than the curve."""
        samples = [sample(c, self.truth(c) * (1.1 if c.ps > 3 else 0.9), seconds=300) for c in GRID]
        model = fitted(samples, TrainingMode.SYNC, SHARED)
        seen = np.array([each.steps_per_second for each in samples])
        curve = 1 / model.curve.seconds(*np.array(GRID).T)
        ours = model.steps_per_second(*np.array(GRID).T)
        assert np.mean(abs(ours / seen - 1)) < 0.7 * np.mean(abs(curve / seen - 1))

    def test_a_long_sample_outweighs_a_short_one_that_is_off(self) -> None:
        samples = [sample(c, self.truth(c), seconds=300) for c in GRID if c != Counts(6, 6)]
        model = fitted([*samples, sample(Counts(6, 6), 0.1, seconds=1)], TrainingMode.SYNC, SHARED)
        assert model.at(Counts(4, 4)) == pytest.approx(self.truth(Counts(4, 4)), rel=0.1)

    def test_the_order_of_the_samples_changes_nothing(self) -> None:
        samples = [
            sample(c, self.truth(c) * (1 + 0.01 * i), seconds=20 + i)
            for i, c in enumerate(GRID[::4][:8])
        ]
        model = fitted(samples, TrainingMode.SYNC, SHARED)
        speeds = [model.at(c) for c in GRID]

        @given(st.permutations(samples))
        def changes_nothing(shuffled: list[SpeedSample]) -> None:
            again = fitted(shuffled, TrainingMode.SYNC, SHARED)
            assert [again.at(c) for c in GRID] == speeds

        changes_nothing()

    @given(
        st.lists(
            st.tuples(st.sampled_from(GRID), st.floats(1e-12, 1e12), st.floats(2, 1e6)),
            min_size=3,
            max_size=10,
        ),
        st.sampled_from(TrainingMode),
        st.sampled_from(SpeedForm),
    )
    @settings(deadline=None)
    def test_any_samples_give_speeds_above_0_and_an_uncertainty(
        self, drawn: list[tuple[Counts, float, float]], mode: TrainingMode, form: SpeedForm
    ) -> None:
        model = SpeedModel.fit([sample(*each) for each in drawn], mode, None, form)
        if isinstance(model, NotReady):
            return
        ps, workers = np.arange(1, 21)[:, None], np.arange(1, 21)[None, :]
        for values in (model.steps_per_second(ps, workers), model.uncertainty(ps, workers)):
            assert np.isfinite(values).all()
            assert (values > 0).all()


@pytest.mark.parametrize(
    ("mode", "form", "count", "bound"),
    [
        pytest.param(TrainingMode.SYNC, SpeedForm.BLEND, 5, 0.035, id="sync, 5 samples"),
        pytest.param(TrainingMode.SYNC, SpeedForm.BLEND, 10, 0.03, id="sync, 10 samples"),
        pytest.param(TrainingMode.ASYNC, SpeedForm.BLEND, 5, 0.075, id="async, 5 samples"),
        pytest.param(TrainingMode.ASYNC, SpeedForm.BLEND, 10, 0.065, id="async, 10 samples"),
        pytest.param(TrainingMode.SYNC, SpeedForm.KNEE, 5, 0.03, id="sync, knee, 5 samples"),
        pytest.param(TrainingMode.ASYNC, SpeedForm.KNEE, 5, 0.065, id="async, knee, 5 samples"),
        pytest.param(
            TrainingMode.SYNC, SpeedForm.PAPER, 5, 0.09, id="sync, the paper's form, 5 samples"
        ),
        pytest.param(
            TrainingMode.ASYNC, SpeedForm.PAPER, 5, 0.09, id="async, the paper's form, 5 samples"
        ),
    ],
)
def test_error_on_real_speeds_that_were_not_sampled(
    mode: TrainingMode, form: SpeedForm, count: int, bound: float
) -> None:
    table = speeds(mode)
    samples = [sample(Counts(1, 1), table[Counts(1, 1)])]
    while len(samples) < count:
        counts = next_sample(samples, list(table), SpeedTerms(mode, BATCHES[mode], form))
        assert counts is not None
        samples.append(sample(counts, table[counts]))
    model = fitted(samples, mode, BATCHES[mode], form)
    hidden = [counts for counts in table if counts not in {each.counts for each in samples}]
    assert np.mean([abs(model.at(counts) / table[counts] - 1) for counts in hidden]) < bound
    picked = max(table, key=model.at)
    assert table[picked] / max(table.values()) > 0.95


def test_uneven_servers_that_are_known_are_predicted_where_nothing_was_measured() -> None:
    """One array has 0.6 of the model: with more than two PSs its own is the fullest."""
    unevenness = tuple(max(1.0, 0.6 * ps) for ps in range(1, 9))

    def speed(counts: Counts) -> float:
        seconds = (
            1.0 + 2.0 / counts.workers + counts.workers * unevenness[counts.ps - 1] / counts.ps
        )
        return 1 / seconds

    samples = [sample(each, speed(each)) for each in map(Counts, (1, 2, 1, 2), (1, 1, 4, 4))]
    hidden = [Counts(ps, workers) for ps in range(3, 9) for workers in (2, 4, 6)]

    def worst(terms: SpeedTerms) -> float:
        model = SpeedModel.of(MergedSamples.of(samples), terms)
        return max(abs(model.at(each) / speed(each) - 1) for each in hidden)

    plain = SpeedTerms(TrainingMode.SYNC, SHARED)
    assert worst(plain) > 0.5
    assert worst(replace(plain, ps_unevenness=unevenness)) < 0.2
    even = replace(plain, ps_unevenness=(1.0,))
    assert worst(even) == worst(plain)
