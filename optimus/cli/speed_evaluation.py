"""How well the speed model would have predicted a measured table, had the product measured some of
its counts.

The counts to measure are chosen one after another by the product's own design, from the smallest
on, among those of the table; of each one measured repeat is drawn. The model that is fitted to the
first n of them is compared with the mean of the repeats at all counts that it has not seen. All
this is done anew for every draw, and averaged."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from optimus.cli.speed_table import SpeedTable
from optimus.errors import NotReady
from optimus.jobs import Counts
from optimus.models import Vector
from optimus.models.experiment_design import next_sample
from optimus.models.speed.curve import SpeedForm
from optimus.models.speed.model import SpeedModel
from optimus.progress.types import SpeedSample

_RUN_SECONDS: Final = 60.0
"""As long as the product's own runs."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """One draw with one number of samples.

    ``counts`` are all of the table, in its order, ``predicted`` and ``measured`` (the mean of the
    repeats) the speeds at them, ``seen`` which of them were measured for the model.
    """

    samples: tuple[Counts, ...]
    counts: tuple[Counts, ...]
    predicted: Vector
    measured: Vector
    seen: tuple[bool, ...]

    @property
    def errors(self) -> Vector:
        """|predicted / measured - 1| at the counts that the model has not seen."""
        hidden = ~np.array(self.seen)
        return np.asarray(np.abs(self.predicted[hidden] / self.measured[hidden] - 1))

    @property
    def chosen_ratio(self) -> float:
        """The measured speed at the counts that the model takes for the fastest / the best measured
        speed."""
        return float(self.measured[int(np.argmax(self.predicted))] / self.measured.max())


@dataclass(frozen=True, slots=True)
class Score:
    """Averages over draws; the errors are ``None`` where every pair of counts was measured for the
    model."""

    mean: float | None
    p90: float | None
    chosen_ratio: float

    @classmethod
    def of(cls, judgements: Sequence[Judgement]) -> "Score":
        """The averages of several draws with the same number of samples."""
        errors = [judgement.errors for judgement in judgements]
        chosen = float(np.mean([judgement.chosen_ratio for judgement in judgements]))
        if not all(len(each) for each in errors):
            return cls(None, None, chosen)
        mean = float(np.mean([each.mean() for each in errors]))
        return cls(mean, float(np.mean([np.percentile(each, 90) for each in errors])), chosen)


def draws_that_differ(table: SpeedTable, repeats: int) -> int:
    """So many draws are worth making: one where nothing was measured twice."""
    return repeats if any(len(each) > 1 for each in table.repeats.values()) else 1


def judge(
    table: SpeedTable, budgets: Iterable[int], form: SpeedForm, generator: np.random.Generator
) -> Iterator[Judgement | NotReady]:
    """One draw: a judgement for each number of samples, in their order."""
    drawn = {counts: float(generator.choice(repeats)) for counts, repeats in table.repeats.items()}
    wanted = list(budgets)
    samples = _samples(table, drawn, max(wanted), form)
    measured = np.array([np.mean(repeats) for repeats in table.repeats.values()], dtype=np.float64)
    counts = tuple(table.repeats)
    ps, workers = np.array(counts).T
    for number in wanted:
        model = SpeedModel.fit(samples[:number], table.mode, table.batch, form)
        if isinstance(model, NotReady):
            yield model
            continue
        chosen = tuple(sample.counts for sample in samples[:number])
        seen = tuple(each in chosen for each in counts)
        yield Judgement(chosen, counts, model.steps_per_second(ps, workers), measured, seen)


def _samples(
    table: SpeedTable, drawn: dict[Counts, float], number: int, form: SpeedForm
) -> list[SpeedSample]:
    samples: list[SpeedSample] = []
    allowed = tuple(table.repeats)
    while len(samples) < number:
        counts = next_sample(samples, allowed, table.mode, table.batch, form)
        if counts is None:
            break
        samples.append(SpeedSample(counts, drawn[counts], _RUN_SECONDS, at=float(len(samples))))
    return samples
