"""The progress from one worker's log."""

from collections.abc import Sequence
from pathlib import Path

from optimus.jobs import Counts, Role, TrainingMode
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.types import LogLine, PodRun, TrainingProgress
from tests.unit.progress.jobs import START, stamped

DATA = Path(__file__).parents[2] / "data" / "logs"
LATER = START + 1e6
SYNC = LogFormatOptions(mode=TrainingMode.SYNC)
COUNTS = Counts(1, 2)
SINGLE = Counts(1, 1)
GLUON = "Epoch[0] Batch [{}]/[40]\tSpeed: 5 samples/sec\tloss=1"


def read(
    texts: Sequence[str],
    options: LogFormatOptions = SYNC,
    *,
    counts: Counts = COUNTS,
    every: float = 1.0,
) -> TrainingProgress:
    """The progress from worker 0's log, one line a second."""
    log = ProgressLog(options)
    log.observe("job-worker-0", Role.WORKER, 0, counts, stamped(texts, every=every), "run-1")
    return log.progress(LATER)


def observe(
    log: ProgressLog, lines: Sequence[LogLine], run: str | PodRun, counts: Counts = SINGLE
) -> None:
    """A read of worker 0's log."""
    log.observe("w", Role.WORKER, 0, counts, lines, run)


def pairs(first: int, last: int, every: int = 1, **more: object) -> list[str]:
    """Lines of name=value, the loss falling from 1."""
    rest = "".join(f" {name}={value}" for name, value in more.items())
    return [f"step={step} loss={1 / step:.6f}{rest}" for step in range(first, last + 1, every)]
