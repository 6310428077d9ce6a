"""How one job's log is read: what its annotations say."""

import re
from dataclasses import dataclass
from typing import Self

from optimus.jobs import Batch, Job, Role, TrainingMode
from optimus.progress.patterns import bounded, check_pattern


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
