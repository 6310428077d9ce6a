"""A job's forecasts, kept while nothing has changed of what they are made from.

Fits take most of an interval's time.
"""

import dataclasses
from dataclasses import dataclass

from optimus.errors import NotReady
from optimus.jobs import Job
from optimus.kube.workload_profiles import WorkloadProfile
from optimus.lifecycle.workloads import NOTHING_PROVIDED, Provided, provided
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
    """What earlier jobs of its workload have shown, under its conditions."""

    compared: object = None
    """How much the job had shown when it was last compared with them between two intervals."""

    earlier_source: tuple[WorkloadProfile | None, Job] | None = None
    """What ``earlier`` was made of."""

    with_earlier: tuple[TrainingProgress, TrainingProgress] | None = None
    """The last progress, without and with ``earlier``."""

    def take_earlier(self, workload: WorkloadProfile | None, job: Job, at: float) -> None:
        """Take in what the job's workload has for it now."""
        known = self.earlier_source
        if known is not None and known[0] is workload and known[1] == job:
            return
        self.earlier_source = workload, job
        self.earlier = NOTHING_PROVIDED if workload is None else provided(workload.runs, job, at)

    def progress(self, progress: TrainingProgress) -> TrainingProgress:
        """The job's progress, with what earlier jobs of its workload have shown."""
        earlier = self.earlier.earlier
        if not earlier:
            return progress
        known = self.with_earlier
        if known is None or known[0] is not progress or known[1].earlier is not earlier:
            known = progress, dataclasses.replace(progress, earlier=earlier)
            self.with_earlier = known
        return known[1]

    def shown(self, job: Job) -> Forecast | None:
        """The forecast that the job's user is shown."""
        if isinstance(self.current, Forecast):
            return self.current
        if self.expected is None or self.expected[0] is not self.made_of:
            return None
        (_, progress), forecast = self.expected
        return presentable(job, progress, forecast)
