"""What a job's users are told of its stops: whether it saves, and how long its pods take to end."""

from typing import Final

from autoscaler.jobs.state import JobState
from autoscaler.profile.events import JobEvent
from optimus.kube.contract import Annotation
from optimus.kube.events import EventType
from optimus.kube.training_jobs import TrainingJob
from optimus.progress.types import RunStart
from optimus.rescale.words import End

_DEFAULT_GRACE_SECONDS: Final = 30
"""``terminationGracePeriodSeconds`` of a pod that names none."""

_SAVES: Final = JobEvent(
    EventType.NORMAL,
    "SavesOnStop",
    "two stops in a row lost no training: it saves when it is stopped. From now on it is rescaled "
    f'at any time, without a wait for a checkpoint; {Annotation.SAVES_ON_STOP}: "false" ends that',
)


def saving_event(state: JobState, start: RunStart | None, *, trusted: bool) -> JobEvent | None:
    """What a stop has shown of a job that was, or was not, ``trusted`` to save."""
    if state.saves_on_stop and not trusted:
        return _SAVES
    if not trusted or start is None or not start.lost:
        return None
    then = "its rescales wait for a checkpoint again"
    if state.saves_on_stop:
        then = f"if the next stop loses training too, {then}"
    lost = f"{start.lost_steps} steps were lost in its last stop, although it is to save then"
    return JobEvent(EventType.WARNING, "DidNotSave", f"{lost}; {then}")


def slow_stop_event(job: TrainingJob, end: End) -> JobEvent | None:
    """A warning where some of the job's pods took their whole grace period to end."""
    periods = [each.spec.termination_grace_period_seconds for each in job.templates.values()]
    seconds = max((_DEFAULT_GRACE_SECONDS if each is None else each for each in periods), default=0)
    if not seconds or end.stop_seconds is None or end.stop_seconds < seconds:
        return None
    message = (
        f"its pods took their whole grace period of {seconds} s to end: most likely a process "
        "ignores SIGTERM, as a shell script does that is process 1 of its container; begin the "
        "script's last line with exec"
    )
    return JobEvent(EventType.WARNING, "StopsSlowly", message)
