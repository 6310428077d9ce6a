"""Whether losses meet a goal: targets as they are, thresholds by a rule that is hard to deceive.

The paper's rule (section 2): a job has converged when its loss, divided by the largest, falls by
less than a threshold for several epochs. Before training gets anywhere a loss is flat too, and one
bad epoch makes all others small, so:

1. The loss at the start (``LossSeries.start_loss``) is the scale, and what is above it counts as
   it.
2. One epoch that is more than the threshold off both epochs beside it, which agree, is an outlier:
   their mean takes its place. Of several within two epochs none is.
3. What is left is quiet, has fallen and is near its lowest (``models.convergence.is_converged``),
   and the plateau is no stage of the learning rate's schedule (``needed_plateau``).
4. It has become flat: the last epochs fall at most half as fast as all did on average.
5. No warm-up is going on, and no drop of the learning rate is still to come: by the values that the
   log shows, and by what the program has declared.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from optimus.jobs import ConvergenceThreshold, LossGoal
from optimus.models import Vector, convergence
from optimus.models.convergence import QUIET_EPOCHS, LossSeries
from optimus.models.convergence.series import FLATTER
from optimus.progress.state import epoch_index
from optimus.progress.types import NOTHING_DECLARED, Declared, LossPoint


def meets(
    goal: LossGoal, losses: Sequence[LossPoint], declared: Declared = NOTHING_DECLARED
) -> bool:
    """Return whether losses in training order meet the goal, of a run that has declared so much."""
    if isinstance(goal, ConvergenceThreshold):
        return has_converged(goal, losses, declared)
    return convergence.meets(goal, losses)


def has_converged(
    goal: ConvergenceThreshold,
    losses: Sequence[LossPoint],
    declared: Declared = NOTHING_DECLARED,
) -> bool:
    """Return whether losses in training order have converged by the rule above."""
    series = LossSeries.of(losses) if losses else None
    if series is None or not series.in_epochs or len(series.complete_loss) <= QUIET_EPOCHS:
        return False
    means = cleaned(series.complete_loss, goal.fraction, series.start_loss)
    if not _has_flattened(means) or float(series.k[-1]) < earliest_convergence(declared):
        return False
    epochs = _points(means, series.k, losses)
    return not _warms_up(epochs) and convergence.meets(goal, epochs)


def earliest_convergence(declared: Declared) -> float:
    """The epochs before which no threshold is met: the quiet ones come after the declared warm-up
    and the last declared drop of the learning rate."""
    return max(declared.warmup_epochs or 0.0, *declared.drops, 0.0) + QUIET_EPOCHS


def cleaned(means: Vector, fraction: float, start: float) -> Vector:
    """Epoch means without what is above the start, and without outliers; ``(epochs,)`` both."""
    clipped = np.minimum(means, start)
    # High ones first: an epoch between the start and a high one is no low one.
    return _smoothed(
        _smoothed(clipped, fraction * start, above=True), fraction * start, above=False
    )


def _smoothed(means: Vector, threshold: float, *, above: bool) -> Vector:
    """Single epochs above (below) both beside them get their mean, unless others are near."""
    before, middle, after = means[:-2], means[1:-1], means[2:]
    sign = 1 if above else -1
    off = np.minimum(sign * (middle - before), sign * (middle - after))
    outlier = (off >= threshold) & (np.abs(after - before) < threshold)
    single = outlier.copy()
    single[2:] &= ~outlier[:-2]
    single[:-2] &= ~outlier[2:]
    result = means.copy()
    result[1:-1] = np.where(single, (before + after) / 2, middle)
    return result


def _has_flattened(means: Vector) -> bool:
    recent = (means[-QUIET_EPOCHS - 1] - means[-1]) / QUIET_EPOCHS
    average = (means[0] - means[-1]) / (len(means) - 1)
    return bool(recent <= FLATTER * average)


def _points(means: Vector, k: Vector, losses: Sequence[LossPoint]) -> list[LossPoint]:
    rates = {(epoch_index(point) or 0) + 1.0: point.learning_rate for point in losses}
    pairs = zip(means.tolist(), k.tolist(), strict=False)
    return [LossPoint(mean, end, learning_rate=rates.get(end)) for mean, end in pairs]


def _warms_up(epochs: Sequence[LossPoint]) -> bool:
    """Return whether the learning rate has risen within the quiet epochs."""
    rates = [each.learning_rate for each in epochs[-QUIET_EPOCHS - 1 :]]
    return any(b > a for a, b in pairwise(rates) if a is not None and b is not None)
