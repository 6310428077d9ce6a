"""Jobs and log lines as the tests of progress and models need them."""

from collections.abc import Sequence
from typing import Any

from optimus.jobs import Counts, Job, JobKey, ReplicaSpec, TargetLoss
from optimus.progress.types import LogLine

START = 1_767_225_600.0
"""2026-01-01T00:00:00Z."""


def job(**fields: Any) -> Job:
    """A job of 1 PS and 2 workers with a target loss of 0.2."""
    usual: dict[str, Any] = {
        "key": JobKey("team", "job"),
        "uid": "uid-1",
        "kind": "TFJob",
        "created_at": START,
        "counts": Counts(1, 2),
        "ps": ReplicaSpec(),
        "worker": ReplicaSpec(),
        "goal": TargetLoss(0.2),
    }
    return Job(**{**usual, **fields})


def stamped(texts: Sequence[str], *, start: float = START, every: float = 1.0) -> list[LogLine]:
    """Lines as the kubelet would stamp them, evenly spaced."""
    return [LogLine(start + number * every, text) for number, text in enumerate(texts)]
