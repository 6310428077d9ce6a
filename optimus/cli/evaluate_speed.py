"""``optimus evaluate speed``: the speed model (Optimus, section 3.2) against measured speeds.

The experiment design chooses counts of the table one after another, from the smallest on; of each
one measured repeat is drawn. The model fitted to the first n of them is compared with the mean of
the repeats at all other counts, averaged over draws."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from optimus.cli.arguments import joined, whole_number
from optimus.cli.command import Answer, BadInput, Implementation, Progress
from optimus.cli.speed_table import SpeedTable, read_speed_tables
from optimus.cli.table import percent, table
from optimus.errors import NotReady
from optimus.jobs import Counts, TrainingMode
from optimus.models import Vector
from optimus.models.experiment_design import next_sample
from optimus.models.speed.curve import MergedSamples, SpeedForm
from optimus.models.speed.model import NEEDED_COUNTS, SpeedModel, why_not_ready
from optimus.progress.types import SpeedSample

_REPEATS: Final = 20
"""Draws of one repeat for each counts, where counts were measured several times."""
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
    examples: Vector
    """Examples of a step, up to a common factor."""

    @property
    def errors(self) -> Vector:
        """|predicted / measured - 1| at the counts that the model was not fitted to."""
        hidden = np.array([each not in self.samples for each in self.counts])
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


def distinct_draws(speeds: SpeedTable, repeats: int) -> int:
    """Return how many draws to make: one where nothing was measured twice."""
    return repeats if any(len(repeat) > 1 for repeat in speeds.repeats.values()) else 1


def evaluate(
    speeds: SpeedTable, budgets: Sequence[int], form: SpeedForm, generator: np.random.Generator
) -> Iterator[Draw | NotReady]:
    """One draw, for each number of samples in their order."""
    drawn = {counts: float(generator.choice(each)) for counts, each in speeds.repeats.items()}
    counts, terms, samples = tuple(speeds.repeats), speeds.terms(form), list[SpeedSample]()
    while len(samples) < max(budgets):
        at = next_sample(samples, counts, terms)
        if at is None:
            break
        servers = speeds.servers.get(at, 0)
        time = float(len(samples))
        samples.append(SpeedSample(at, drawn[at], _RUN_SECONDS, time, servers=servers))
    measured = np.array([np.mean(repeats) for repeats in speeds.repeats.values()])
    ps, workers = np.array(counts).T
    for number in budgets:
        known = MergedSamples.of(samples[:number])
        refusal = why_not_ready(known)
        if refusal is not None:
            yield refusal
            continue
        predicted = SpeedModel.of(known, terms).steps_per_second(ps, workers)
        chosen = tuple(sample.counts for sample in samples[:number])
        yield Draw(chosen, counts, predicted, measured, terms.examples(workers))


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    speeds = "speed in steps per second of the whole job; several rows: repeats"
    add("file", type=Path, metavar="FILE.csv", help=speeds)
    several = joined(whole_number(NEEDED_COUNTS))
    samples = "numbers of samples to fit (default 5,10)"
    add("--samples", type=several, default=(5, 10), metavar="N,N", help=samples)
    add("--seed", type=whole_number(0), default=0, metavar="N", help="of the draws (default 0)")


def _run(options: argparse.Namespace, progress: Progress) -> Answer:
    value: dict[str, dict[str, object]] = {}
    rows, left_out = list[Sequence[object]](), 0
    for speeds in progress(read_speed_tables(options.file), "Drawing samples"):
        left_out += speeds.left_out
        for number, draws in _drawn(speeds, options).items():
            score, samples = Score.of(draws), draws[0].samples
            errors = percent(score.mean), percent(score.p90)
            measured = " ".join(f"{p}+{w}" if p else f"{w}" for p, w in samples)
            rows.append((speeds.name, number, *errors, f"{score.chosen_ratio:.3f}", measured))
            value.setdefault(speeds.name, {})[str(number)] = {
                "mean": score.mean,
                "p90": score.p90,
                "chosen_ratio": score.chosen_ratio,
                "samples": [list(counts) for counts in samples],
            }
    headings = ("mode", "samples", "mean error", "90th pct.", "chosen/best", "measured, first draw")
    said = (
        "error: |predicted / measured - 1| at what was not measured for the model; chosen/best: "
        "measured speed at the model's choice / best measured speed; "
        f"{left_out} runs that failed or took more servers than needed are left out"
    )
    return Answer(value, f"{table('<>>>><', headings, rows)}\n\n{said}")


def _drawn(speeds: SpeedTable, options: argparse.Namespace) -> dict[int, list[Draw]]:
    """The draws by the number of samples."""
    found: dict[int, list[Draw]] = {samples: [] for samples in options.samples}
    for number in range(distinct_draws(speeds, _REPEATS)):
        # A mode's draws are the same whether or not the file holds the other mode.
        seed = [options.seed, speeds.mode is TrainingMode.SYNC, number]
        draws = evaluate(speeds, options.samples, SpeedForm.BLEND, np.random.default_rng(seed))
        for samples, draw in zip(options.samples, draws, strict=True):
            if isinstance(draw, NotReady):
                raise BadInput(options.file, f"{speeds.name}: {draw}")
            found[samples].append(draw)
    return found


IMPLEMENTATION: Final = Implementation(_add_arguments, _run)
