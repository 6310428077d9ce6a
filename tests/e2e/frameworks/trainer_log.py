"""What the trainers of `examples/mxnet` and `examples/tensorflow` print, read by a few lines of
these tests' own."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

_STEP = re.compile(r"(?P<at>\S+Z) (?:.* )?step=(?P<step>\d+) .*?loss=(?P<loss>\S+)")
_SAVED = re.compile(r'Saved checkpoint to ".*-(\d+)\.params"$| checkpoint=(\d+)$')
_WARM_UP_STEPS = 5
NEARLY = 0.9
"""Of an epoch, as the product counts: whoever prints every tenth step may never print the last."""


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
    """Return the whole job's loss by step, in their order: the mean over the pods that print one
    for the step."""
    each = [log.losses for log in logs]
    steps = sorted(set().union(*each))
    return {step: fmean(losses[step] for losses in each if step in losses) for step in steps}


def present_losses(
    former: TrainerLog | None, log: TrainerLog, steps_per_epoch: int, checkpoint: int
) -> list[float]:
    """Return what the profile's loss may be while the log's newest checkpoint is `checkpoint`, from
    line to line.

    That is the mean of the last whole epoch of one pod and, after a restore, of its predecessor
    before it; what that printed after its last checkpoint was undone.
    """
    undone_from = log.steps[0].step
    steps = [
        *[each for each in (former.steps if former else ()) if each.step < undone_from],
        *log.steps,
    ]
    until = min([each for each in log.checkpoints if each > checkpoint], default=steps[-1].step)
    ends = [n for n, each in enumerate(steps, start=1) if checkpoint <= each.step <= until]
    return [_last_epoch_mean(steps[:end], steps_per_epoch) for end in ends]


def _last_epoch_mean(steps: Sequence[Step], steps_per_epoch: int) -> float:
    """Return the mean loss of the last epoch that is whole, or nearly so, else of the first one so
    far.

    A line speaks for the steps since the one before it: an asynchronous worker prints only its own.
    """
    epochs: dict[int, list[tuple[float, int]]] = {}
    former = 0
    for each in steps:
        epochs.setdefault((each.step - 1) // steps_per_epoch, []).append(
            (each.loss, each.step - former)
        )
        former = each.step
    if len(epochs) > 1 and (former - 1) % steps_per_epoch + 1 <= NEARLY * steps_per_epoch:
        epochs.pop(max(epochs))
    last = epochs[max(epochs)]
    return sum(loss * count for loss, count in last) / sum(count for _, count in last)


def steps_per_second(lead: TrainerLog) -> float:
    """Return the speed after the first steps, from one pod's timestamps and the numbers of the
    steps."""
    first, last = lead.steps[_WARM_UP_STEPS], lead.steps[-1]
    return (last.step - first.step) / (last.at - first.at)


def _step(found: re.Match[str]) -> Step:
    return Step(
        datetime.fromisoformat(found["at"]).timestamp(), int(found["step"]), float(found["loss"])
    )
