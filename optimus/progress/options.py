"""How one job's log is to be read: what its annotations say."""

import re
from dataclasses import dataclass
from typing import Self

from optimus.jobs import Batch, BatchScope, Job, Role, TrainingMode
from optimus.progress.patterns import bounded, check_pattern

_CHIEFS = (Role.CHIEF, Role.MASTER)


@dataclass(frozen=True, slots=True)
class LogFormatOptions:
    """What is known of a job beforehand.

    ``steps_per_epoch`` are the job's global steps; ``chiefs`` are replicas that train beside the
    workers."""

    mode: TrainingMode = TrainingMode.ASYNC
    batch: Batch | None = None
    steps_per_epoch: float | None = None
    loss_metric: str | None = None
    metrics_format: re.Pattern[str] | None = None
    checkpoint_format: re.Pattern[str] | None = None
    chiefs: int = 0

    @classmethod
    def of(cls, job: Job) -> Self:
        """The rules of a job; a pattern that ``check_pattern`` refuses is left out (its job is left
        alone anyway)."""
        return cls(
            mode=job.mode,
            batch=job.batch,
            steps_per_epoch=job.steps_per_epoch,
            loss_metric=job.loss_metric,
            metrics_format=_compiled(job.metrics_format, groups=2),
            checkpoint_format=_compiled(job.checkpoint_format, groups=0),
            chiefs=sum(each.count for each in job.fixed if each.role in _CHIEFS)
            if job.chief_trains
            else 0,
        )

    def trainers(self, workers: int) -> int:
        """How many processes train at so many workers."""
        return workers + self.chiefs

    @property
    def steps_shrink_with_workers(self) -> bool:
        """Whether a step of more workers covers more examples, so that an epoch has fewer steps."""
        per_worker = self.batch is not None and self.batch.scope is BatchScope.WORKER
        return per_worker and self.mode is TrainingMode.SYNC

    @property
    def steps_may_shrink(self) -> bool:
        """Whether nothing is known of the batch of sync workers, nor of the length of an epoch."""
        return (
            self.batch is None and self.mode is TrainingMode.SYNC and self.steps_per_epoch is None
        )

    def worker_batch(self, workers: int) -> float | None:
        """Examples of one worker's part of a step, where the batch is known."""
        if self.batch is None:
            return None
        shared = self.batch.scope is BatchScope.JOB and self.mode is TrainingMode.SYNC
        return (
            self.batch.size / max(self.trainers(workers), 1) if shared else float(self.batch.size)
        )


def _compiled(text: str | None, groups: int) -> re.Pattern[str] | None:
    if text is None or check_pattern(text, groups=groups) is not None:
        return None
    return bounded(text)
