"""What a workload remembers of its jobs' runs, and when.

A run is kept three times at most: when the job's own speeds are enough for a model, when its goal
is met, and when it has ended. On a cluster a WorkloadProfile keeps them.
"""

import hashlib
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from optimus.jobs import Job
from optimus.models.earlier_runs import applicable, run_of
from optimus.models.prior import speed_is_known
from optimus.progress.types import EarlierRun, TrainingProgress


class Shared(IntEnum):
    """How much of a job's run its workload has."""

    NOTHING = 0
    SPEEDS = 1
    GOAL = 2
    END = 3


class Provided(NamedTuple):
    """What a workload's runs tell one of its jobs."""

    earlier: tuple[EarlierRun, ...] = ()
    speed_is_known: bool = False
    """Whether that is enough for a speed model."""


_DEFAULT: Final = "auto-"
"""Begins the name of a workload that no user has named."""


def default_workload(runs: str) -> str:
    """The workload of jobs whose users name none and that all run the same, as a DNS label."""
    return _DEFAULT + hashlib.sha256(runs.encode()).hexdigest()[:20]


def is_default(workload: str) -> bool:
    """Whether no user has named it."""
    return workload.startswith(_DEFAULT)


NOTHING_PROVIDED: Final = Provided()


def provided(runs: Iterable[EarlierRun], job: Job, at: float) -> Provided:
    """What the runs of its workload tell a job."""
    earlier = applicable(runs, job, at)
    return Provided(earlier, speed_is_known(earlier, job.bounds))


def speeds_are_enough(job: Job, progress: TrainingProgress) -> bool:
    """Whether the job's own speeds are enough for a model, and so help others."""
    own = run_of(job, progress, 0.0, succeeded=False)
    return speed_is_known((own,), job.bounds)
