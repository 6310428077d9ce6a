"""The speed model on measured step times of all-reduce training:
``python -m benchmarks.all_reduce_speed [--tables DIR] [--draws 4]``.

Each series of Pollux's tables at one global batch, at powers of two of workers that share it, four
to a server (*packed*) or one (*spread*). A job stands at each of its counts in turn and is measured
there, and next at the nearest others, with 3 % noise. The model is asked for the best counts within
a factor of two of the samples: measured speed there to the best, how often it is over 5 % slower
than where the job stood, and the mean error at what was not measured."""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from benchmarks.pollux_workloads import GPUS, TABLES, Application, packed
from optimus.jobs import Batch, BatchScope, Counts, TrainingMode
from optimus.models.speed.curve import MergedSamples, Processes, SpeedTerms
from optimus.models.speed.model import SpeedModel
from optimus.progress.types import SpeedSample

_LATE, _NOISE, _MOST_SPREAD = 1.05, 0.03, 16


def series(tables: Path, *, spread: bool) -> Iterator[tuple[int, Mapping[int, float]]]:
    """Each global batch with the step seconds by workers."""
    for folder in sorted(each.parent for each in tables.glob("*/placements.csv")):
        application = Application(folder)
        for file in sorted(folder.glob("validation-*.csv")):
            batch = int(file.stem.split("-")[1])
            most = batch // application.least_local
            counts = [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= most and batch % n == 0]
            if spread:
                counts = [n for n in counts if n <= _MOST_SPREAD]
            if len(counts) > 2:
                placed = {n: (1,) * n if spread else packed(n) for n in counts}
                yield (
                    batch,
                    {n: application.step_seconds(batch, place) for n, place in placed.items()},
                )


def measured_model(
    batch: int,
    seconds: Mapping[int, float],
    own: int,
    samples: int,
    held: int,
    rng: np.random.Generator,
) -> tuple[SpeedModel, list[int]]:
    """The model of a job that stands at these counts, and where it was measured."""
    processes = Processes(per_server=held)
    terms = SpeedTerms(TrainingMode.SYNC, Batch(batch, BatchScope.JOB), processes=processes)
    others = sorted(set(seconds) - {own}, key=lambda n: (abs(np.log2(n / own)), -n))
    seen = [own, *others][:samples]
    measured = [
        SpeedSample(
            Counts(0, n),
            float(np.exp(_NOISE * rng.standard_normal())) / seconds[n],
            60.0,
            float(at),
            servers=int(processes.servers(n)),
        )
        for at, n in enumerate(seen)
    ]
    return SpeedModel.of(MergedSamples.of(measured), terms), seen


def answers(
    batch: int,
    seconds: Mapping[int, float],
    samples: int,
    held: int,
    rng: np.random.Generator,
) -> Iterator[tuple[float, bool, float | None]]:
    """From each of the counts: chosen to best speed, whether it is slower, the mean error."""
    for own in seconds:
        model, seen = measured_model(batch, seconds, own, samples, held, rng)
        near = [n for n in seconds if min(seen) / 2 <= n <= 2 * max(seen)]
        predicted = model.steps_per_second(0, np.array(near))
        chosen = seconds[near[int(np.argmax(predicted))]]
        errors = [
            abs(speed * seconds[n] - 1)
            for n, speed in zip(near, predicted, strict=True)
            if n not in seen
        ]
        error = float(np.mean(errors)) if errors else None
        best = min(seconds[n] for n in near)
        yield best / chosen, chosen > _LATE * seconds[own], error


def main() -> None:
    """Print a row for each placement and number of samples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=Path, default=TABLES, metavar="DIR")
    parser.add_argument("--draws", type=int, default=4)
    options = parser.parse_args()
    print("placement  samples  chosen/best  slower  error")
    for name in ("packed", "spread"):
        every = list(series(options.tables, spread=name == "spread"))
        for samples in (1, 2, 3):
            rng = np.random.default_rng(0)
            found = [
                answer
                for _ in range(options.draws)
                for batch, seconds in every
                for answer in answers(batch, seconds, samples, GPUS if name == "packed" else 1, rng)
            ]
            chosen, slower = (float(np.mean([each[at] for each in found])) for at in (0, 1))
            error = float(np.mean([each[2] for each in found if each[2] is not None]))
            print(f"{name:<9} {samples:>8} {chosen:>12.3f} {slower:>7.1%} {error:>6.0%}")


if __name__ == "__main__":
    main()
