"""Annotations under ``optimus.dl/``: values are checked, each bad one gets a sentence."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from heapq import nsmallest
from typing import Final, NamedTuple, TypeVar

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
from optimus.kube.times import parse_instant
from optimus.progress.patterns import InvalidPattern, compile_pattern
from optimus.progress.schedule import InvalidSchedule, parse_schedule
from optimus.progress.targets import InvalidTarget, parse_target

_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,2})?", re.ASCII)
_UNEVENNESS: Final = re.compile(
    r"[1-9][0-9]?(\.[0-9]{1,3})?(, ?[1-9][0-9]?(\.[0-9]{1,3})?){0,63}", re.ASCII
)
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_LARGEST_COUNT: Final = 10_000
_LONGEST_INSTANT: Final = 64
_LONGEST_NUMBER: Final = 39
_MOST_UNKNOWN: Final = 10
"""Unknown names that are looked up: a job may have thousands of annotations."""

_KNOWN: Final = frozenset(value for name, value in vars(Annotation).items() if name.isupper())


class _LearningRateScaling(StrEnum):
    """How the learning rate follows the batch of the job: in proportion to it."""

    LINEAR = "linear"


@dataclass(frozen=True, slots=True)
class AnnotationProblem:
    """A value that cannot be used; ``str()`` is the sentence for the job's Event."""

    annotation: str
    value: str
    expected: str

    def __str__(self) -> str:
        return f"{self.annotation}: {self.value[:100]!r} is invalid; {self.expected}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """What a job's annotations ask for. What is not annotated has its default."""

    goal: Goal | None = None
    finish_by: float | None = None
    bounds: CountBounds = field(default_factory=CountBounds)
    mode: TrainingMode | None = None
    batch: Batch | None = None
    steps_per_epoch: float | None = None
    ps_unevenness: tuple[float, ...] = ()
    at_target: AtTarget | None = None
    rescale: RescaleRule = RescaleRule.CHECKPOINT
    saves_on_stop: bool | None = None
    manage: Manage = Manage.AUTO
    paused: bool = False
    workload: str | None = None
    chief_trains: bool = False
    lr_schedule: str | None = None
    loss_metric: str | None = None
    metrics_format: str | None = None
    checkpoint_format: str | None = None


GOALS: Final = (
    Annotation.TARGET_LOSS,
    Annotation.TARGET,
    Annotation.CONVERGENCE_THRESHOLD,
    Annotation.TARGET_EPOCHS,
    Annotation.TARGET_STEPS,
)
"""One of these turns management on."""


def asks_for_management(annotations: Mapping[str, str]) -> bool:
    """Return whether the user wants the job managed, even if a value cannot be used."""
    return any(goal in annotations for goal in GOALS)


class ReadOptions(NamedTuple):
    """The options that can be used, and the problems of those that cannot.

    With ``problems`` a job is not managed; what is ``ignored`` is left out."""

    options: JobOptions
    problems: tuple[AnnotationProblem, ...]
    ignored: tuple[AnnotationProblem, ...]


def read_options(annotations: Mapping[str, str]) -> ReadOptions:
    """Return what the annotations ask for."""
    reader = _AnnotationReader(annotations)
    options = JobOptions(
        goal=reader.goal(),
        finish_by=reader.deadline(),
        bounds=reader.bounds(),
        mode=reader.choice(Annotation.TRAINING_MODE, TrainingMode),
        batch=reader.batch(),
        steps_per_epoch=reader.positive(Annotation.STEPS_PER_EPOCH),
        ps_unevenness=reader.unevenness(),
        at_target=reader.choice(Annotation.AT_TARGET, AtTarget),
        rescale=reader.choice(Annotation.RESCALE, RescaleRule) or RescaleRule.CHECKPOINT,
        saves_on_stop=reader.stated(Annotation.SAVES_ON_STOP),
        manage=reader.choice(Annotation.MANAGE, Manage) or Manage.AUTO,
        paused=reader.flag(Annotation.PAUSE),
        workload=reader.name(Annotation.WORKLOAD),
        chief_trains=reader.flag(Annotation.CHIEF_TRAINS),
        lr_schedule=reader.schedule(),
        loss_metric=reader.text(Annotation.LOSS_METRIC),
        metrics_format=reader.pattern(Annotation.METRICS_FORMAT, groups=2),
        checkpoint_format=reader.pattern(Annotation.CHECKPOINT_FORMAT, groups=0),
    )
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


_Choice = TypeVar("_Choice", bound=StrEnum)


class _AnnotationReader:
    """Reads one job's annotations and collects the problems."""

    def __init__(self, annotations: Mapping[str, str]) -> None:
        self._annotations = annotations
        self.problems: list[AnnotationProblem] = []
        self.ignored: list[AnnotationProblem] = []

    def refuse(self, annotation: str, right: str) -> None:
        self.problems.append(AnnotationProblem(annotation, self._annotations[annotation], right))

    def refuse_second(self, annotation: str, first: str) -> None:
        self.refuse(annotation, f"write either it or {first}, not both")

    def number(self, annotation: str) -> float | None:
        text = self._annotations.get(annotation, "").strip()
        if annotation not in self._annotations:
            return None
        if not (len(text) <= _LONGEST_NUMBER and _NUMBER.fullmatch(text)):
            self.refuse(annotation, "a number such as 0.25 is expected")
            return None
        return float(text)

    def positive(self, annotation: str) -> float | None:
        value = self.number(annotation)
        if value is not None and value <= 0:
            self.refuse(annotation, "a number above 0 is expected")
            return None
        return value

    def count(self, annotation: str, largest: int = _LARGEST_COUNT) -> int | None:
        if annotation not in self._annotations:
            return None
        text = self._annotations[annotation].strip()
        value = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
        if not 1 <= value <= largest:
            self.refuse(annotation, f"a whole number from 1 to {largest} is expected")
            return None
        return value

    def unevenness(self) -> tuple[float, ...]:
        text = self._annotations.get(Annotation.PS_UNEVENNESS)
        if text is None:
            return ()
        if not _UNEVENNESS.fullmatch(text.strip()):
            expected = "up to 64 numbers such as 1, 1.24, 1.31, of 1, 2, 3 PSs, are expected"
            self.refuse(Annotation.PS_UNEVENNESS, expected)
            return ()
        return tuple(map(float, text.split(",")))

    def choice(self, annotation: str, choices: type[_Choice]) -> _Choice | None:
        if annotation not in self._annotations:
            return None
        try:
            return choices(self._annotations[annotation].strip().lower())
        except ValueError:
            self.refuse(annotation, f"one of {', '.join(choices)} is expected")
            return None

    def flag(self, annotation: str) -> bool:
        return self.stated(annotation) or False

    def stated(self, annotation: str) -> bool | None:
        text = self._annotations.get(annotation)
        if text is None:
            return None
        if text.strip().lower() not in ("true", "false"):
            self.refuse(annotation, '"true" or "false" is expected')
        return text.strip().lower() == "true"

    def text(self, annotation: str) -> str | None:
        if annotation not in self._annotations:
            return None
        text = self._annotations[annotation].strip()
        if not text or len(text) > 100:
            self.refuse(annotation, "a name of 1 to 100 characters is expected")
            return None
        return text

    def name(self, annotation: str) -> str | None:
        text = self.text(annotation)
        if text is not None and not _NAME.fullmatch(text):
            right = "a name of lower-case letters, digits and inner dashes would be right"
            self.refuse(annotation, f"{right}, such as resnet-50")
            return None
        return text

    def pattern(self, annotation: str, groups: int) -> str | None:
        text = self._annotations.get(annotation)
        wrong = None if text is None else compile_pattern(text, groups)
        if isinstance(wrong, InvalidPattern):
            self.refuse(annotation, wrong.expected)
            return None
        return text

    def schedule(self) -> str | None:
        """As it is written; a wrong one does not keep the job from being managed."""
        text = self._annotations.get(Annotation.LR_SCHEDULE)
        wrong = None if text is None else parse_schedule(text)
        if isinstance(wrong, InvalidSchedule):
            self._ignore(Annotation.LR_SCHEDULE, f"{wrong.expected}; the log's own is used")
            return None
        return text

    def goal(self) -> Goal | None:
        goals = {name: self._goal(name) for name in GOALS if name in self._annotations}
        given = [(name, goal) for name, goal in goals.items() if goal is not None]
        for other, _ in given[1:]:
            self.refuse_second(other, given[0][0])
        return given[0][1] if len(given) == 1 else None

    def _goal(self, annotation: str) -> Goal | None:
        match annotation:
            case Annotation.TARGET:
                return self._target()
            case Annotation.TARGET_LOSS:
                loss = self.number(annotation)
                return None if loss is None else TargetLoss(loss)
            case Annotation.CONVERGENCE_THRESHOLD:
                fraction = self._fraction(annotation)
                return None if fraction is None else ConvergenceThreshold(fraction)
            case Annotation.TARGET_EPOCHS:
                epochs = self.positive(annotation)
                return None if epochs is None else TargetEpochs(epochs)
            case _:
                steps = self.count(annotation, 10**12)
                return None if steps is None else TargetSteps(steps)

    def _target(self) -> Target | None:
        target = parse_target(self._annotations[Annotation.TARGET])
        if isinstance(target, InvalidTarget):
            self.refuse(Annotation.TARGET, target.expected)
            return None
        return target

    def _fraction(self, annotation: str) -> float | None:
        value = self.positive(annotation)
        if value is not None and value >= 1:
            self.refuse(annotation, "a fraction below 1, such as 0.02, is expected")
            return None
        return value

    def deadline(self) -> float | None:
        """Seconds since the epoch; a wrong one does not keep the job from being managed."""
        annotation = Annotation.FINISH_BY
        if annotation not in self._annotations:
            return None
        if not asks_for_management(self._annotations):
            self._ignore(annotation, f"it needs a goal beside it, such as {GOALS[0]}")
            return None
        try:
            return parse_instant(self._annotations[annotation].strip()[:_LONGEST_INSTANT])
        except Malformed:
            right = "an RFC 3339 time is expected, such as 2026-01-31T18:00:00Z"
            self._ignore(annotation, f"{right}; the job goes on without a deadline")
            return None

    def _ignore(self, annotation: str, right: str) -> None:
        self.ignored.append(AnnotationProblem(annotation, self._annotations[annotation], right))

    def batch(self) -> Batch | None:
        job = self.count(Annotation.GLOBAL_BATCH_SIZE, 10**9)
        worker = self.count(Annotation.WORKER_BATCH_SIZE, 10**9)
        follows = self.choice(Annotation.LR_SCALING, _LearningRateScaling) is not None
        if job is None:
            return None if worker is None else Batch(worker, BatchScope.WORKER, follows)
        both = worker is not None
        if both:
            self.refuse_second(Annotation.WORKER_BATCH_SIZE, Annotation.GLOBAL_BATCH_SIZE)
        return None if both else Batch(job, BatchScope.JOB)

    def bounds(self) -> CountBounds:
        min_ps, max_ps = self._range(Annotation.MIN_PS, Annotation.MAX_PS)
        min_workers, max_workers = self._range(Annotation.MIN_WORKERS, Annotation.MAX_WORKERS)
        given = Annotation.MIN_PS in self._annotations, Annotation.MIN_WORKERS in self._annotations
        return CountBounds(min_ps, max_ps, min_workers, max_workers, *given)

    def _range(self, lowest: str, highest: str) -> tuple[int, int | None]:
        low, high = self.count(lowest) or 1, self.count(highest)
        if high is not None and high < low:
            self.refuse(highest, f"at least {low} ({lowest}) is expected")
            return low, None
        return low, high
