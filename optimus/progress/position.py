"""Where one process's training stands after a line: global steps, or batches within epochs.

A global step is taken as it is. Batches within an epoch are added up over epochs; how many an epoch
has is told by the line, or learned when the epoch ends: the batches of its last line, and as many
more as fit in the time since."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from optimus.progress.parsed_line import Reading
from optimus.progress.state import PodState
from optimus.progress.types import LogLine

_MAX_TEXTS: Final = 8
_AHEAD_SECONDS: Final = 60.0
"""A line with a later timestamp than this from now is from the future."""


class Move(NamedTuple):
    """What a line changed: the job's ``step``, or the running ``epoch`` from 0 and the epochs
    ``done`` in all.

    ``back``: training was restored to an earlier place. ``repeat``: the line tells the place of the
    line before.
    ``steps`` is how much training lies between the two, in steps or batches.
    """

    step: int | None = None
    epoch: int | None = None
    done: float | None = None
    back: bool = False
    repeat: bool = False
    steps: float = 1.0


def unread(pod: PodState, lines: Sequence[LogLine]) -> Iterator[LogLine]:
    """The lines that an earlier read has not shown: reads overlap, as ``sinceTime`` counts whole
    seconds.

    What comes after the last line taken is new, whatever its timestamp: a node's clock may be set
    back, and standard output and error may be a moment apart. Where that line is not among them,
    timestamps have to tell."""
    until, texts = pod.read_until, tuple(pod.texts)
    last = LogLine(until, texts[-1]) if until is not None and texts else None
    known = max((index for index, line in enumerate(lines) if line == last), default=None)
    pod.quiet_reads += 1
    for index, line in enumerate(lines):
        if index <= known if known is not None else _is_past(line, until, texts):
            continue
        if line.at != pod.read_until:
            pod.read_until, pod.texts = line.at, []
        pod.texts = [*pod.texts, line.text][-_MAX_TEXTS:]
        pod.quiet_reads, pod.news_at = 0, pod.read_at
        yield line


def _is_past(line: LogLine, until: float | None, texts: Sequence[str]) -> bool:
    return until is not None and (line.at < until or (line.at == until and line.text in texts))


def next_since(pod: PodState) -> float | None:
    """From when on the pod's log is to be read next, seconds since the epoch; ``None``: from its
    beginning.

    Where the last line was from the future and nothing has come since, the node's clock may be
    right again: every second read begins a little before the one that brought that line.
    """
    if pod.read_until is None or pod.news_at is None or pod.quiet_reads % 2 == 0:
        return pod.read_until
    is_ahead = pod.read_until > pod.news_at + _AHEAD_SECONDS
    return pod.news_at - _AHEAD_SECONDS if is_ahead else pod.read_until


def advance(pod: PodState, at: float, reading: Reading) -> Move | None:
    """Move a pod to where the reading says; ``None`` where the reading is not about its
    training."""
    if reading.step is not None:
        return _to_step(pod, at, reading.step, reading.epoch)
    if pod.step is not None:
        return None  # this log tells global steps as well, which are exact
    epoch = _epoch_of(pod, reading)
    return None if epoch is None else _to_batch(pod, at, epoch, reading)


def _to_step(pod: PodState, at: float, step: int, epoch: int | None) -> Move:
    former = pod.step
    if former is None:
        pod.meter.restart()  # what it holds, if anything, counts batches
    pod.step = step
    pod.meter.add(at, step)
    if former is None:
        return Move(step, epoch)
    return Move(step, epoch, back=step < former, repeat=step == former, steps=max(step - former, 1))


def _epoch_of(pod: PodState, reading: Reading) -> int | None:
    """The running epoch; a progress bar takes it from its header, and is another's if its length
    differs."""
    if reading.epoch is not None or pod.header is None:
        return reading.epoch
    if None not in (reading.batches, pod.header_batches) and reading.batches != pod.header_batches:
        return None
    epoch, pod.header_batches = pod.header, reading.batches
    if reading.epoch_ended:
        pod.header = pod.header_batches = None
    return epoch


def _to_batch(pod: PodState, at: float, epoch: int, reading: Reading) -> Move:
    back = _enter_epoch(pod, epoch, reading.batch)
    steps, repeat = _count_batches(pod, at, reading.batch)
    if reading.batches:
        pod.batches = reading.batches
    if reading.epoch_ended:
        _end_epoch(pod, at, told=reading.batches is not None)
        return Move(None, epoch, epoch + 1.0, back, repeat, steps)
    fraction = min(pod.batch / pod.batches, 1.0) if pod.batches else 0.5
    return Move(None, epoch, epoch + fraction, back, repeat, steps)


def _enter_epoch(pod: PodState, epoch: int, batch: int | None) -> bool:
    """Go to an epoch; true where that is a step back."""
    former = pod.epoch
    back = former is not None and (
        epoch < former or (epoch == former and batch is not None and batch < pod.batch)
    )
    if former is not None and epoch > former and not back:
        pod.before += (pod.batches or pod.batch) * (epoch - former)
    if back:
        pod.before = 0.0
        pod.meter.restart()
    if back or epoch != former:
        pod.batch, pod.ended = 0, False
    pod.epoch = epoch
    return back


def _count_batches(pod: PodState, at: float, batch: int | None) -> tuple[float, bool]:
    """Note the batches done; how many are new, and whether none is."""
    if batch is None:
        return 1.0, False
    new = batch - pod.batch
    if new > 0:
        elapsed = at - pod.batch_at
        pod.seconds_per_batch = (
            elapsed / new if pod.batch > 0 and elapsed > 0 else pod.seconds_per_batch
        )
        pod.line_batches, pod.batch, pod.batch_at = new, batch, at
        pod.meter.add(at, pod.before + batch)
    return max(new, 1), new == 0


def _end_epoch(pod: PodState, at: float, *, told: bool) -> None:
    if pod.ended:
        return
    pod.ended = True
    if pod.batch == 0:
        # A log of whole epochs: an epoch is its step.
        pod.batches = 1.0
        pod.meter.add(at, pod.before + 1.0)
    elif not told:
        unseen = (at - pod.batch_at) / pod.seconds_per_batch if pod.seconds_per_batch else 0.0
        pod.batches = pod.batch + round(min(max(unseen, 0.0), pod.line_batches))
