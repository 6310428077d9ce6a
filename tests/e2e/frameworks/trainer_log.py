"""What the trainers of `examples/mxnet` and `examples/tensorflow` print, read by a few lines of
these tests' own."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

_STEP = re.compile(r"(?P<at>\S+Z) (?:.* )?step=(?P<step>\d+) .*?loss=(?P<loss>\S+)")
_SAVED = re.compile(r'Saved checkpoint to ".*-(\d+)\.params"$| checkpoint=(\d+)$')


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


def _step(found: re.Match[str]) -> Step:
    return Step(
        datetime.fromisoformat(found["at"]).timestamp(), int(found["step"]), float(found["loss"])
    )
