"""One pod's log: how far it is read, where its process's training is, and how fast it trains.

A global step is taken as it is. Batches are added up over epochs; how many an epoch has is on the
line, or those of its last line and as many more as fit in the time since.

The speed comes from positions and the kubelet's timestamps. Marks (instant, position) are at least
0.25 s apart, since buffered output arrives in bursts. The first interval is warm-up and left out,
and so are those far from the median speed (validation, a checkpoint, a stall)."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from optimus.jobs import Role
from optimus.progress.parsed_line import ParsedLine, SavedCheckpoint
from optimus.progress.types import LogLine

MAX_MARKS: Final = 64
_GAP_SECONDS: Final = 0.25
_BACK_SECONDS: Final = 1.0
_USUAL: Final = (0.5, 2.0)
"""An interval counts while its speed is within these factors of the median."""
_MAX_TEXTS: Final = 8
_MAX_KEPT: Final = 240
"""Characters of each."""
_AHEAD_SECONDS: Final = 60.0
"""A line with a later timestamp than this from now is from the future."""


class Mark(NamedTuple):
    """The position of training at an instant (seconds since the epoch, UTC)."""

    at: float
    position: float


class Rate(NamedTuple):
    """A speed in steps per second, measured over so many seconds of training."""

    steps_per_second: float
    seconds: float


@dataclass(slots=True)
class RateMeter:
    """Measures the speed of one process; bounded, and plain data that can be stored."""

    marks: list[Mark] = field(default_factory=list)
    gap_seconds: float = _GAP_SECONDS

    def add(self, at: float, position: float) -> None:
        """Add a position; one behind the last mark, or long before it in time, starts over."""
        last = self.marks[-1] if self.marks else None
        if last and (position < last.position or at < last.at - _BACK_SECONDS):
            self.restart()
        if not self.marks or at - self.marks[-1].at >= self.gap_seconds:
            self.marks.append(Mark(at, position))
        if len(self.marks) > MAX_MARKS:
            # The first two bound the warm-up and stay as they are; so does the newest.
            self.marks = self.marks[:2] + self.marks[:1:-2][::-1]
            self.gap_seconds *= 2

    def restart(self) -> None:
        """Forget everything: the process has started again."""
        self.marks = []
        self.gap_seconds = _GAP_SECONDS

    @property
    def steady_seconds(self) -> float:
        """Seconds of training since the warm-up."""
        return self.marks[-1].at - self.marks[1].at if len(self.marks) > 1 else 0.0

    def rate(self) -> Rate | None:
        """The steady speed, or ``None`` while there is only warm-up."""
        rates = [
            Rate((b.position - a.position) / (b.at - a.at), b.at - a.at)
            for a, b in pairwise(self.marks[1:])
        ]
        usual = _median_by_steps(rates)
        if usual is None or usual <= 0:
            return None
        low, high = (factor * usual for factor in _USUAL)
        kept = [rate for rate in rates if low <= rate.steps_per_second <= high]
        seconds = sum(rate.seconds for rate in kept)
        return Rate(sum(rate.steps_per_second * rate.seconds for rate in kept) / seconds, seconds)


def _median_by_steps(rates: Sequence[Rate]) -> float | None:
    """The speed at which at least half of all steps were made or slower: a stall has few steps."""
    steps = [rate.steps_per_second * rate.seconds for rate in rates]
    half, passed = sum(steps) / 2, 0.0
    for rate, made in sorted(zip(rates, steps, strict=True)):
        passed += made
        if passed >= half:
            return rate.steps_per_second
    return None


@dataclass(slots=True)
class PodState:
    """The place up to which a pod's log is read, and its process's position; it is stored."""

    name: str
    role: Role
    index: int
    read_until: float | None = None
    """The timestamp of the last line taken."""
    texts: list[str] = field(default_factory=list)
    """The lines with that timestamp, the last one last; of long ones the beginning."""
    columns: tuple[str, ...] = ()
    """Those of the table that the log prints, if it does."""
    column_starts: tuple[int, ...] = ()
    """The places where their names begin, if only blanks stand between them."""
    names_above: tuple[str, ...] = ()
    """The names on the line before, whose values may be on this one."""
    news_at: float | None = None
    """When the last read began that brought a new line, by the reader's clock."""
    quiet_reads: int = 0
    """Reads since then, without a new line."""
    read_at: float | None = None
    """When the last read began by the reader's clock; ``read_before_at`` the one before it."""
    read_before_at: float | None = None
    behind: bool = False
    """True where newer lines are not read yet: that read ended at its limit, or is not taken in."""
    gap: bool = False
    """True where lines were passed over since its position was last seen."""
    skips: bool = False
    """True where the last read passed over lines."""
    step: int | None = None
    """The job's global step where the log has it; else the fields that follow are used."""
    fell_from: int | None = None
    """The step before its last fall to an earlier one, and how many falls in a row were from it: a
    program falls from the same step again and again where it counts its steps within epochs."""
    falls: int = 0
    epoch: int | None = None
    """The running epoch, from 0."""
    batch: int = 0
    """Batches done in it, the last at ``batch_at``."""
    batch_at: float = 0.0
    seconds_per_batch: float | None = None
    line_batches: int = 0
    """Batches from one line to the next."""
    batches: float | None = None
    """Batches of an epoch."""
    counts_steps: bool = True
    """Its batches are steps, and not examples, lines or parts of an epoch."""
    ended: bool = False
    doubtful: int | None = None
    """The epoch of the last line that may end it, names on such lines of it, and the checksum of
    the last. ``within``: an epoch has had several, and none of them ends it."""
    doubtful_names: tuple[str, ...] = ()
    doubtful_checksum: int = 0
    within: bool = False
    count_epoch: int | None = None
    """The epoch of the last count of the epoch or of the run, its ``count``, the distance
    of two, the last of the epoch before, and the one at which the last two epochs have ended."""
    count: int = 0
    count_distance: int = 0
    former_count: int = 0
    full_count: int | None = None
    heading: int | None = None
    """The step of a line without values: those below are of it, if ``places_own`` is false, which
    says that lines with a loss have a position of their own."""
    heading_batches: int | None = None
    """The batches of an epoch, if it is a batch and no step; 0 where they are not known."""
    below_evaluation: bool = False
    """Values below are those of an evaluation, by the line above."""
    names_training: bool = False
    """Values alone that are of the training say so; others are not."""
    places_own: bool = False
    stream: str = ""
    """The process that is followed, where several share the log."""
    opened: str = ""
    """The beginning of an object that goes on."""
    before: float = 0.0
    """The process's own batches in earlier epochs."""
    header: int | None = None
    """The epoch of a Keras header whose progress bars are being read, of ``header_batches``."""
    header_batches: int | None = None
    by_percent: bool = False
    """Its batches are of another whole than the percentage beside them, which holds."""
    fraction_form: str = ""
    """The form of the lines that print epochs done with a fraction."""
    header_assumed: bool = False
    """No line has had an epoch yet; it is taken for the first."""
    tells_loss: bool = False
    """True where its log has a loss."""
    loss_by: Literal["", "step", "batch"] = ""
    """The position on its lines with values: steps, which hold, or batches beside them."""
    meter: RateMeter = field(default_factory=RateMeter)
    samples_per_second: list[float] = field(default_factory=list)
    """The printed speeds, the first, which is warm-up, and the last ones."""
    saving: SavedCheckpoint | None = None
    """A checkpoint that has begun, until the next sign of training."""

    @property
    def read_interval_seconds(self) -> float:
        """The time between the last two reads; 0 where there were none."""
        if self.read_at is None or self.read_before_at is None:
            return 0.0
        return self.read_at - self.read_before_at

    def copied(self) -> "PodState":
        """A copy that later lines do not change."""
        return replace(
            self,
            texts=[*self.texts],
            meter=replace(self.meter, marks=[*self.meter.marks]),
            samples_per_second=[*self.samples_per_second],
        )


class PositionChange(NamedTuple):
    """The change of position by a line."""

    step: int | None = None
    """The job's global step; else the running ``epoch`` from 0, and the epochs ``done`` in all."""
    epoch: int | None = None
    done: float | None = None
    back: bool = False
    """Training was restored to an earlier position."""
    repeat: bool = False
    """The line has the position of the line before."""
    steps: float = 1.0
    """Training between the two lines, in steps or batches."""


def new_lines(pod: PodState, lines: Sequence[LogLine]) -> Iterator[LogLine]:
    """The lines that no earlier read returned: reads overlap, as ``sinceTime`` is in whole seconds.

    What comes after the last line taken is new, whatever its timestamp: a node's clock may be set
    back, and standard output and error may be a moment apart. Where that line is not among them,
    timestamps decide."""
    until, texts = pod.read_until, tuple(pod.texts)
    known = max(
        (
            index
            for index, line in enumerate(lines)
            if line.at == until and texts and _short(line.text) == texts[-1]
        ),
        default=None,
    )
    pod.quiet_reads += 1
    for index, line in enumerate(lines):
        if known is not None:
            is_old = index <= known
        else:
            is_old = until is not None and (
                line.at < until or (line.at == until and _short(line.text) in texts)
            )
        if is_old:
            continue
        if line.at != pod.read_until:
            pod.read_until, pod.texts = line.at, []
        pod.texts = [*pod.texts, _short(line.text)][-_MAX_TEXTS:]
        pod.quiet_reads, pod.news_at = 0, pod.read_at
        yield line


def _short(text: str) -> str:
    """Return what is kept of a line: lines of 16 kB would be most of a job's state."""
    if len(text) <= _MAX_KEPT:
        return text
    checksum = zlib.crc32(text.encode("utf-8", "replace"))
    return f"{text[:_MAX_KEPT]} {len(text)} {checksum:08x}"


def note_gap(pod: PodState) -> None:
    """Forget what lines that were passed over may have changed: an epoch's header, a save that had
    begun. A position that a line shows by itself holds."""
    pod.gap, pod.saving = True, None
    pod.header = pod.header_batches = None
    pod.header_assumed = False


def next_since(pod: PodState) -> float | None:
    """Return where to read the pod's log from, seconds since the epoch; ``None``: its start.

    Where the last line was from the future, the node's clock may be right again: every second
    read begins a little before the one that brought that line."""
    if pod.read_until is None or pod.news_at is None or pod.quiet_reads % 2 == 0:
        return pod.read_until
    is_ahead = pod.read_until > pod.news_at + _AHEAD_SECONDS
    return pod.news_at - _AHEAD_SECONDS if is_ahead else pod.read_until


def advance(
    pod: PodState, at: float, parsed: ParsedLine, epoch_offset: int = 0
) -> PositionChange | None:
    """Move a pod to the position on the line; ``None`` where the line is not about its training.

    ``epoch_offset``: the epochs before the first that the log counts."""
    move = _moved(pod, at, parsed, epoch_offset)
    if move is not None and pod.gap:
        # A value after a gap is not the mean of what was passed over.
        move, pod.gap = move._replace(steps=1.0), False
    return move


def _moved(
    pod: PodState, at: float, parsed: ParsedLine, epoch_offset: int
) -> PositionChange | None:
    if parsed.step is not None:
        epoch = None if parsed.epoch is None else parsed.epoch + epoch_offset
        return _to_step(pod, at, parsed.step, epoch)
    if pod.step is not None and pod.loss_by != "batch":
        return None  # this log has global steps as well, which are exact
    epoch = _epoch_of(pod, parsed)
    if epoch is None:
        return None
    return _to_batch(pod, at, epoch + epoch_offset, parsed)._replace(step=pod.step)


def _to_step(pod: PodState, at: float, step: int, epoch: int | None) -> PositionChange:
    former = pod.step
    if former is None:
        pod.meter.restart()  # what it holds, if anything, counts batches
    elif step < former:
        pod.falls = pod.falls + 1 if pod.fell_from == former else 1
        pod.fell_from = former
    pod.step = step
    pod.meter.add(at, step)
    if former is None:
        return PositionChange(step, epoch)
    return PositionChange(
        step, epoch, back=step < former, repeat=step == former, steps=max(step - former, 1)
    )


def _epoch_of(pod: PodState, parsed: ParsedLine) -> int | None:
    """The running epoch: a progress bar's is its header's, if it has the length of the bars before.

    A bar of another length is not of the training (``evaluate``). Where no line has had an epoch
    yet, batches of a known number are those of the first."""
    if parsed.epoch is not None:
        if pod.header_assumed:
            pod.header, pod.header_assumed = None, False
        return parsed.epoch
    if pod.header is None and pod.epoch is None and parsed.batches and not pod.gap:
        pod.header, pod.header_batches, pod.header_assumed = 0, parsed.batches, True
    if pod.header is None:
        return None
    if pod.header_assumed and _begins_again(pod, parsed.batch):
        pod.header += 1
    if pod.header_assumed:
        parsed.cumulative = False  # it may be one bar over the whole run
    if None not in (parsed.batches, pod.header_batches) and parsed.batches != pod.header_batches:
        return None
    epoch, pod.header_batches = pod.header, parsed.batches
    if parsed.epoch_ended and not pod.header_assumed:
        pod.header = pod.header_batches = None
    return epoch


def _begins_again(pod: PodState, batch: int | None) -> bool:
    """Return whether the count has begun again after its last line before the total."""
    if batch is None or not pod.batches or batch >= pod.batch:
        return False
    return pod.batch + max(pod.line_batches, 1) >= pod.batches


def _to_batch(pod: PodState, at: float, epoch: int, parsed: ParsedLine) -> PositionChange:
    former = pod.epoch
    if parsed.percent is not None:
        _settle_percent(pod, parsed, parsed.percent)
    if parsed.batch is not None:
        pod.counts_steps = parsed.counts_steps
    back = _enter_epoch(pod, epoch, parsed.batch)
    steps, repeat = _count_batches(pod, at, parsed.batch)
    repeat = repeat and epoch == former  # batch 0 of the next epoch is another position
    if parsed.batches:
        pod.batches = parsed.batches
    elif pod.batches == 1.0 and pod.batch > 1:
        pod.batches = None  # epochs were steps until batches were seen
    if parsed.epoch_ended:
        _end_epoch(pod, at, length_known=parsed.batches is not None)
        return PositionChange(None, epoch, epoch + 1.0, back, repeat, steps)
    fraction = min(pod.batch / pod.batches, 1.0) if pod.batches else 0.5
    return PositionChange(None, epoch, epoch + fraction, back, repeat, steps)


def _settle_percent(pod: PodState, parsed: ParsedLine, percent: float) -> None:
    """Put a line at the percentage that it prints, where its numbers are of another whole.

    Each of several processes prints its own examples, out of all of them. What they add to the
    percentage keeps lines within one percent apart."""
    if not (parsed.batch and parsed.batches):
        return
    done = parsed.batch / parsed.batches
    pod.by_percent = pod.by_percent or abs(100 * done - percent) > 1
    if pod.by_percent:
        parsed.batch = round(parsed.batches * min(percent + done, 100.0) / 100)


def _enter_epoch(pod: PodState, epoch: int, batch: int | None) -> bool:
    """Go to an epoch; true where that is a step back."""
    former = pod.epoch
    back = former is not None and (
        epoch < former or (epoch == former and batch is not None and batch < pod.batch)
    )
    if former is not None and epoch > former and not back:
        pod.before += (pod.batches or pod.batch) * (epoch - former)
    # After a gap, how far an epoch of unknown length went is not known, nor what came in between.
    if back or (pod.gap and not pod.batches and former != epoch):
        pod.before = 0.0
        if pod.step is None:
            pod.meter.restart()
    if back or epoch != former:
        pod.batch, pod.ended = 0, False
    pod.epoch = epoch
    return back


def _count_batches(pod: PodState, at: float, batch: int | None) -> tuple[float, bool]:
    """Note the batches done; returns how many are new, and whether none is."""
    if batch is None:
        return 1.0, False
    new = batch - pod.batch
    if new > 0:
        elapsed = at - pod.batch_at
        if not pod.gap:
            if pod.batch > 0 and elapsed > 0:
                pod.seconds_per_batch = elapsed / new
            pod.line_batches = new
        pod.batch, pod.batch_at = batch, at
        if pod.step is None:
            pod.meter.add(at, pod.before + batch)
    return max(new, 1), new == 0


def _end_epoch(pod: PodState, at: float, *, length_known: bool) -> None:
    if pod.ended:
        return
    pod.ended = True
    if pod.gap and pod.batches != 1.0:
        return  # the epoch's last batches may have been passed over
    if pod.batch == 0:
        # A log of whole epochs only.
        pod.batches, pod.counts_steps = 1.0, False
        if pod.step is None:
            pod.meter.add(at, pod.before + 1.0)
    elif not length_known:
        unseen = (at - pod.batch_at) / pod.seconds_per_batch if pod.seconds_per_batch else 0.0
        pod.batches = pod.batch + round(min(max(unseen, 0.0), pod.line_batches))
