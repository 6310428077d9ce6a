"""``optimus train``: weights of the policy `dl2`, learned in drawn jobs of a setting."""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from optimus.allocation.scorer import FEATURES, ROOM, Learned, Scorer, Values
from optimus.cli.arguments import whole_number
from optimus.cli.command import Answer, BadInput, Implementation, Progress
from optimus.policies.optimus import OptimusPolicy
from optimus.simulator.gym import Sampler, run
from optimus.simulator.learning import Adam, Examples, improve, taught, warm_up
from optimus.simulator.lessons import SETTING, taught_by, trace_of_testbed

_STEPS: Final = 140
_MINUTES: Final = 10
_TAUGHT: Final = range(1_000_000, 1_000_030)
"""Seeds of the traces of the warm-up."""
_LEARNED: Final = 2_000_000
"""The first seed of the traces of the policy gradient."""
_COMPARED: Final = range(3_000_000, 3_000_030)
_RATES: Final = 3e-3, 1e-3
_SAVE_EVERY: Final = 20


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add, amount = parser.add_argument, whole_number(1)
    add("--output", type=Path, required=True, metavar="FILE.npz", help="write the weights here")
    add("--resume", type=Path, metavar="FILE.npz", help="go on from these weights")
    seed = "of all that is drawn (default: 1, or that of --resume)"
    add("--seed", type=whole_number(0), metavar="N", help=seed)
    steps = f"steps of the policy gradient (default: {_STEPS})"
    add("--steps", type=whole_number(0), default=_STEPS, metavar="N", help=steps)
    minutes = f"end after so many minutes, whatever is left to do (default: {_MINUTES})"
    add("--minutes", type=amount, default=_MINUTES, metavar="N", help=minutes)


def _run(options: argparse.Namespace, progress: Progress) -> Answer:
    """Learn, write the weights, and compare them with the teacher on other traces."""
    if not options.output.parent.is_dir():
        raise BadInput(options.output, "a file in a folder that exists is expected")
    training = _begun(options)
    end = time.monotonic() + 60 * options.minutes
    for number in progress(range(options.steps), "learning"):
        if time.monotonic() > end:
            break
        training.step()
        if number % _SAVE_EVERY == _SAVE_EVERY - 1:
            _write(training.learned, options.output)
    _write(training.learned, options.output)
    learned = training.learned
    ratio = _compared(learned.scorer, progress)
    spread = 1.96 * float(ratio.std(ddof=1)) / len(ratio) ** 0.5
    value = {
        "file": str(options.output), "hash": learned.mark, "setting": learned.setting,
        "seed": learned.seed, "steps": learned.steps, "jobs": learned.jobs,
        "ratio": float(ratio.mean()), "plus_or_minus": spread, "worst": float(ratio.max()),
    }  # fmt: skip
    text = (
        f"weights {learned.mark} after {learned.steps} steps, written to {options.output}\n"
        f"completion time divided by that of optimus on the true speeds, on {len(ratio)} traces"
        f" that were not trained on:\n{ratio.mean():.3f} ± {spread:.3f}, worst {ratio.max():.3f}"
    )
    return Answer(value, text)


@dataclass(slots=True)
class _Training:
    """Weights while they are learned. Moments of Adam begin anew where training is resumed."""

    learned: Learned
    adam: Adam = field(default_factory=lambda: Adam(_RATES[1]))

    def step(self) -> None:
        """One step of the policy gradient on a trace of its own."""
        before = self.learned
        trace = trace_of_testbed(_LEARNED + before.seed * 100_000 + before.steps)
        draw = np.random.default_rng((before.seed, before.steps))
        scorer, _ = improve(before.scorer, trace, self.adam, draw)
        ranges = before.low, before.high, before.jobs
        self.learned = Learned(scorer, *ranges, before.setting, before.seed, before.steps + 1)


def _begun(options: argparse.Namespace) -> _Training:
    if options.resume is not None:
        try:
            learned = Learned.load(str(options.resume))
        except ValueError as problem:
            said = str(problem).removeprefix(f"{options.resume}: ")
            raise BadInput(options.resume, said) from None
        if options.seed not in {None, learned.seed}:
            raise BadInput("--seed", f"{learned.seed} is expected, that of --resume")
        return _Training(learned)
    seed = 1 if options.seed is None else options.seed
    draw = np.random.default_rng(seed)
    examples = taught(map(trace_of_testbed, _TAUGHT), taught_by(OptimusPolicy()), draw)
    scorer = Scorer.drawn(len(FEATURES), len(ROOM), seed)
    scorer = warm_up(scorer, examples, Adam(_RATES[0]), draw)
    return _Training(Learned(scorer, *_range(examples), SETTING, seed, 0))


def _range(examples: Examples) -> tuple[Values, Values, int]:
    """The least and the largest of each feature, and the most jobs at a time."""
    seen = examples.features[examples.present]
    return seen.min(axis=0), seen.max(axis=0), int(examples.present.sum(axis=1).max())


def _write(learned: Learned, file: Path) -> None:
    """Whole or not at all."""
    beside = file.with_name(f".{file.name}.part")
    with beside.open("wb") as opened:
        learned.save(opened)
    beside.replace(file)


def _compared(scorer: Scorer, progress: Progress) -> Values:
    """The mean completion time divided by the teacher's, trace by trace."""
    teacher, found = taught_by(OptimusPolicy()), list[float]()
    seeds: Sequence[int] = _COMPARED
    for seed in progress(seeds, "comparing"):
        trace = trace_of_testbed(seed)
        found.append(float(run(trace, Sampler(scorer))[0] / run(trace, teacher)[0]))
    return np.array(found)


IMPLEMENTATION: Final = Implementation(_add_arguments, _run)
