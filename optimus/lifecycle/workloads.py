"""Keeps what a workload remembers of its jobs' runs, and tells what other workloads' runs say.

A run is kept three times at most: when the job's own speeds are enough for a model, when its goal
is met, and when it has ended. On a cluster a WorkloadProfile keeps them.

A job whose user names no workload is of that of the jobs which run the same. There is no name that
says whether they train the same: where two of its runs differed, nobody learns from it.

How long runs take is told to jobs of other workloads, too: each workload of a namespace once, by
its median, and each other namespace once, by the median of its workloads."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import IntEnum
from statistics import median
from typing import Final, NamedTuple

from optimus.jobs import DEFAULT_WORKLOADS, Job
from optimus.models.earlier_runs import applicable, kept, run_of
from optimus.models.prior import speed_is_known
from optimus.progress.types import EarlierRun, RunLengths, TrainingProgress

_MOST_DIFFERED: Final = 1
"""Of the kept runs of such a workload: one may be a straggler's."""
_LEAST_NAMESPACES: Final = 3
"""Other namespaces whose lengths are told: with fewer, one tenant would say what is usual."""
_WITHIN: Final = 4.0
"""Another namespace's length counts within so many times their median, and one so many-th of it."""


class Shared(IntEnum):
    """The part of a job's run that its workload has."""

    NOTHING = 0
    SPEEDS = 1
    GOAL = 2
    END = 3


class Provided(NamedTuple):
    """The facts that ended jobs tell another one."""

    earlier: tuple[EarlierRun, ...] = ()
    """Runs of its workload."""
    speed_is_known: bool = False
    """True where these are enough for a speed model."""
    lengths: tuple[RunLengths, ...] = ()
    """How long jobs of other workloads took: those of other namespaces, those of its own."""

    @property
    def of_others(self) -> "Provided":
        """Without the runs of its workload."""
        return Provided(lengths=self.lengths)


NOTHING_PROVIDED: Final = Provided()


def is_default(workload: str) -> bool:
    """Return whether no user has named it."""
    return workload.startswith(DEFAULT_WORKLOADS)


def provided(
    runs: Iterable[EarlierRun], job: Job, at: float, lengths: tuple[RunLengths, ...] = ()
) -> Provided:
    """Return what the runs of its workload, and the lengths of others', tell a job."""
    runs = kept(runs, None, at)
    is_unlike = sum(run.differed for run in runs) > _MOST_DIFFERED
    if is_unlike and is_default(job.workload or ""):
        return Provided(lengths=lengths)
    earlier = applicable(runs, job, at)
    return Provided(earlier, speed_is_known(earlier, job.bounds), lengths)


def speeds_are_enough(job: Job, progress: TrainingProgress) -> bool:
    """Return whether the job's own speeds are enough for a model, and so help others."""
    own = run_of(job, progress, 0.0, succeeded=False)
    return speed_is_known((own,), job.bounds)


class UsualLengths:
    """Keeps how long the jobs of each workload took, by namespace."""

    def __init__(self) -> None:
        self.runs: Mapping[tuple[str, str], tuple[EarlierRun, ...]] = {}
        """What they were made of, by namespace and name."""
        self._of_workload: dict[str, dict[str, RunLengths]] = {}
        """By namespace, the median of each workload."""
        self._of_namespace: dict[str, RunLengths] = {}

    def update(self, runs: Mapping[tuple[str, str], tuple[EarlierRun, ...]]) -> None:
        """Take in the runs of all workloads, by namespace and name."""
        known, self.runs = self.runs, runs
        if len(known) == len(runs) and all(known.get(key) is each for key, each in runs.items()):
            return
        before, of_workload = self._of_workload, defaultdict[str, dict[str, RunLengths]](dict)
        for key, each in runs.items():
            namespace, name = key
            is_same = known.get(key) is each
            of_workload[namespace][name] = before[namespace][name] if is_same else _median(each)
        self._of_workload = of_workload
        self._of_namespace = {
            namespace: _middle(_joined(medians.values()))
            for namespace, medians in of_workload.items()
        }

    def others(self, namespace: str, workload: str | None) -> tuple[RunLengths, ...]:
        """Those of other namespaces, and of the namespace's other workloads; nothing where none
        ended."""
        abroad = [each for name, each in self._of_namespace.items() if name != namespace]
        beside = self._of_workload.get(namespace, {})
        cluster = _trimmed(_joined(abroad))
        own = _joined(each for name, each in beside.items() if name != workload)
        return tuple(each for each in (cluster, own) if each != RunLengths())


def _median(runs: Iterable[EarlierRun]) -> RunLengths:
    """The median length of a workload's runs that met their goals, in epochs and in steps."""
    met: dict[bool, list[float]] = {True: [], False: []}
    for run in runs:
        if run.met_at is not None:
            met[run.in_epochs].append(run.met_at)
    return _middle(RunLengths(tuple(met[True]), tuple(met[False])))


def _middle(lengths: RunLengths) -> RunLengths:
    epochs, steps = lengths.epochs, lengths.steps
    return RunLengths(
        (median(epochs),) if epochs else (),
        (median(steps),) if steps else (),
    )


def _joined(lengths: Iterable[RunLengths]) -> RunLengths:
    listed = list(lengths)
    return RunLengths(
        tuple(each for one in listed for each in one.epochs),
        tuple(each for one in listed for each in one.steps),
    )


def _trimmed(lengths: RunLengths) -> RunLengths:
    """Those of enough namespaces, none of them far from their median."""
    return RunLengths(_within(lengths.epochs), _within(lengths.steps))


def _within(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(values) < _LEAST_NAMESPACES:
        return ()
    middle = median(values)
    return tuple(min(max(each, middle / _WITHIN), middle * _WITHIN) for each in values)
