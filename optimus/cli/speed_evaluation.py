"""Evaluates the speed model on a measured table; the model sees some of its counts.

The experiment design chooses counts of the table one after another, from the smallest on; of each
one measured repeat is drawn. The model fitted to the first n of them is compared with the mean of
the repeats at all other counts, averaged over draws."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from optimus.cli.speed_table import SpeedTable
from optimus.errors import NotReady
from optimus.jobs import Counts
from optimus.models import Vector
from optimus.models.experiment_design import next_sample
from optimus.models.speed.curve import MergedSamples, SpeedForm
from optimus.models.speed.model import SpeedModel, why_not_ready
from optimus.progress.types import SpeedSample

_RUN_SECONDS: Final = 60.0
"""As long as profiling runs."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One draw with one number of samples; arrays over all counts of the table, in its order."""

    samples: tuple[Counts, ...]
    counts: tuple[Counts, ...]
    predicted: Vector
    measured: Vector
    """The mean of the repeats."""
    sampled: tuple[bool, ...]
    """Whether the model was fitted to these counts."""
    examples: Vector
    """Examples of a step, up to a common factor."""

    @property
    def errors(self) -> Vector:
        """|predicted / measured - 1| at the counts that the model was not fitted to."""
        hidden = ~np.array(self.sampled)
        return np.asarray(np.abs(self.predicted[hidden] / self.measured[hidden] - 1))

    @property
    def chosen_ratio(self) -> float:
        """Measured speed, in examples, at the counts with the highest predicted one / the best."""
        measured = self.measured * self.examples
        return float(measured[int(np.argmax(self.predicted * self.examples))] / measured.max())


@dataclass(frozen=True, slots=True)
class Score:
    """Averages over draws; the errors are ``None`` where all counts were sampled."""

    mean: float | None
    p90: float | None
    chosen_ratio: float

    @classmethod
    def of(cls, draws: Sequence[Draw]) -> "Score":
        """The averages of several draws with the same number of samples."""
        errors = [draw.errors for draw in draws]
        chosen = float(np.mean([draw.chosen_ratio for draw in draws]))
        if not all(len(error) for error in errors):
            return cls(None, None, chosen)
        mean = float(np.mean([each.mean() for each in errors]))
        return cls(mean, float(np.mean([np.percentile(each, 90) for each in errors])), chosen)


def distinct_draws(table: SpeedTable, repeats: int) -> int:
    """Return how many draws to make: one where nothing was measured twice."""
    return repeats if any(len(repeat) > 1 for repeat in table.repeats.values()) else 1


def evaluate(
    table: SpeedTable, budgets: Iterable[int], form: SpeedForm, generator: np.random.Generator
) -> Iterator[Draw | NotReady]:
    """One draw, for each number of samples in their order."""
    drawn = {counts: float(generator.choice(repeats)) for counts, repeats in table.repeats.items()}
    wanted = list(budgets)
    samples = _samples(table, drawn, max(wanted), form)
    measured = np.array([np.mean(repeats) for repeats in table.repeats.values()], dtype=np.float64)
    counts = tuple(table.repeats)
    ps, workers = np.array(counts).T
    terms = table.terms(form)
    examples = terms.examples(workers)
    for number in wanted:
        known = MergedSamples.of(samples[:number])
        refusal = why_not_ready(known)
        if refusal is not None:
            yield refusal
            continue
        model = SpeedModel.of(known, terms)
        chosen = tuple(sample.counts for sample in samples[:number])
        sampled = tuple(count in chosen for count in counts)
        predicted = model.steps_per_second(ps, workers)
        yield Draw(chosen, counts, predicted, measured, sampled, examples)


def _samples(
    table: SpeedTable, drawn: dict[Counts, float], number: int, form: SpeedForm
) -> list[SpeedSample]:
    samples: list[SpeedSample] = []
    allowed, terms = tuple(table.repeats), table.terms(form)
    while len(samples) < number:
        counts = next_sample(samples, allowed, terms)
        if counts is None:
            break
        at, servers = float(len(samples)), table.servers.get(counts, 0)
        samples.append(SpeedSample(counts, drawn[counts], _RUN_SECONDS, at, servers=servers))
    return samples
