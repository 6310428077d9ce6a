"""What the trainers of `examples/mxnet` and `examples/tensorflow` print, read by a few lines of these tests' own."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

_STEP = re.compile(r"(?P<at>\S+Z) (?:.* )?step=(?P<step>\d+) .*?loss=(?P<loss>\S+)")
_SAVED = re.compile(r'Saved checkpoint to ".*-(\d+)\.params"$| checkpoint=(\d+)$')
_WARM_UP_STEPS = 5


@dataclass(frozen=True)
class Step:
    """One step's line: when it was printed, in seconds since the epoch, and its loss."""

    at: float
    step: int
    loss: float


class TrainerLog:
    """One pod's log with the kubelet's timestamps, in the order in which it was printed."""

    def __init__(self, pod: str, text: str) -> None:
        self.pod = pod
        lines = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
        steps = [_step(found) for found in map(_STEP.match, lines) if found]
        saved = [found for found in (_SAVED.search(line.rstrip("\n")) for line in lines) if found]
        self.steps: tuple[Step, ...] = tuple(steps)
        self.checkpoints: tuple[int, ...] = tuple(int(found[1] or found[2]) for found in saved)

    @property
    def losses(self) -> dict[int, float]:
        """Loss by step."""
        return {each.step: each.loss for each in self.steps}


def job_losses(logs: Sequence[TrainerLog]) -> dict[int, float]:
    """Return the whole job's loss by step, in their order: the mean over the pods that print one for the step."""
    each = [log.losses for log in logs]
    steps = sorted(set().union(*each))
    return {step: fmean(losses[step] for losses in each if step in losses) for step in steps}


def epoch_means(run: TrainerLog, next_run: TrainerLog | None, steps_per_epoch: int) -> list[float]:
    """Return the mean loss of each whole epoch that one pod, and its successor after a restore, printed.

    A line speaks for the steps since the one before it: an asynchronous worker prints only its own. What the first
    printed after its last checkpoint was undone by the restore.
    """
    steps = run.steps
    if next_run is not None and next_run.steps:
        steps = (*[each for each in steps if each.step < next_run.steps[0].step], *next_run.steps)
    epochs: dict[int, list[tuple[float, int]]] = {}
    former = 0
    for each in steps:
        epochs.setdefault((each.step - 1) // steps_per_epoch, []).append((each.loss, each.step - former))
        former = each.step
    last_whole = former // steps_per_epoch
    lines = [epochs[epoch] for epoch in sorted(epochs) if epoch < last_whole]
    return [sum(loss * count for loss, count in each) / sum(count for _, count in each) for each in lines]


def steps_per_second(lead: TrainerLog) -> float:
    """Return the speed after the first steps, from one pod's timestamps and the numbers of the steps."""
    first, last = lead.steps[_WARM_UP_STEPS], lead.steps[-1]
    return (last.step - first.step) / (last.at - first.at)


def _step(found: re.Match[str]) -> Step:
    return Step(datetime.fromisoformat(found["at"]).timestamp(), int(found["step"]), float(found["loss"]))
