"""One job of a cluster as the commands show it: its profile, and the forecast that its saved state
gives."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from optimus.errors import NotReady
from optimus.jobs import Counts, Job
from optimus.kube.contract import Phase
from optimus.kube.job_kinds import JOB_KINDS
from optimus.kube.profiles import ProfileStatus
from optimus.kube.times import format_second, instant_of
from optimus.kube.training_jobs import TrainingJob
from optimus.resources import CPU, PODS, Resources
from optimus.times import clock

if TYPE_CHECKING:  # loaded where a profile stores training: they take as long as all else
    from optimus.cli.job_facts import JobSource
    from optimus.kube.profile_codec import Learned
    from optimus.lifecycle import JobRecord
    from optimus.models.forecast import Forecast

NOT_MANAGED = "NotManaged"
"""Shown for the phase of a job without a goal, which is only placed."""

NO_PROFILE = "NoProfile"
"""Shown for the phase of a job that asks to be managed and has no profile yet."""

NOT_READABLE = "NotReadable"
"""Shown for the phase of a job whose profile its reader may not read."""

_NO_END = (
    Phase.WAITING,
    Phase.SUSPENDED,
    Phase.PAUSED,
    Phase.WAITING_FOR_ITS_TURN,
    Phase.AT_TARGET,
    Phase.COMPLETED,
    Phase.FAILED,
    Phase.LEFT_ALONE,
)


@dataclass(frozen=True, slots=True)
class ExpectedEnd:
    """When the goal is expected to be met, in seconds since the epoch."""

    at: float
    low: float | None = None
    high: float | None = None
    """The ends of the 80 % interval; ``None`` where the profile has only the median."""
    unlikely: str = ""
    """``goal unlikely: 3 %`` where it is the end of the run that is expected, and not its goal."""

    def text(self, now: float) -> str:
        """``12:40 (12:31 to 13:05)``, or ``12:40 (goal unlikely: 3 %)``, UTC."""
        if self.unlikely:
            return f"{clock(self.at, now)} ({self.unlikely})"
        if self.low is None or self.high is None:
            return clock(self.at, now)
        return f"{clock(self.at, now)} ({clock(self.low, now)} to {clock(self.high, now)})"

    def value(self) -> dict[str, object]:
        """For programs."""
        low, high = (
            None if each is None else format_second(each) for each in (self.low, self.high)
        )
        unlikely = {"unlikely": self.unlikely} if self.unlikely else {}
        return {"median": format_second(self.at), "low": low, "high": high, **unlikely}


@dataclass(frozen=True)
class ClusterJob:
    """A job, its profile (``None``: there is none), and what its pods take of nodes (``None``: not
    known); ``now`` in seconds since the epoch."""

    training_job: TrainingJob
    profile: ProfileStatus | None
    held: Resources | None
    now: float
    profile_was_read: bool = True
    """Whether ``None`` for the profile means that there is none."""
    failure: str = ""
    """Why its pods do not run as they should, by their status."""

    @property
    def job(self) -> Job | None:
        """The valid part of the job."""
        return self.training_job.job

    @property
    def status(self) -> ProfileStatus:
        """The profile's status; empty without a profile."""
        return self.profile or ProfileStatus()

    @property
    def is_managed(self) -> bool:
        """Whether its user has set a goal, so that it is to have a profile."""
        asks = self.training_job.left_alone is not None or bool(self.training_job.problems)
        has_goal = asks or (self.job is not None and self.job.goal is not None)
        return has_goal and JOB_KINDS[self.training_job.kind].is_resized

    @property
    def unmanaged_text(self) -> str:
        """Why it is not managed, and what tells when it ends."""
        job = self.training_job
        why = f"a {job.submitted_kind} is never resized"
        if JOB_KINDS[job.kind].is_resized:
            sets = "the annotation optimus.dl/target-loss or optimus.dl/target sets one"
            why = f"it has no goal: {sets}"
        told = f"optimus advise {job.name} tells by its log when it ends"
        return f"it is only placed, as {why}; {told}"

    @property
    def phase(self) -> str:
        """The phase in its profile, unless its pods fail by now; without a profile why there is
        none."""
        trains = self.status.phase in (None, Phase.TRAINING, Phase.PROFILING, Phase.WAITING)
        if self.failure and trains and not self.is_over:
            return str(Phase.FAILING)
        if self.status.phase is not None:
            return str(self.status.phase)
        outcome = self.training_job.outcome
        if outcome is not None:
            return str(Phase.COMPLETED if outcome == "Succeeded" else Phase.FAILED)
        if not self.is_managed:
            return NOT_MANAGED
        return NO_PROFILE if self.profile_was_read else NOT_READABLE

    @property
    def reason(self) -> str:
        """Why it stands where it does; what its pods' status knows comes first."""
        told = self.status.reason or self.training_job.left_alone or self.training_job.message
        says_more = self.failure.partition(":")[0] in told
        return told if says_more else "; ".join(filter(None, (self.failure, told)))

    @property
    def counts(self) -> Counts | None:
        """Its present PSs and workers."""
        if self.job is not None:
            return self.job.counts
        if self.status.ps is None or self.status.workers is None:
            return None
        return Counts(self.status.ps, self.status.workers)

    @property
    def size(self) -> str:
        """Its counts; of a job without PSs all that trains: ``1 master + 3 workers``."""
        return str(self.counts) if self.job is None else self.job.size

    @property
    def is_paused(self) -> bool:
        """Whether its user has paused it."""
        return self.job is not None and self.job.paused

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.training_job.outcome is not None

    @cached_property
    def learned(self) -> "Learned | None":
        """What its profile stores of its training."""
        if self.job is None or self.status.state is None:
            return None
        from optimus.kube.profile_codec import learned

        return learned(self.status.state, self.job, self.now)

    @property
    def record(self) -> "JobRecord | None":
        """What was done to it, where its profile stores that."""
        return None if self.learned is None else self.learned.record

    @property
    def forecast(self) -> "Forecast | NotReady | None":
        """The forecast that its own losses and speeds give."""
        return None if self.learned is None else self.learned.forecast

    @property
    def forecast_at(self) -> float:
        """Until when the training is known on which the forecast rests."""
        samples = () if self.learned is None else self.learned.progress.samples
        newest = max((sample.at for sample in samples), default=0.0)
        return max(newest, instant_of(self.status.decided_at) or 0.0) or self.now

    @property
    def trains(self) -> bool:
        """Whether the job goes on, so that its goal is to be met."""
        phase = self.status.phase
        return phase is not None and phase not in _NO_END and not self.is_over

    @property
    def end(self) -> ExpectedEnd | None:
        """When its goal is expected to be met at its present counts, as its profile says; ``None``
        where that is not known, or has passed."""
        status, decided_at = self.status, instant_of(self.status.decided_at)
        if not self.trains or status.remaining_seconds is None or decided_at is None:
            return None
        at = decided_at + status.remaining_seconds
        told = (each.message for each in status.conditions if each.reason == "GoalUnlikely")
        unlikely = next(told, "").partition(";")[0]
        return ExpectedEnd(at, unlikely=unlikely) if at > self.now else None

    @cached_property
    def fitted_end(self) -> ExpectedEnd | None:
        """The same with the interval that its own losses and speeds give, where they do."""
        found, job = self.forecast, self.job
        # With earlier runs the profile's figure rests on runs of other jobs, too.
        is_own = self.trains and not self.status.earlier_runs
        if not is_own or job is None or isinstance(found, NotReady | None):
            return self.end
        from optimus.models.forecast import time_left

        left, since = time_left(found, job.counts), self.forecast_at
        if left is None or since + left.median <= self.now:
            return None if left else self.end
        return ExpectedEnd(since + left.median, since + left.low, since + left.high, found.unlikely)

    def value(self) -> dict[str, object]:
        """One job of a list, for programs."""
        job, status, counts = self.training_job, self.status, self.counts
        return {
            "namespace": job.namespace,
            "name": job.name,
            "kind": job.submitted_kind,
            "phase": self.phase,
            "reason": self.reason,
            "ps": counts and counts.ps,
            "workers": counts and counts.workers,
            "trainers": self.job and sum(self.job.trainers.values()),
            "targetPs": status.target_ps,
            "targetWorkers": status.target_workers,
            "loss": status.loss,
            "metric": status.metric or None,
            "goal": status.goal or None,
            "deadline": status.deadline or None,
            "progressPercent": status.progress_percent,
            "stepsPerSecond": status.steps_per_second,
            "end": None if self.end is None else self.end.value(),
            "decidedAt": status.decided_at,
            "rescales": status.rescales,
            "savedSeconds": None if status.books is None else status.books.saved_seconds,
            "paused": self.is_paused,
            "held": None if self.held is None else amounts_value(self.held),
        }


def view_of(client: "JobSource", namespace: str, name: str) -> ClusterJob:
    """The job and its profile, without its pods."""
    from optimus.cli.job_facts import JobReader

    facts = JobReader(client).job_and_profile(namespace, name)
    return ClusterJob(facts.job, facts.profile, None, facts.now)


def amounts_value(held: Resources) -> dict[str, int | float]:
    """Amounts for programs: CPU in cores, memory in bytes."""
    return {
        name: each / 1000 if name == CPU else each for name, each in held.items() if name != PODS
    }
