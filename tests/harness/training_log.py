"""The light trainer's log lines as records, read by a few lines of these tests' own."""

import re
from dataclasses import dataclass

_LINE = re.compile(r"(?P<at>\S+Z) epoch=(?P<epoch>\d+) step=(?P<step>\d+)(?P<rest>.*)")
_PAIR = re.compile(r"(\w+)=(\S+)")


@dataclass(frozen=True)
class Step:
    """What one line says: the step, the mean loss since the line before, and the newest complete
    checkpoint."""

    epoch: int
    step: int
    loss: float | None
    checkpoint: int | None


def parse_log(text: str) -> tuple[Step, ...]:
    """Return the records of a log in its order; lines of another kind are passed over."""
    return tuple(_step(found) for found in map(_LINE.search, text.splitlines()) if found)


def _step(found: re.Match[str]) -> Step:
    rest = dict(_PAIR.findall(found["rest"]))
    loss, checkpoint = rest.get("loss"), rest.get("checkpoint")
    return Step(
        epoch=int(found["epoch"]),
        step=int(found["step"]),
        loss=None if loss is None else float(loss),
        checkpoint=None if checkpoint is None else int(checkpoint),
    )
