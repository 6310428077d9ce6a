"""Stragglers: workers that are far slower than the other workers of their job.

Optimus, EuroSys 2018, section 5.2: a worker below half the median speed is replaced.
1. Of each worker, stretches of its log are read, one after the other: windows.
2. The speed in a window is the median of what the worker prints of itself. Asynchronous workers
   print their own examples per second, or their own batches. Synchronous ones wait for each other
   and print one common speed: of them only ``compute_seconds`` counts, their own part of a step.
3. The usual speed is the median over workers on nodes of one kind, each with the median of its last
   windows. A straggler is below half of it in every one of its last windows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final, NamedTuple

from optimus.jobs import Role, TrainingMode
from optimus.progress.formats import parse_line
from optimus.progress.parsed_line import LogFormatOptions, clean, pairs
from optimus.progress.pod_progress import PodState, advance
from optimus.progress.types import LogLine

COMPUTE_SECONDS: Final = "compute_seconds"
"""The name of the figure: how long the worker computed in a step, without any waiting."""

_FIGURES: Final = 2
"""Minimum number of figures in a window: one may be of the step that waits for a checkpoint."""

_MOST_LINES: Final = 200
"""Lines of one read that are parsed, the last ones: more would cost more than they are worth."""

_QUIET_READS: Final = 3
"""Reads without a line after which the log counts as stopped."""

_LONGEST_WINDOWS: Final = 10
"""Lines that span this many windows and have too few figures are passed over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StragglerConfig:
    """When a worker counts as a straggler."""

    fraction: float = 0.5
    """Below this part of the usual speed. Default: the paper's."""

    windows: int = 5
    """Windows in a row in which it is below. Default: with the next, five minutes, in which a
    neighbour's burst or a slow read of data is over."""

    window_seconds: float = 60.0
    """Minimum length of a window. Default: several lines of most logs."""

    least_workers: int = 3
    """Fewer are not compared. Default: of two, either one may be slow or the other
    fast."""


class WindowSpeed(NamedTuple):
    """A worker's speed in one window."""

    value: float
    unit: str
    """Speeds of different units are not compared."""


@dataclass(slots=True)
class WorkerSpeeds:
    """The last windows of one worker's process; another process needs another object."""

    read_until: float
    """The kubelet's timestamp up to which its log was taken, seconds since the epoch. At first:
    after the worker's warm-up."""

    speeds: list[WindowSpeed] = field(default_factory=list)
    """Those of the last windows, oldest first."""

    quiet_reads: int = 0
    """Reads in a row that brought no new line."""

    def take(
        self, lines: Sequence[LogLine], options: LogFormatOptions, config: StragglerConfig
    ) -> bool:
        """Take a read of the log from ``read_until`` on; returns whether a window is complete.

        Lines that are too few for a window are to be read again, with those after them."""
        new = [line for line in lines if line.at > self.read_until]
        if not new:
            self.quiet_reads += 1
            if self.quiet_reads >= _QUIET_READS:
                self.speeds.clear()
            return False
        self.quiet_reads = 0
        speed, last_at = window_speed(new, options), new[-1].at
        if speed is None:
            if last_at - self.read_until > _LONGEST_WINDOWS * config.window_seconds:
                self.read_until = last_at
            return False
        self.read_until = last_at
        if self.speeds and self.speeds[-1].unit != speed.unit:
            self.speeds.clear()
        self.speeds.append(speed)
        del self.speeds[: -config.windows]
        return True


def window_speed(lines: Sequence[LogLine], options: LogFormatOptions) -> WindowSpeed | None:
    """A worker's own speed by these lines of its log, ``None`` where they do not show it."""
    lines = lines[-_MOST_LINES:]
    if options.mode is TrainingMode.SYNC:
        return _computing_speed(lines)
    printed: list[float] = []
    process = PodState("", Role.WORKER, 0)
    for line in lines:
        parsed = parse_line(clean(line.text), options)
        if parsed is None:
            continue
        if parsed.samples_per_second is not None and parsed.samples_per_second > 0:
            printed.append(parsed.samples_per_second)
        if parsed.trained:
            advance(process, line.at, parsed)
    if printed:
        return WindowSpeed(median(printed), "samples/s") if len(printed) >= _FIGURES else None
    # A global step is the job's, and says nothing about this worker.
    rate = process.meter.rate() if process.step is None else None
    return (
        _computing_speed(lines) if rate is None else WindowSpeed(rate.steps_per_second, "batches/s")
    )


def _computing_speed(lines: Iterable[LogLine]) -> WindowSpeed | None:
    """Steps in a second of computing, by the worker's own ``compute_seconds``."""
    texts = (line.text for line in lines if f"{COMPUTE_SECONDS}=" in line.text)
    found = [pairs(clean(text)).get(COMPUTE_SECONDS, 0.0) for text in texts]
    seconds = [each for each in found if 0 < each < float("inf")]
    return WindowSpeed(1 / median(seconds), "steps/s") if len(seconds) >= _FIGURES else None


@dataclass(frozen=True, slots=True)
class ComparedWorker:
    """A worker, where it is, and what was read of it."""

    index: int
    node: str
    node_kind: str
    """Empty where unknown. A slower kind of node is no fault of a node: speed models distinguish
    kinds."""

    log: WorkerSpeeds


@dataclass(frozen=True, slots=True)
class Straggler:
    """A worker that is far slower than the others."""

    index: int
    node: str
    fraction: float
    """Its median speed as a part of the usual one."""

    compared: int
    """Number of workers that were compared, itself included."""

    windows: int

    def __str__(self) -> str:
        return (
            f"worker {self.index} on {self.node} trains at {100 * self.fraction:.0f} % of the "
            f"median of {self.compared} workers, in each of {self.windows} windows"
        )


def find_stragglers(
    workers: Iterable[ComparedWorker], config: StragglerConfig
) -> tuple[Straggler, ...]:
    """The stragglers among one job's workers, by index; none where too few can be compared.

    Workers whose log has too few windows, or has stopped, do not count."""
    groups: dict[tuple[str, str], list[ComparedWorker]] = {}
    for worker in workers:
        if len(worker.log.speeds) >= config.windows:
            groups.setdefault((worker.node_kind, worker.log.speeds[-1].unit), []).append(worker)
    found = (each for group in groups.values() for each in _among(group, config))
    return tuple(sorted(found, key=lambda each: each.index))


def _among(group: Sequence[ComparedWorker], config: StragglerConfig) -> list[Straggler]:
    if len(group) < config.least_workers:
        return []
    medians = [median(speed.value for speed in worker.log.speeds) for worker in group]
    usual, count = median(medians), len(group)
    found = [
        Straggler(worker.index, worker.node, own / usual, count, config.windows)
        for worker, own in zip(group, medians, strict=True)
        if max(speed.value for speed in worker.log.speeds) < config.fraction * usual
    ]
    # Where as many are slow as are not, neither speed is the usual one.
    return found if 2 * len(found) < count else []
