"""When a convergence threshold counts as met, and what must not meet it."""

from dataclasses import replace

import numpy as np
import pytest

from optimus.jobs import ConvergenceThreshold, TargetLoss
from optimus.models.convergence import LossSeries
from optimus.models.forecast import goal_is_met
from optimus.models.goals import cleaned, earliest_convergence, meets
from optimus.progress.types import Declared, LossPoint, TrainingProgress
from tests.cases import cases

RULE = ConvergenceThreshold(0.02)
FALL = [2.3 / (1 + 0.5 * n) + 0.1 for n in range(40)]
"""Falls to 0.21; quiet by 0.02 from epoch 10 to 12 on."""


def points(means: list[float], rates: list[float] | None = None) -> tuple[LossPoint, ...]:
    known: list[float] | list[None] = rates or [None] * len(means)
    pairs = zip(means, known, strict=True)
    return tuple(LossPoint(loss, n, learning_rate=rate) for n, (loss, rate) in enumerate(pairs, 1))


def met_after(means: list[float], rates: list[float] | None = None) -> int | None:
    """The number of epochs with which the rule is met first."""
    given = points(means, rates)
    return next((n for n in range(1, len(given) + 1) if meets(RULE, given[:n])), None)


@cases(
    "means",
    {
        "a loss that rises": [2.3, 3, 5, 9, 20],
        "one that has risen": [2.3, 3, 5, 9, 20, 20, 20, 20, 20, 20],
        "and is back": [2.3, 3, 5, 9, 20, 9, 5, 3, 2.3, 2.3, 2.3, 2.3, 2.3],
        "a loss that has never fallen": [2.3] * 40,
        "a flat start with noise": [2.3 + 0.01 * (-1) ** n for n in range(40)],
        "one spike at a flat start": [2.3, 500, *[2.3] * 20],
        "one spike later": [2.3, *[2.29] * 10, 500, *[2.28] * 10],
        "a spike in the first epoch": [500, *(2.3 - 0.05 * n for n in range(20))],
        "a slow and steady fall": [2.3 - 0.03 * n for n in range(40)],
        "a warm-up, falling faster": [7 - 0.02 * n**1.5 for n in range(20)],
        "a warm-up that overshoots": [2.3 + 0.2 * n for n in range(6)] + [2.2] * 10,
        "a slow rise": [2.3, 1.0, 0.5, *(0.5 + 0.03 * n for n in range(20))],
        "a loss that swings": [2.3, 1.0, 0.5, 0.9, 0.5, 0.9, 0.5, 0.9],
        "and goes on to": [2.3, 1.0, 0.5, 0.9] + [0.5, 0.9] * 20,
    },
)
def test_no_convergence(means: list[float]) -> None:
    assert met_after(means) is None


def test_a_fall_that_becomes_flat_is_convergence() -> None:
    assert met_after(FALL) == 12


@pytest.mark.parametrize("at", [0, 1, 4, 8, 20])
def test_one_spike_does_not_bring_it_earlier(at: int) -> None:
    means = [*FALL]
    means[at] = 500.0
    found = met_after(means)
    assert found is not None
    assert 12 <= found <= 17


@pytest.mark.parametrize("value", [0.0001, 500.0])
def test_an_outlier_on_the_plateau_does_not_undo_it(value: float) -> None:
    means = [*FALL]
    means[25] = value
    assert meets(RULE, points(means))


def test_a_spike_of_one_batch_within_an_epoch_is_one_of_its_mean() -> None:
    batches = [LossPoint(2.3, 0.1 * n) for n in range(1, 150)]
    batches[75] = LossPoint(500.0, batches[75].epoch)
    assert not meets(RULE, batches)


def test_a_slow_training_converges_once_it_is_flat() -> None:
    slow = [2.3 * 0.985**n for n in range(80)] + [2.3 * 0.985**80] * 80
    found = met_after(slow)
    assert found is not None
    assert found > 80


class TestSchedules:
    def test_nothing_converges_while_the_learning_rate_rises(self) -> None:
        rates = [0.01 * n for n in range(1, 21)] + [0.2] * 20
        assert met_after(FALL[:21], rates[:21]) is None
        assert meets(RULE, points([*FALL, *FALL[-1:] * 20], rates + [0.2] * 20))

    def test_a_plateau_before_a_declared_drop_is_no_convergence(self) -> None:
        losses = points(FALL)
        declared = Declared(epochs=60, schedule="step", drops=(38.0,), drop_factor=0.1)
        assert meets(RULE, losses)
        assert not meets(RULE, losses, declared)
        progress = TrainingProgress(losses, declared=declared)
        assert not goal_is_met(RULE, progress)
        assert goal_is_met(RULE, replace(progress, declared=replace(declared, drops=(20.0,))))

    def test_a_declared_warm_up_is_waited_for(self) -> None:
        losses = points(FALL)
        assert not meets(RULE, losses, Declared(warmup_epochs=38.0))
        assert meets(RULE, losses, Declared(warmup_epochs=5.0))

    @pytest.mark.parametrize(
        ("declared", "epochs"),
        [
            (Declared(), 3),
            (Declared(warmup_epochs=5.0), 8),
            (Declared(warmup_epochs=5.0, drops=(100.0, 150.0)), 153),
        ],
    )
    def test_the_quiet_epochs_come_after_what_is_declared(
        self, declared: Declared, epochs: float
    ) -> None:
        assert earliest_convergence(declared) == epochs
        flat = points([2.3, 1.0, *[0.3] * 200])
        first = next(n for n in range(4, 203) if meets(RULE, flat[:n], declared))
        assert first == max(epochs, 6)

    def test_a_plateau_before_a_drop_that_the_log_shows(self) -> None:
        plateau = [2.3, 1.5, 1.2, 1.05, *[1.0] * 16, 0.6, 0.55, *[0.54] * 10]
        rates = [0.1] * 20 + [0.01] * 12
        assert met_after(plateau, rates) is None


def test_a_target_is_compared_with_the_means_as_they_are() -> None:
    assert meets(TargetLoss(0.2), points([2.3, 0.19, 0.18, 500]))


def test_without_epochs_there_is_no_rule() -> None:
    assert not meets(RULE, [LossPoint(loss, None, n) for n, loss in enumerate(FALL)])
    assert not meets(RULE, [])


@cases(
    ("means", "clean"),
    {
        "a high one": ([2.0, 1.0, 500, 0.95], [2.0, 1.0, 0.975, 0.95]),
        "a low one": ([2.0, 1.0, 0.1, 1.0], [2.0, 1.0, 1.0, 1.0]),
        "several near each other": (
            [2.0, 1.0, 0.5, 0.9, 0.5, 0.9, 0.5],
            [2.0, 1.0, 0.5, 0.9, 0.5, 0.9, 0.5],
        ),
        "a course": ([2.0, 1.0, 0.5, 0.3], [2.0, 1.0, 0.5, 0.3]),
        "above the start": ([2.0, 3.0, 4.0, 1.0], [2.0, 2.0, 2.0, 1.0]),
        "a first epoch off": ([30.0, 2.0, 1.5, 1.0, 3.0], [2.0, 2.0, 1.5, 1.0, 2.0]),
        "the last may be a drop": ([2.0, 1.0, 1.0, 0.1], [2.0, 1.0, 1.0, 0.1]),
    },
)
def test_outliers_are_taken_out(means: list[float], clean: list[float]) -> None:
    start = LossSeries.of(points(means)).start_loss
    assert cleaned(np.array(means), 0.1, start).tolist() == pytest.approx(clean)
