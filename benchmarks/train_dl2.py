"""Weights of the policy `dl2`, learned in drawn jobs of a setting.

``python -m benchmarks.train_dl2 --output FILE.npz [--seed N] [--steps N] [--processes N]`` writes
them, and prints the completion times beside those of ``optimus`` on other traces."""

import argparse
import hashlib
import json
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.gym import SlotTrace, mean_slots, with_errors
from benchmarks.learning import Adam, Lesson, MakeTrace, drawn_scorer, improve
from benchmarks.lessons import SETTING, trace_of_testbed
from optimus.allocation.scorer import FEATURES, NAMES, LearnedScorer, Values
from optimus.cli.arguments import whole_number
from optimus.cli.executors import Map, add_executor_arguments, executor
from optimus.policies.dl2 import Dl2Policy
from optimus.policies.optimus import OptimusPolicy

_STEPS: Final = 20
_EPISODES: Final = 16
"""Of a step."""
_RATE: Final = 1e-2
_LARGEST_ERROR: Final = 0.1
_LEARNED: Final = 2_000_000
"""The first seed of the traces of the policy gradient."""
_COMPARED: Final = range(3_000_000, 3_000_030)


def main() -> None:
    """Learn, write the weights, and compare them with `optimus` on other traces."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--output", type=Path, required=True, metavar="FILE.npz", help="write the weights here")
    add("--seed", type=whole_number(0), default=1, metavar="N", help="of new weights")
    add("--steps", type=whole_number(0), default=_STEPS, metavar="N", help="of policy gradient")
    add_executor_arguments(parser)
    options = parser.parse_args()
    with executor(options, _EPISODES) as run:
        training = Training(_drawn(options.seed))
        for _ in range(options.steps):
            training.step(run)
        _write(training.learned, options.output)
        with options.output.open("rb") as file:
            learned = LearnedScorer.load(file)
        ratio = _compared(learned, run)
    spread = 1.96 * float(ratio.std(ddof=1)) / len(ratio) ** 0.5
    print(
        f"weights {learned.mark} after {learned.about['steps']} steps are in {options.output}\n"
        f"completion time divided by that of optimus on the true speeds, on {len(ratio)} traces"
        f" that were not trained on:\n{ratio.mean():.3f} ± {spread:.3f}, worst {ratio.max():.3f}"
    )


@lru_cache(maxsize=4)
def lesson_trace(seed: int) -> SlotTrace:
    """A trace to learn in: every other one with forecasts that are wrong by up to a tenth."""
    trace = trace_of_testbed(seed)
    if seed % 2 == 0:
        return trace
    draw = np.random.default_rng(seed)
    return with_errors(trace, draw.uniform(0, _LARGEST_ERROR), draw)


@dataclass(slots=True)
class Training:
    """Weights while they are learned."""

    learned: LearnedScorer
    adam: Adam = field(default_factory=lambda: Adam(_RATE))

    def step(self, run: Map[Any, Any]) -> None:
        """One step of the policy gradient on a trace of its own."""
        before = self.learned
        seed, steps = before.about["seed"], before.about["steps"]
        trace = _LEARNED + seed * 100_000 + steps
        draws = ((seed, steps, number) for number in range(_EPISODES))
        lessons = [Lesson(lesson_trace, trace, before.scorer, draw) for draw in draws]
        episodes = tuple(run(Lesson.play, lessons))
        seen = np.concatenate([each for episode in episodes for each in episode.features])
        self.learned = LearnedScorer(
            improve(before.scorer, episodes, self.adam),
            np.minimum(before.low, seen.min(axis=0)),
            np.maximum(before.high, seen.max(axis=0)),
            {**before.about, "steps": before.about["steps"] + 1},
        )


def _drawn(seed: int) -> LearnedScorer:
    nothing = np.zeros(len(FEATURES))
    about = {"features": FEATURES, "setting": SETTING, "seed": seed, "steps": 0}
    return LearnedScorer(drawn_scorer(seed), nothing, nothing, about)


def _write(learned: LearnedScorer, file: Path) -> None:
    """As numbers of 32 bits."""
    values = {**learned.scorer.weights, "low": learned.low, "high": learned.high}
    arrays: dict[str, Any] = {name: each.astype("<f4") for name, each in values.items()}
    content = b"".join(arrays[name].tobytes() for name in (*NAMES, "low", "high"))
    about = {**learned.about, "hash": hashlib.sha256(content).hexdigest()}
    np.savez_compressed(file, about=np.array(json.dumps(about)), **arrays)


@dataclass(frozen=True, slots=True, eq=False)
class _Comparison:
    make: MakeTrace
    learned: LearnedScorer

    def ratio(self, seed: int) -> float:
        """The mean completion time divided by that of `optimus`."""
        trace, usual = self.make(seed), OptimusPolicy()
        return mean_slots(trace, Dl2Policy(self.learned, usual)) / mean_slots(trace, usual)


def _compared(learned: LearnedScorer, run: Map[Any, Any]) -> Values:
    """Trace by trace, in traces that were not trained on."""
    return np.array(list(run(_Comparison(trace_of_testbed, learned).ratio, _COMPARED)))


if __name__ == "__main__":
    main()
