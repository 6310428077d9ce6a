"""One log line: its clean text, how it is to be read, and its content in a common form."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from optimus.jobs import Batch, Job, Role, TargetMetric, TargetSteps, TrainingMode
from optimus.progress.metric_names import LossChoice, ValueName, describe, line_names
from optimus.progress.patterns import InvalidPattern, Pattern, compile_pattern, no_timer
from optimus.progress.printed_values import VALUE
from optimus.progress.schedule import InvalidSchedule, parse_schedule
from optimus.progress.types import PARTS, Declared

MAX_CHARACTERS: Final = 4096
"""Longer lines are cut: no training log needs more, and matching time grows with the length."""

_MAX_RAW: Final = 16 * MAX_CHARACTERS
"""No more of a longer line is looked at: it may have megabytes."""
_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROL: Final = re.compile(r"[\r\b\x1b\0\v\f]")
_INVISIBLE: Final = " \t\b\n\v\f\0\ufeff"
_PAIR: Final = re.compile(rf"(?:^|[\s,])(?:(\w+) )?([A-Za-z][\w./|-]*)=({VALUE})")


@dataclass(frozen=True, slots=True)
class LogFormatOptions:
    """The facts of a job's training and log that are known beforehand."""

    mode: TrainingMode = TrainingMode.ASYNC
    batch: Batch | None = None
    steps_per_epoch: float | None = None
    """The job's global steps in an epoch."""
    loss_metric: str | None = None
    metrics_format: Pattern | None = None
    checkpoint_format: Pattern | None = None
    chiefs: int = 0
    """Replicas that train beside the workers."""
    command: str = ""
    """The command of the workers; the log replaces what its arguments say of the whole run."""
    declared: Declared | None = None
    """The user's words on the whole run; they replace those of the log."""
    aims: tuple[str, ...] = ()
    """The metrics that the job's goal is about, where that is not the training loss."""
    needs_steps: bool = False
    """The job's goal is a number of steps."""

    @classmethod
    def of(cls, job: Job, timer: Callable[[], float] = no_timer) -> Self:
        """The options of a job; without a pattern that is refused, whose job is not managed anyway.

        ``timer``: seconds of CPU of this thread, which limit what a user's pattern may take."""
        chiefs = (each.count for each in job.fixed if each.role in (Role.CHIEF, Role.MASTER))
        return cls(
            mode=job.mode,
            batch=job.batch,
            steps_per_epoch=job.steps_per_epoch,
            loss_metric=job.loss_metric,
            metrics_format=_compiled(job.metrics_format, 2, timer),
            checkpoint_format=_compiled(job.checkpoint_format, 0, timer),
            chiefs=sum(chiefs) if job.chief_trains else 0,
            command=job.command,
            declared=_declared(job.lr_schedule),
            aims=(job.goal.name,) if isinstance(job.goal, TargetMetric) else (),
            needs_steps=isinstance(job.goal, TargetSteps),
        )


def _declared(text: str | None) -> Declared | None:
    found = None if text is None else parse_schedule(text)
    return None if isinstance(found, InvalidSchedule) else found


def _compiled(text: str | None, groups: int, timer: Callable[[], float]) -> Pattern | None:
    found = None if text is None else compile_pattern(text, groups, timer)
    return None if isinstance(found, InvalidPattern) else found


@dataclass(frozen=True, slots=True)
class SavedCheckpoint:
    """A checkpoint on a line: at a global step, after some epochs, or at the current position."""

    step: int | None = None
    epochs: int | None = None
    complete: bool = True
    """False: the line announces that the save begins."""


@dataclass(slots=True)
class ParsedLine:
    """The content of one line; ``None`` or false where it has none.

    Not frozen, for speed: a thousand are made in a second."""

    epoch: int | None = None
    """The running epoch, counted from 0."""
    epoch_as_printed: bool = False
    """``epoch`` is the printed number, which may count from 0 or from 1."""
    epoch_ended: bool = False
    end_is_doubtful: bool = False
    """Something on the line may say how far the epoch is, so that it may not have ended."""
    checksum: int = 0
    """The checksum of a line whose end is doubtful: loggers may print it twice."""
    batch: int | None = None
    """Batches of ``batches`` done in this epoch by the process that prints."""
    batches: int | None = None
    counts_steps: bool = True
    """``batch`` counts steps, and not examples, lines or parts of an epoch."""
    percent: float | None = None
    """The part of the epoch that is done, as printed beside ``batch``."""
    is_fraction: bool = False
    """The epochs done are printed, with a fraction."""
    step: int | None = None
    """The job's global step."""
    is_loose: bool = False
    """The step may begin again in each epoch, or the batch may go on over the epochs."""
    last_epoch: int | None = None
    """The number of the run's last epoch, as printed."""
    is_below: bool = False
    """Its position is that of a line above."""
    heading: int | None = None
    """The step of a line that has no values, which may follow on lines of their own; with
    ``batches`` the batch of an epoch, 0 batches where their number is not known."""
    steps_per_epoch: float | None = None
    """The number on the line, or its step by the epochs done."""
    loss: float | None = None
    loss_rank: int = 0
    """Only the losses of a log that have the lowest rank count."""
    cumulative: bool = False
    """``loss`` is the mean since the epoch began."""
    epoch_line_is_mean: bool = False
    """The log is one whose line at an epoch's end gives the mean of the whole epoch."""
    samples_per_second: float | None = None
    """The speed of the process that prints."""
    learning_rate: float | None = None
    saved: SavedCheckpoint | None = None
    values: Mapping[str, float] = field(default_factory=dict, compare=False)
    """All values on the line that are of the training, by name."""
    beside: tuple[tuple[str, ValueName], ...] = field(default=(), compare=False)
    """Those of them that may be a goal beside the loss."""
    evaluated: Mapping[str, float] = field(default_factory=dict, compare=False)
    """Those of an evaluation."""
    evaluated_epoch: int | None = field(default=None, compare=False)
    """The epoch that was evaluated, as printed; ``None``: the current one."""
    declared: Declared | None = None
    """The program's words on the whole run."""
    form: str = field(default="", compare=False)
    """The name of the form that has parsed the line, for people."""

    @property
    def trained(self) -> bool:
        """True where the line gives a position in the training."""
        return self.step is not None or self.batch is not None or self.epoch_ended

    def at_epochs_done(self, done: float, steps_per_epoch: float | None) -> None:
        """Put this line at the epochs done since the start of training, in parts.

        Without a step it is a position in ten thousandths of an epoch, where no more is known."""
        self.is_fraction = True
        if self.step is not None:
            self.steps_per_epoch = self.step / done if done > 0 and self.step > 0 else None
            return
        parts = round(steps_per_epoch or PARTS) or 1
        self.epoch, self.epoch_as_printed = max(math.ceil(done) - 1, 0), False
        self.batch, self.batches = round((done - self.epoch) * parts), parts
        self.epoch_ended, self.end_is_doubtful = self.batch == parts, False
        self.counts_steps = steps_per_epoch is not None

    def with_values(self, values: Mapping[str, float], loss_metric: str | None) -> Self:
        """This line with the loss, the learning rate and all values.

        A user's ``loss_metric`` is taken literally; without one the names decide."""
        names = line_names(tuple(values))
        self.values, self.beside = values, names.beside
        if loss_metric is not None:
            self.loss = values.get(loss_metric)
        elif names.loss is not None:
            self.loss, self.loss_rank = _loss(values, names.loss), names.loss.rank
        for name in names.rate:
            self.learning_rate = positive(values[name])
        return self


def evaluation(values: Mapping[str, float], epoch: int | None = None) -> ParsedLine | None:
    """The line of an evaluation's values, at a printed epoch; ``None`` where it has none."""
    if not values:
        return None
    return ParsedLine(evaluated=values, evaluated_epoch=epoch, epoch_as_printed=True)


def clean(raw: str) -> str:
    """The last complete state of a line, without colours and backspaces, cut to 4096 characters.

    A progress bar rewrites itself with carriage returns and backspaces, so hundreds of its states
    share one line; colours may be between a name and its number."""
    if len(raw) <= MAX_CHARACTERS and raw.isascii() and _CONTROL.search(raw) is None:
        return raw.rstrip("\n") if raw.strip() else ""
    raw = _last_part(raw) if len(raw) > _MAX_RAW else raw
    states = (state for state in reversed(raw.rstrip("\n").split("\r")) if state.strip(_INVISIBLE))
    text = _ANSI.sub("", next(states, "")).replace("\b", "").replace("\0", "").lstrip("\ufeff")
    # A number that the cut went through still parses, as another number: drop the last word.
    return text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS].rpartition(" ")[0]


def _last_part(raw: str) -> str:
    """The complete states in the end of a very long line; its beginning where it has one state."""
    end = raw[-_MAX_RAW:]
    if "\r" in end:
        return end.partition("\r")[2]
    begin = raw.rfind("\r") + 1
    return raw[begin : begin + _MAX_RAW]


def pairs(text: str) -> dict[str, float]:
    """All ``name=value`` pairs without blanks around the sign, the last of each name."""
    return {
        name: float(value)
        for word, name, value in _PAIR.findall(text)
        # "IO cost=0.1" is no "cost".
        if not word or describe(f"{word} {name}").is_metric or not describe(name).is_metric
    }


def _loss(values: Mapping[str, float], choice: LossChoice) -> float:
    if choice.logarithm:
        perplexity = values[choice.names[0]]
        return math.log(perplexity) if perplexity > 0 else math.nan
    return sum([values[name] for name in choice.names])


def positive(value: float) -> float | None:
    """A learning rate, or ``None`` where the number cannot be one."""
    return value if 0 < value < math.inf else None
