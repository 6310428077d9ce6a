"""Annotations under ``optimus.dl/``: values are checked, each bad one gets a sentence."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from heapq import nsmallest
from typing import Any, Final, NamedTuple, TypeVar

from optimus.jobs import (
    AtTarget,
    Batch,
    BatchScope,
    ConvergenceThreshold,
    CountBounds,
    Goal,
    Manage,
    RescaleRule,
    Target,
    TargetEpochs,
    TargetLoss,
    TargetSteps,
    TrainingMode,
)
from optimus.kube.contract import GROUP, Annotation
from optimus.kube.errors import Malformed
from optimus.kube.job_kinds import MOST_REPLICAS
from optimus.kube.times import parse_instant
from optimus.progress.patterns import InvalidPattern, compile_pattern
from optimus.progress.schedule import InvalidSchedule, parse_schedule
from optimus.progress.targets import InvalidTarget, parse_target

_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,2})?", re.ASCII)
_UNEVENNESS: Final = re.compile(
    r"[1-9][0-9]?(\.[0-9]{1,3})?(, ?[1-9][0-9]?(\.[0-9]{1,3})?){0,63}", re.ASCII
)
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_LONGEST_INSTANT: Final = 64
_LONGEST_NUMBER: Final = 39
_MOST_UNKNOWN: Final = 10
"""Unknown names that are looked up: a job may have thousands of annotations."""

_KNOWN: Final = frozenset(value for name, value in vars(Annotation).items() if name.isupper())


class _LearningRateScaling(StrEnum):
    """The ways in which the learning rate may follow the batch of the job: in proportion to it."""

    LINEAR = "linear"


@dataclass(frozen=True, slots=True)
class AnnotationProblem:
    """A value that cannot be used; ``str()`` is the sentence for the job's Event."""

    annotation: str
    value: str
    expected: str

    def __str__(self) -> str:
        return f"{self.annotation}: {self.value[:100]!r} is invalid; {self.expected}"


def asks_for_management(annotations: Mapping[str, str]) -> bool:
    """Return whether the user wants the job managed, even if a value cannot be used."""
    return any(goal in annotations for goal in GOALS)


class ReadOptions(NamedTuple):
    """The options that can be used, and the problems of those that cannot.

    With ``problems`` a job is not managed; what is ``ignored`` is left out."""

    options: Mapping[str, Any]
    """The values of the fields of ``Job`` that are annotated."""

    problems: tuple[AnnotationProblem, ...]
    ignored: tuple[AnnotationProblem, ...]


def read_options(annotations: Mapping[str, str]) -> ReadOptions:
    """Return what the annotations ask for."""
    reader = _Reader(annotations)
    read = reader.read
    found = {
        "goal": _goal(reader),
        "finish_by": _deadline(reader),
        "bounds": _bounds(reader),
        "mode": read(Annotation.TRAINING_MODE, _choice(TrainingMode)),
        "batch": _batch(reader),
        "steps_per_epoch": read(Annotation.STEPS_PER_EPOCH, _positive),
        "ps_unevenness": read(Annotation.PS_UNEVENNESS, _unevenness),
        "at_target": read(Annotation.AT_TARGET, _choice(AtTarget)),
        "rescale": read(Annotation.RESCALE, _choice(RescaleRule)),
        "saves_on_stop": read(Annotation.SAVES_ON_STOP, _truth),
        "manage": read(Annotation.MANAGE, _choice(Manage)),
        "paused": read(Annotation.PAUSE, _truth),
        "workload": read(Annotation.WORKLOAD, _name),
        "chief_trains": read(Annotation.CHIEF_TRAINS, _truth),
        "lr_schedule": read(Annotation.LR_SCHEDULE, _schedule, ignores=True),
        "loss_metric": read(Annotation.LOSS_METRIC, _text),
        "metrics_format": read(Annotation.METRICS_FORMAT, _pattern(groups=2)),
        "checkpoint_format": read(Annotation.CHECKPOINT_FORMAT, _pattern(groups=0)),
    }
    options = {name: value for name, value in found.items() if value is not None}
    return ReadOptions(options, tuple(reader.problems), tuple(reader.ignored))


def unknown_annotations(annotations: Mapping[str, str]) -> tuple[AnnotationProblem, ...]:
    """The first unknown names under ``optimus.dl/``. They do no harm; most are misspelt."""
    unknown = nsmallest(
        _MOST_UNKNOWN,
        (name for name in annotations if name.startswith(f"{GROUP}/") and name not in _KNOWN),
    )
    return tuple(AnnotationProblem(name, annotations[name], _suggestion(name)) for name in unknown)


def _suggestion(name: str) -> str:
    close = get_close_matches(name, _KNOWN, n=1, cutoff=0.6)
    return "unknown annotation" + (f"; did you mean {close[0]}?" if close else "")


_Value = TypeVar("_Value")
_Choice = TypeVar("_Choice", bound=StrEnum)


class _Reader:
    """Reads one job's annotations and collects the problems."""

    def __init__(self, annotations: Mapping[str, str]) -> None:
        self.annotations = annotations
        self.problems: list[AnnotationProblem] = []
        self.ignored: list[AnnotationProblem] = []

    def read(
        self, annotation: str, parse: Callable[[str], _Value], *, ignores: bool = False
    ) -> _Value | None:
        """The value; ``None`` where there is none, or where ``parse`` raises a ValueError that says
        what is expected. A wrong one ``ignores`` does not keep the job from being managed."""
        text = self.annotations.get(annotation)
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            found = self.ignored if ignores else self.problems
            found.append(AnnotationProblem(annotation, text or "", str(error)))
            return None

    def refuse(self, annotation: str, expected: str) -> None:
        text = self.annotations[annotation]
        self.problems.append(AnnotationProblem(annotation, text, expected))


# --- one value; each raises a ValueError that says what is expected


def _checked(
    parse: Callable[[str], _Value], accepts: Callable[[_Value], object], expected: str
) -> Callable[[str], _Value]:
    def checked(text: str) -> _Value:
        value = parse(text)
        if not accepts(value):
            raise ValueError(expected)
        return value

    return checked


def _number(text: str) -> float:
    text = text.strip()
    if not (len(text) <= _LONGEST_NUMBER and _NUMBER.fullmatch(text)):
        raise ValueError("a number such as 0.25 is expected")
    return float(text)


_positive = _checked(_number, lambda value: value > 0, "a number above 0 is expected")
_fraction = _checked(
    _positive, lambda value: value < 1, "a fraction below 1, such as 0.02, is expected"
)
_text = _checked(
    str.strip, lambda text: 1 <= len(text) <= 100, "a name of 1 to 100 characters is expected"
)
_name = _checked(
    _text,
    _NAME.fullmatch,
    "a name of lower-case letters, digits and inner dashes would be right, such as resnet-50",
)


def _count(most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        text = text.strip()
        value = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
        if not 1 <= value <= most:
            raise ValueError(f"a whole number from 1 to {most} is expected")
        return value

    return parse


def _unevenness(text: str) -> tuple[float, ...]:
    if not _UNEVENNESS.fullmatch(text.strip()):
        raise ValueError("up to 64 numbers such as 1, 1.24, 1.31, of 1, 2, 3 PSs, are expected")
    return tuple(map(float, text.split(",")))


def _choice(choices: type[_Choice]) -> Callable[[str], _Choice]:
    expected = f"one of {', '.join(choices)} is expected"
    word = _checked(_lower, set(choices).__contains__, expected)
    return lambda text: choices(word(text))


def _lower(text: str) -> str:
    return text.strip().lower()


def _truth(text: str) -> bool:
    if _lower(text) not in ("true", "false"):
        raise ValueError('"true" or "false" is expected')
    return _lower(text) == "true"


def _pattern(groups: int) -> Callable[[str], str]:
    def parse(text: str) -> str:
        found = compile_pattern(text, groups)
        if isinstance(found, InvalidPattern):
            raise ValueError(found.expected)
        return text

    return parse


def _schedule(text: str) -> str:
    found = parse_schedule(text)
    if isinstance(found, InvalidSchedule):
        raise ValueError(f"{found.expected}; the log's own is used")
    return text


def _target(text: str) -> Target:
    target = parse_target(text)
    if isinstance(target, InvalidTarget):
        raise ValueError(target.expected)
    return target


# --- what several annotations say together

_GOALS: Final[Mapping[str, Callable[[str], Goal]]] = {
    Annotation.TARGET_LOSS: lambda text: TargetLoss(_number(text)),
    Annotation.TARGET: _target,
    Annotation.CONVERGENCE_THRESHOLD: lambda text: ConvergenceThreshold(_fraction(text)),
    Annotation.TARGET_EPOCHS: lambda text: TargetEpochs(_positive(text)),
    Annotation.TARGET_STEPS: lambda text: TargetSteps(_count(10**12)(text)),
}
GOALS: Final = tuple(_GOALS)
"""One of these turns management on."""

_SECOND: Final = "write either it or {}, not both"


def _goal(reader: _Reader) -> Goal | None:
    found = {name: reader.read(name, parse) for name, parse in _GOALS.items()}
    given = [(name, goal) for name, goal in found.items() if goal is not None]
    for other, _ in given[1:]:
        reader.refuse(other, _SECOND.format(given[0][0]))
    return given[0][1] if len(given) == 1 else None


def _deadline(reader: _Reader) -> float | None:
    """Seconds since the epoch."""

    def parse(text: str) -> float:
        if not asks_for_management(reader.annotations):
            raise ValueError(f"it needs a goal beside it, such as {Annotation.TARGET_LOSS}")
        try:
            return parse_instant(text.strip()[:_LONGEST_INSTANT])
        except Malformed:
            right = "an RFC 3339 time is expected, such as 2026-01-31T18:00:00Z"
            raise ValueError(f"{right}; the job goes on without a deadline") from None

    return reader.read(Annotation.FINISH_BY, parse, ignores=True)


def _batch(reader: _Reader) -> Batch | None:
    job = reader.read(Annotation.GLOBAL_BATCH_SIZE, _count(10**9))
    worker = reader.read(Annotation.WORKER_BATCH_SIZE, _count(10**9))
    scaling = reader.read(Annotation.LR_SCALING, _choice(_LearningRateScaling))
    if job is None:
        return None if worker is None else Batch(worker, BatchScope.WORKER, scaling is not None)
    if worker is None:
        return Batch(job, BatchScope.JOB)
    reader.refuse(Annotation.WORKER_BATCH_SIZE, _SECOND.format(Annotation.GLOBAL_BATCH_SIZE))
    return None


def _bounds(reader: _Reader) -> CountBounds:
    def between(lowest: str, highest: str) -> tuple[int, int | None]:
        low = reader.read(lowest, _count(MOST_REPLICAS)) or 1
        high = reader.read(highest, _count(MOST_REPLICAS))
        if high is not None and high < low:
            reader.refuse(highest, f"at least {low} ({lowest}) is expected")
            return low, None
        return low, high

    given = (name in reader.annotations for name in (Annotation.MIN_PS, Annotation.MIN_WORKERS))
    return CountBounds(
        *between(Annotation.MIN_PS, Annotation.MAX_PS),
        *between(Annotation.MIN_WORKERS, Annotation.MAX_WORKERS),
        *given,
    )
