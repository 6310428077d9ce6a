"""One log line: its clean text, how it is to be read, and its content in a common form."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Self

from optimus.jobs import Batch, Job, Role, TrainingMode
from optimus.progress.patterns import bounded, check_pattern

NUMBER: Final = r"(?>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?i:nan|inf(?:inity)?))(?!\w)"
"""A number as programs print it, nan and inf included. Atomic: 1.9K does not parse as 1."""
MAX_CHARACTERS: Final = 4096
"""Longer lines are cut: no training log needs more, and matching time grows with the length."""

_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_LAUNCHER: Final = re.compile(r"^\[\d+,\d+\]<std(?:out|err)>:\s?")
_STAMP: Final = re.compile(
    r"^(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\s+)?"
    r"(?:[A-Z]+:[\w.]+:\s?)?(?:[IWEF]\d{4} [\d:.]+\s+\d+ [^\s:]+:\d+\] )?"
)
_INVISIBLE: Final = " \t\b\n\v\f"
_INTEGER: Final = re.compile(r"\+?\d{1,15}(?:\.0*)?")
_PAIR: Final = re.compile(rf"(?:^|[\s,])([A-Za-z][\w./|-]*)=({NUMBER})")
_CROSS_ENTROPIES: Final = (
    "cross-entropy",
    "cross_entropy",
    "crossentropy",
    "softmax-cross-entropy",
)
_LOSSES: Final = ("loss", *_CROSS_ENTROPIES, "nll-loss", "nll_loss")
_PERPLEXITIES: Final = ("perplexity", "ppl")
_LEARNING_RATES: Final = ("lr", "LR", "learning_rate", "learning-rate")


@dataclass(frozen=True, slots=True)
class LogFormatOptions:
    """What is known of a job's training and log beforehand."""

    mode: TrainingMode = TrainingMode.ASYNC
    batch: Batch | None = None
    steps_per_epoch: float | None = None
    """In the job's global steps."""
    loss_metric: str | None = None
    metrics_format: re.Pattern[str] | None = None
    checkpoint_format: re.Pattern[str] | None = None
    chiefs: int = 0
    """Replicas that train beside the workers."""

    @classmethod
    def of(cls, job: Job) -> Self:
        """The options of a job; without a pattern that ``check_pattern`` refuses, whose job is not
        managed anyway."""
        chiefs = (each.count for each in job.fixed if each.role in (Role.CHIEF, Role.MASTER))
        return cls(
            mode=job.mode,
            batch=job.batch,
            steps_per_epoch=job.steps_per_epoch,
            loss_metric=job.loss_metric,
            metrics_format=_compiled(job.metrics_format, groups=2),
            checkpoint_format=_compiled(job.checkpoint_format, groups=0),
            chiefs=sum(chiefs) if job.chief_trains else 0,
        )


def _compiled(text: str | None, groups: int) -> re.Pattern[str] | None:
    if text is None or check_pattern(text, groups=groups) is not None:
        return None
    return bounded(text)


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint on a line: at a global step, after some epochs, or at the current position."""

    step: int | None = None
    epochs: int | None = None
    complete: bool = True
    """False: the line announces that the save begins."""


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """The content of one line; ``None`` or false where it has none."""

    epoch: int | None = None
    """The running epoch, counted from 0."""
    epoch_as_printed: bool = False
    """``epoch`` is the printed number, which may count from 0 or from 1."""
    epoch_ended: bool = False
    batch: int | None = None
    """Batches of ``batches`` done in this epoch by the process that prints."""
    batches: int | None = None
    step: int | None = None
    """The job's global step."""
    loss: float | None = None
    cumulative: bool = False
    """``loss`` is the mean since the epoch began."""
    epoch_line_is_mean: bool = False
    """The log is one whose line at an epoch's end gives the mean of the whole epoch."""
    samples_per_second: float | None = None
    """Of the process that prints."""
    steps_per_second: float | None = None
    """Of the whole job."""
    learning_rate: float | None = None
    saved: Saved | None = None
    metrics: tuple[str, ...] = ()
    """The names of all values on the line."""

    @property
    def trained(self) -> bool:
        """Whether the line gives a position in the training."""
        return self.step is not None or self.batch is not None or self.epoch_ended

    def with_values(self, values: Mapping[str, float], loss_metric: str | None) -> Self:
        """The same with the loss, the learning rate and the names of the line's values."""
        loss, rate = choose_loss(values, loss_metric), learning_rate(values)
        return replace(self, loss=loss, learning_rate=rate, metrics=tuple(values))


NO_PROGRESS: Final = ParsedLine()
"""A known line without training progress, such as the result of an evaluation."""


def clean(raw: str) -> str:
    """The last complete state of a line, without colours and backspaces, cut to 4096 characters.

    A progress bar rewrites itself with carriage returns and backspaces, so hundreds of its states
    share one line; colours may be between a name and its number."""
    states = (state for state in reversed(raw.rstrip("\n").split("\r")) if state.strip(_INVISIBLE))
    text = _ANSI.sub("", next(states, "")).replace("\b", "")
    # A number that the cut went through still parses, as another number: drop the last word.
    return text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS].rpartition(" ")[0]


def without_prefix(text: str) -> str:
    """The line without the prefixes of launchers and loggers (time, level, source)."""
    return _STAMP.sub("", _LAUNCHER.sub("", text), count=1)


def parse_integer(text: str) -> int | None:
    """A non-negative integer of at most 15 digits, or ``None``."""
    return int(float(text)) if _INTEGER.fullmatch(text) else None


def pairs(text: str) -> dict[str, float]:
    """All ``name=value`` pairs without blanks around the sign, the last of each name."""
    return numbers(_PAIR.findall(text))


def numbers(found: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Values by name, from names and texts of numbers."""
    return {name: float(value) for name, value in found}


def choose_loss(values: Mapping[str, float], wanted: str | None) -> float | None:
    """The training loss among a line's values, or ``None``.

    A user's ``loss-metric`` (``wanted``) is taken literally. Without one: ``loss``, else the
    cross-entropy, else the negative log-likelihood, else the log of the perplexity, which is the
    exponential of the cross-entropy. Never an accuracy."""
    if wanted is not None:
        return values.get(wanted)
    lowered = {name.lower(): value for name, value in values.items()}
    for name in _LOSSES:
        if name in lowered:
            return lowered[name]
    perplexity = next((lowered[name] for name in _PERPLEXITIES if name in lowered), None)
    if perplexity is None:
        return None
    return math.log(perplexity) if perplexity > 0 else math.nan


def learning_rate(values: Mapping[str, float]) -> float | None:
    """The learning rate among a line's values, or ``None``."""
    rate = next((values[name] for name in _LEARNING_RATES if name in values), None)
    return rate if rate is not None and 0 < rate < math.inf else None
