"""A job's forecasts, kept while nothing has changed of what they are made from.

Fits take most of an interval's time.
"""

import dataclasses
from dataclasses import dataclass

from optimus.errors import NotReady
from optimus.jobs import Job
from optimus.kube.workload_profiles import WorkloadProfile
from optimus.lifecycle.workloads import NOTHING_PROVIDED, Provided, UsualLengths, provided
from optimus.models.expectation import presentable
from optimus.models.forecast import Forecast
from optimus.progress.types import TrainingProgress


@dataclass(slots=True)
class Forecasts:
    """One job's forecasts, and the earlier runs that they use."""

    current: Forecast | NotReady | None = None
    made_of: tuple[Job, TrainingProgress] | None = None
    """What the forecast was made from, without what no forecast reads."""

    expected: tuple[tuple[Job, TrainingProgress], Forecast | NotReady] | None = None
    """What is to be expected of a job without a forecast, and what that was made from: before it,
    as that is what says whether it is out of date."""

    earlier: Provided = NOTHING_PROVIDED
    """What ended jobs of its workload, and of others, have shown."""

    compared: object = None
    """How much the job had shown when it was last compared with them between two intervals."""

    earlier_source: tuple[WorkloadProfile | None, Job, bool] | None = None
    """What ``earlier`` was made of."""

    with_earlier: tuple[TrainingProgress, Provided, TrainingProgress] | None = None
    """The last progress, ``earlier``, and that progress with it."""

    def take_earlier(
        self, workload: WorkloadProfile | None, job: Job, at: float, usual: UsualLengths
    ) -> None:
        """Take in what the job's workload has for it now.

        How long others took is taken in with that, and not whenever one of them ends: each time
        every job of the cluster would be fitted anew."""
        known, is_first = self.earlier_source, not usual.runs
        if known is not None and known[0] is workload and known[1:] == (job, is_first):
            return
        self.earlier_source = workload, job, is_first
        lengths = usual.others(job.key.namespace, job.workload)
        runs = () if workload is None else workload.runs
        self.earlier = provided(runs, job, at, lengths)

    def progress(self, progress: TrainingProgress) -> TrainingProgress:
        """The job's progress, with what ended jobs have shown."""
        told, known = self.earlier, self.with_earlier
        if not (told.earlier or told.lengths):
            return progress
        if known is None or known[0] is not progress or known[1] is not told:
            full = dataclasses.replace(progress, earlier=told.earlier, lengths=told.lengths)
            known = self.with_earlier = progress, told, full
        return known[2]

    def shown(self, job: Job) -> Forecast | None:
        """The forecast that the job's user is shown."""
        if isinstance(self.current, Forecast):
            return self.current
        if self.expected is None or self.expected[0] is not self.made_of:
            return None
        (_, progress), forecast = self.expected
        return presentable(job, progress, forecast)
