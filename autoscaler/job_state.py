"""What the autoscaler knows and does about one job between two looks at the cluster."""

from dataclasses import dataclass, field, replace
from typing import Final, Self

from autoscaler.log_reading import Run, run_of
from autoscaler.observation import Observation
from autoscaler.rescale import Rescale, resume_from
from autoscaler.rescale_words import End, Outcome, RescaleRecord
from autoscaler.stored import Deeds, Memory, unpack, unpack_rescale
from kube.profiles import ProfileStatus, TrainingProfile
from kube.training_jobs import TrainingJob
from scheduling.allocation import JobHistory
from scheduling.errors import NotReady
from scheduling.interval import Decision
from scheduling.jobs import Counts, Job, RescaleRule
from scheduling.models.predict import JobOutlook
from scheduling.progress.log import ProgressLog
from scheduling.progress.record import TrainingProgress
from scheduling.progress.rules import LogRules

PROFILING_PREFIX: Final = "profiling-"
"""How the id of a rescale begins that only measures a young job's speed."""

TAKE_BACK_PREFIX: Final = "half-placed-"
"""How the id of a rescale begins that takes back a gang of which only a part could be placed."""


def measures(record: RescaleRecord) -> bool:
    """Whether a rescale only measures a young job's speed."""
    return record.id.startswith(PROFILING_PREFIX)


@dataclass(slots=True)
class JobState:
    """One managed job.

    ``seen`` is the job as last observed, ``job`` the valid part of it. ``decision`` is the last interval's, made at
    ``decided_at`` under ``interval_id``. ``stored`` is what the profile shows, without the memory in it.
    ``half_bound_since``: since when some pods, but not all, have a node. ``name_taken_at``: when another job's profile
    was found last to hold the name.
    """

    seen: TrainingJob
    job: Job
    log: ProgressLog
    deeds: Deeds = field(default_factory=Deeds)
    rescale: Rescale | None = None
    run: Run | None = None
    profile: TrainingProfile | None = None
    stored: ProfileStatus | None = None
    stored_at: float | None = None
    decision: Decision | None = None
    interval_id: str = ""
    decided_at: float | None = None
    outlook: JobOutlook | NotReady | None = None
    half_bound_since: float | None = None
    name_taken_at: float | None = None

    @classmethod
    def first_seen(cls, seen: TrainingJob, job: Job, profile: TrainingProfile | None, *, trains: bool = False) -> Self:
        """The state of a job that is new to this process; its profile tells what an earlier one knew.

        ``trains``: some pod of it runs, so that a rescale under way may have to wait for a checkpoint.
        """
        rules = LogRules.of(job)
        if profile is None:
            return cls(seen, job, ProgressLog(rules))
        memory = unpack(profile.status.state, job.key)
        state = cls(seen, job, ProgressLog.from_state(rules, memory.log), memory.deeds)
        state.profile, state.stored = profile, profile.status
        record = unpack_rescale(profile.status.rescale, job.key)
        if record is not None:
            state.rescale = resume_from(record, trains and state.needs_checkpoint(record))
        return state

    def look(self, observation: Observation) -> None:
        """Take in what the caches show of the job now."""
        self.seen = observation.jobs[self.job.uid]
        if self.seen.active is not None:
            if self.seen.active != self.job:
                self.log.rules = LogRules.of(self.seen.active)
            if self.seen.active.goal != self.job.goal:
                # Another goal is not met yet: what was suspended for the old one may go on.
                self.deeds = replace(self.deeds, suspended_at_target=False)
            self.job = self.seen.active
        pods = observation.pods.get(self.job.uid, ())
        self.run = run_of(pods, self.job.counts)
        bound = [pod.node is not None for pod in pods if not pod.leaving and not pod.finished]
        half_bound = any(bound) and not all(bound)
        self.half_bound_since = (self.half_bound_since or observation.at) if half_bound else None

    def needs_checkpoint(self, record: RescaleRecord) -> bool:
        """Whether this rescale has to wait for a checkpoint, if the job trains.

        Not when it only measures a young job's speed, nor when it takes back a gang that never became whole.
        """
        exempt = measures(record) or record.id.startswith(TAKE_BACK_PREFIX)
        return self.job.rescale is RescaleRule.CHECKPOINT and not exempt

    @property
    def memory(self) -> Memory:
        """What the next autoscaler is to know."""
        return Memory(self.log.to_state(), self.deeds)

    @property
    def rescaling_to(self) -> Counts | None:
        """The counts that a rescale under way aims at."""
        return None if self.rescale is None else self.rescale.record.aim

    @property
    def history(self) -> JobHistory:
        """What was done to the job, as decisions need it."""
        return JobHistory(
            rescales=self.deeds.rescales,
            last_rescaled_at=self.deeds.last_rescaled_at,
            rescaling_to=self.rescaling_to,
            profiling_since=self.deeds.profiling_since,
            profiled=self.deeds.profiled,
            unplaceable=self.deeds.unplaceable,
            suspended_at_target=self.deeds.suspended_at_target,
        )

    def progress(self, now: float) -> TrainingProgress:
        """What the log tells of the training so far."""
        return self.log.progress(now)

    def rescale_ended(self, end: End, at: float) -> None:
        """Take note of how a rescale ended."""
        self.rescale = None
        happened = end.outcome in (Outcome.REACHED, Outcome.ROLLED_BACK, Outcome.SUSPENDED)
        is_profiling = measures(end.record)
        reached = end.outcome is Outcome.REACHED
        found_no_place = (end.record.target,) if end.outcome is Outcome.ROLLED_BACK else ()
        self.deeds = replace(
            self.deeds,
            # Profiling runs have a budget of their own and do not count against the cap on rescales.
            rescales=self.deeds.rescales + (happened and not is_profiling),
            last_rescaled_at=at if happened and not is_profiling else self.deeds.last_rescaled_at,
            unplaceable=(*self.deeds.unplaceable, *found_no_place),
            profiling_since=at if is_profiling and reached else None,
            suspended_at_target=end.outcome is Outcome.SUSPENDED,
        )
