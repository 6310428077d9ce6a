"""What it is worth that the speed model is told how uneven PSs are:
``python -m benchmarks.uneven_servers [--seeds 4] [--side 8]``.

The nine models of the paper on its testbed (``optimus.simulator.ground_truth``), sync and async,
each PS and worker on a server of its own, with noise of 5 %. Parameters are assigned by MXNet's
hash, in turn as TensorFlow's, or balanced. After 3, 5 and 8 samples chosen by the experiment
design: the mean error over all counts, and the true speed at the counts that are predicted to be
the fastest, over the best, averaged over numbers of tasks. Differences are paired, with 95 %."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from optimus.jobs import Batch, BatchScope, Counts, TrainingMode
from optimus.models.experiment_design import next_sample
from optimus.models.speed.curve import MergedSamples, SpeedTerms
from optimus.models.speed.model import SpeedModel
from optimus.progress.types import SpeedSample
from optimus.simulator.ground_truth.assignment import AssignmentRule, ParameterAssignment
from optimus.simulator.ground_truth.job_types import JOB_TYPES, JobType
from optimus.simulator.ground_truth.speed import PhysicalSpeed, Training
from optimus.simulator.ground_truth.testbed import SPEED_NOISE, TESTBED

_BUDGETS: Final = (3, 5, 8)
_RUN_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class InTurn:
    """Whole arrays to the PSs in turn, as by TensorFlow's default."""

    sizes: Sequence[int]

    def shares(self, ps: int, /) -> tuple[float, ...]:
        """The part of the model on each PS."""
        whole = sum(self.sizes)
        return tuple(sum(self.sizes[number::ps]) / whole for number in range(ps))


RULES: Final[Mapping[str, Callable[[JobType, int], ParameterAssignment | InTurn]]] = {
    "MXNet's hash": lambda kind, seed: ParameterAssignment(AssignmentRule.MXNET, kind.sizes, seed),
    "in turn": lambda kind, _: InTurn(kind.sizes),
    "balanced": lambda kind, seed: ParameterAssignment(AssignmentRule.PAA, kind.sizes, seed),
}


def main() -> None:
    """Print a line for each rule and number of samples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--side", type=int, default=8)
    options = parser.parse_args()
    for rule in RULES:
        rows = np.array(
            [
                list(_compared(rule, kind, mode, seed, options.side))
                for kind in JOB_TYPES
                for mode in TrainingMode
                for seed in range(options.seeds)
            ]
        )  # job, samples, told or not, measure
        for number, budget in enumerate(_BUDGETS):
            untold, told = rows[:, number, 0], rows[:, number, 1]
            texts = [
                f"{name} {untold[:, n].mean():.3f} -> {told[:, n].mean():.3f} "
                f"({_paired(told[:, n] - untold[:, n])})"
                for n, name in enumerate(("error", "chosen / best"))
            ]
            print(f"{rule}, {budget} samples, {len(rows)} jobs: {'; '.join(texts)}", flush=True)


def _paired(differences: NDArray[np.float64]) -> str:
    error = 1.96 * differences.std(ddof=1) / np.sqrt(len(differences))
    return f"{differences.mean():+.4f} +- {error:.4f}"


def _compared(
    rule: str, kind: JobType, mode: TrainingMode, seed: int, side: int
) -> Iterator[list[tuple[float, float]]]:
    """Error and speed at the chosen counts, without and with the knowledge, for each budget."""
    is_sync = mode is TrainingMode.SYNC
    size, scope = (kind.batch, BatchScope.JOB) if is_sync else (kind.async_batch, BatchScope.WORKER)
    assignment = RULES[rule](kind, seed)
    training = Training(mode, size, kind.gflop_per_example, kind.model_mb)
    truth = PhysicalSpeed(training, assignment, TESTBED)  # type: ignore[arg-type]  # shares() alone
    grid = [Counts(ps, workers) for ps in range(1, side + 1) for workers in range(1, side + 1)]
    true = {each: truth.steps_per_second(_apart(each)) for each in grid}
    noise = np.exp(SPEED_NOISE * np.random.default_rng((seed, 17)).standard_normal(len(grid)))
    measured = {each: true[each] * float(factor) for each, factor in zip(grid, noise, strict=True)}
    unevenness = tuple(ps * max(assignment.shares(ps)) for ps in range(1, side + 1))
    batch = Batch(size, scope)
    both = SpeedTerms(mode, batch), SpeedTerms(mode, batch, ps_unevenness=unevenness)
    drawn = [_samples(measured, terms) for terms in both]
    for budget in _BUDGETS:
        yield [
            _scored(SpeedModel.of(MergedSamples.of(samples[:budget]), terms), true, side)
            for samples, terms in zip(drawn, both, strict=True)
        ]


def _apart(counts: Counts) -> tuple[Counts, ...]:
    return (*[Counts(1, 0)] * counts.ps, *[Counts(0, 1)] * counts.workers)


def _samples(measured: Mapping[Counts, float], terms: SpeedTerms) -> list[SpeedSample]:
    samples: list[SpeedSample] = []
    while len(samples) < max(_BUDGETS):
        counts = next_sample(samples, list(measured), terms)
        assert counts is not None
        samples.append(SpeedSample(counts, measured[counts], _RUN_SECONDS, at=float(len(samples))))
    return samples


def _scored(model: SpeedModel, true: Mapping[Counts, float], side: int) -> tuple[float, float]:
    ps, workers = np.array(list(true)).T
    speeds, predicted = np.array(list(true.values())), model.steps_per_second(ps, workers)
    ratios = []
    for tasks in range(3, 2 * side + 1):
        fits = ps + workers <= tasks
        ratios.append(speeds[np.argmax(np.where(fits, predicted, 0.0))] / speeds[fits].max())
    return float(np.mean(np.abs(predicted / speeds - 1))), float(np.mean(ratios))


if __name__ == "__main__":
    main()
