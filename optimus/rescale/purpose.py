"""The purpose of a rescale, and the reasons why its user may not want it any more."""

from enum import StrEnum

from optimus.jobs import NO_COUNTS, AtTarget, Counts, Job, Manage, RescaleRule


class RescalePurpose(StrEnum):
    """The purpose of a rescale.

    ``after-profiling`` ends the profiling of a job whose log shows no checkpoints, ``admission`` is
    the first one of a new job whose speed is known from earlier runs of its workload, ``take-back``
    stops and resumes a gang of which only a part was placed, ``restart`` one whose replicas were
    changed while it ran, ``straggler`` one of which a worker is far slower than the others,
    ``recovery`` ends a suspension of which nothing else is recorded, ``preemption`` pauses a job
    for a gang of a higher priority, ``turn`` pauses, resumes or moves a job by a policy by which
    jobs take turns.
    """

    INTERVAL = "interval"
    PROFILING = "profiling"
    EXPLORATION = "exploration"
    AFTER_PROFILING = "after-profiling"
    ADMISSION = "admission"
    TAKE_BACK = "take-back"
    RESTART = "restart"
    STRAGGLER = "straggler"
    RECOVERY = "recovery"
    PREEMPTION = "preemption"
    TURN = "turn"

    def id_of(self, interval_id: str) -> str:
        """The id of a rescale, as written in the job's annotation; it begins with the purpose."""
        return interval_id if self is RescalePurpose.INTERVAL else f"{self}-{interval_id}"

    @property
    def measures(self) -> bool:
        """Return whether the job is moved only to measure its speed."""
        return self in {RescalePurpose.PROFILING, RescalePurpose.EXPLORATION}

    @property
    def is_urgent(self) -> bool:
        """Return whether the job is lost or stays stopped without it, or a gang of a higher
        priority waits for it: no budget of stopped jobs holds it back."""
        return self in {
            RescalePurpose.TAKE_BACK,
            RescalePurpose.RESTART,
            RescalePurpose.RECOVERY,
            RescalePurpose.PREEMPTION,
        }

    @property
    def is_disruption(self) -> bool:
        """Return whether a job that is stopped for it counts as one in the disruption budget: a
        turn is what its policy owes the other jobs, and has a limit of its own."""
        return self is not RescalePurpose.TURN

    @property
    def is_chosen(self) -> bool:
        """Return whether it is made for speed: it counts against the rate of a job's rescales.
        Profiling runs have a limit of their own."""
        return self in {
            RescalePurpose.INTERVAL,
            RescalePurpose.EXPLORATION,
            RescalePurpose.AFTER_PROFILING,
            RescalePurpose.ADMISSION,
            RescalePurpose.STRAGGLER,
        }

    @property
    def needs_checkpoint(self) -> bool:
        """Return whether ``rescale: checkpoint`` applies: not where little or no training is lost,
        as profiling is limited to a job's first minutes, where all of it may be lost, or where a
        gang of a higher priority waits."""
        return self not in {
            RescalePurpose.PROFILING,
            RescalePurpose.AFTER_PROFILING,
            RescalePurpose.ADMISSION,
            RescalePurpose.TAKE_BACK,
            RescalePurpose.RESTART,
            RescalePurpose.PREEMPTION,
        }


def why_unwanted(job: Job, counts: Counts, *, goal_changed: bool) -> str | None:
    """Return why a job must not be rescaled to these counts any more, as its user has changed its
    annotations; ``None`` if it may be."""
    if not job.managed:
        return job.left_alone or "its user has ended its management"
    if job.rescale is RescaleRule.NEVER:
        return "its rescale annotation now says never"
    if job.paused or job.manage is Manage.RECOMMEND:
        return "its user has paused it" if job.paused else "its manage annotation says recommend"
    if counts == NO_COUNTS:
        stays = goal_changed or job.at_target is not AtTarget.SUSPEND
        return "its user changed its goal, or what happens there" if stays else None
    return None if job.bounds.allow(counts) else f"its bounds do not allow {counts} any more"
