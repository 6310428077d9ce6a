"""Which counts are measured next."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimus.jobs import Batch, BatchScope, Counts, TrainingMode
from optimus.models.experiment_design import next_sample
from optimus.models.speed.curve import SpeedForm, SpeedTerms
from optimus.progress.types import SpeedSample
from tests.cases import cases
from tests.unit.models.measured import BATCHES, sample

GRID = [Counts(ps, workers) for ps in range(1, 7) for workers in range(1, 7)]
WIDE = [Counts(ps, workers) for ps in range(1, 9) for workers in range(1, 9)]
SHARED = Batch(64, BatchScope.JOB)


def time(counts: Counts) -> float:
    return (
        1.2 / counts.workers
        + 0.3
        + 0.4 * max(counts.workers / counts.ps, 1.0)
        + 0.01 * counts.workers
    )


def chosen(
    first: Counts, allowed: list[Counts], number: int, mode: TrainingMode, form: SpeedForm
) -> list[Counts]:
    samples = [sample(first, 1 / time(first))]
    while len(samples) < number:
        counts = next_sample(samples, allowed, SpeedTerms(mode, BATCHES[mode], form))
        if counts is None:
            break
        assert counts in allowed
        assert counts not in {each.counts for each in samples}
        samples.append(sample(counts, 1 / time(counts)))
    return [each.counts for each in samples]


def test_without_a_sample_the_smallest_counts_come_first() -> None:
    assert next_sample(
        [], [Counts(2, 2), Counts(1, 2), Counts(2, 1)], SpeedTerms(TrainingMode.SYNC)
    ) == Counts(1, 2)


def test_nothing_is_left_once_all_is_measured() -> None:
    assert (
        next_sample([sample(Counts(1, 1), 1.0)], [Counts(1, 1)], SpeedTerms(TrainingMode.SYNC))
        is None
    )
    assert next_sample([], [], SpeedTerms(TrainingMode.SYNC)) is None


def test_it_does_not_depend_on_the_order_of_what_is_allowed() -> None:
    samples = [sample(Counts(1, 2), 2.4), sample(Counts(1, 1), 2.0)]
    forth = next_sample(samples, GRID, SpeedTerms(TrainingMode.SYNC, SHARED))
    assert forth == next_sample(samples[::-1], GRID[::-1], SpeedTerms(TrainingMode.SYNC, SHARED))


def test_samples_on_another_class_of_node_lead_to_the_same_counts() -> None:
    """Twice as fast everywhere on one kind: that is the kind's doing, not the counts'."""
    plain, mixed = list[SpeedSample](), list[SpeedSample]()
    for index, counts in enumerate(GRID[::3]):
        fast = index % 2
        plain.append(SpeedSample(counts, 1 / time(counts), 60.0, 0.0, ""))
        mixed.append(
            SpeedSample(counts, (1 + fast) / time(counts), 60.0, 0.0, "fast" if fast else "")
        )
    assert next_sample(mixed, GRID, SpeedTerms(TrainingMode.SYNC)) == next_sample(
        plain, GRID, SpeedTerms(TrainingMode.SYNC)
    )


@pytest.mark.parametrize("mode", TrainingMode)
@pytest.mark.parametrize("fitted", SpeedForm)
@pytest.mark.parametrize("form", [SpeedForm.KNEE, SpeedForm.PAPER])
@pytest.mark.parametrize(
    "first", [Counts(1, 1), Counts(2, 4), Counts(8, 8), Counts(4, 1), Counts(1, 8)]
)
def test_five_samples_identify_the_form_whatever_the_first_counts(
    mode: TrainingMode, fitted: SpeedForm, form: SpeedForm, first: Counts
) -> None:
    """The columns at the five are far from dependent: no coefficient can be traded for others."""
    counts = chosen(first, WIDE, 5, mode, fitted)
    columns = SpeedTerms(mode, BATCHES[mode], form).columns(*np.array(counts).T)[0]
    relative = columns / np.array([[time(each)] for each in counts])
    scaled = relative / np.linalg.norm(relative, axis=0)
    values = np.linalg.svd(scaled, compute_uv=False)
    assert len(values) == columns.shape[1]
    assert values[-1] > 0.02 * values[0]


@cases(
    "allowed",
    {
        "only one PS": [Counts(1, n) for n in range(1, 9)],
        "only one worker": [Counts(n, 1) for n in range(1, 9)],
        "a line across": [Counts(n, 9 - n) for n in range(1, 9)],
        "the diagonal alone": [Counts(n, n) for n in range(1, 9)],
        "always two workers a PS": [Counts(n, 2 * n) for n in range(1, 9)],
        "two pairs": [Counts(1, 1), Counts(7, 3)],
        "narrow bounds": [Counts(p, w) for p in (3, 4) for w in (5, 6)],
        "far apart": [Counts(1, 1), Counts(1, 500), Counts(500, 1), Counts(500, 500)],
    },
)
@pytest.mark.parametrize("mode", TrainingMode)
@pytest.mark.parametrize("first", [Counts(1, 1), Counts(2, 3)])
def test_any_set_is_measured_to_its_end(
    allowed: list[Counts], mode: TrainingMode, first: Counts
) -> None:
    found = chosen(first, allowed, 20, mode, SpeedForm.BLEND)
    assert set(found) == {first, *allowed}
    assert found == chosen(first, allowed, 20, mode, SpeedForm.BLEND)


def test_on_a_line_the_ends_come_first() -> None:
    assert set(
        chosen(
            Counts(1, 1),
            [Counts(1, n) for n in range(1, 9)],
            2,
            TrainingMode.ASYNC,
            SpeedForm.BLEND,
        )
    ) == {Counts(1, 1), Counts(1, 8)}


@given(
    st.lists(st.sampled_from(GRID), min_size=2, unique=True),
    st.sampled_from(GRID),
    st.sampled_from(TrainingMode),
    st.sampled_from(SpeedForm),
    st.lists(st.floats(0.01, 100.0), min_size=6, max_size=6),
)
@settings(deadline=None)
def test_it_never_stays_on_the_diagonal(
    allowed: list[Counts], first: Counts, mode: TrainingMode, form: SpeedForm, measured: list[float]
) -> None:
    samples: list[SpeedSample] = [sample(first, measured[0])]
    for speed in measured[1:]:
        counts = next_sample(samples, allowed, SpeedTerms(mode, BATCHES[mode], form))
        if counts is None:
            break
        assert counts in allowed
        assert counts not in {each.counts for each in samples}
        samples.append(sample(counts, speed))
    on_diagonal = all(each.counts.ps == each.counts.workers for each in samples)
    assert not on_diagonal or all(counts.ps == counts.workers for counts in allowed)
