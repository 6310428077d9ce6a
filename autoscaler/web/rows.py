"""One row of the page's table of jobs."""

from typing import Final

import msgspec

from autoscaler.web.copies import JobCopy
from optimus.interval import Action
from optimus.jobs import Job
from optimus.kube.contract import NOT_CREATED, Phase
from optimus.kube.errors import Malformed
from optimus.kube.job_kinds import JOB_KINDS
from optimus.kube.profiles import ConditionType, Truth
from optimus.kube.times import LAST_SECONDS, parse_instant
from optimus.kube.waiting_events import JobAhead
from optimus.models.forecast import Forecast, TimeLeft, time_left

_LONGEST: Final = 400
"""Characters of a sentence in the table; the view of the job has all of it."""

_MOST_AHEAD: Final = 3
"""Maximum number of jobs named before one in the queue; the others are counted."""

_ENDED: Final = (Phase.COMPLETED, Phase.FAILED)
_OVER: Final = (*_ENDED, Phase.LEFT_ALONE)
RUNNING: Final = "Running"
NOT_RUNNING: Final = "NotRunning"
"""Where the page shows a phase: a job without a profile, which waits for nobody."""


class Waits(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Why a job waits."""

    text: str
    behind: str = ""
    """The jobs before it in the queue."""

    expected_at: float | None = None
    """When its capacity is expected, where a job is awaited and its end is known."""

    awaits: str = ""
    """The job whose end is waited for."""

    never: bool = False
    """Whether it does not fit even once all others have ended."""


class JobRow(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """One job; instants and durations in seconds."""

    uid: str
    namespace: str
    name: str
    kind: str
    phase: str
    created_at: float
    profile: bool = False
    """Whether it has a TrainingProfile."""

    is_resized: bool = False
    """Whether the counts of jobs of its kind are ever changed."""

    ps: int | None = None
    workers: int | None = None
    replicas: dict[str, int] = {}
    """The number that train in each role of a job without PSs."""

    target_ps: int | None = None
    target_workers: int | None = None
    loss: float | None = None
    metric: str = ""
    goal: str = ""
    deadline: str = ""
    deadline_at: float | None = None
    percent: int | None = None
    speed: float | None = None
    remaining: TimeLeft | None = None
    outlook: str = ""
    """What is to be said of its goal beside the time, or instead of it."""

    ends_at: float | None = None
    action: str = ""
    reason: str = ""
    waits: Waits | None = None
    needs: str = ""
    """Why somebody has to look at it, as a sentence; empty where nobody has to."""

    rank: int = 0
    """The more urgent that is, the lower; 0: nobody has to look."""

    priority: int = 0
    rescales: int = 0
    saved: float | None = None
    """Seconds that moving it has saved against its user's own counts; ``books``: in words."""

    books: str = ""


def row_of(copy: JobCopy) -> JobRow:
    """The row of one job."""
    status, job, phase = copy.status, copy.job, phase_of(copy)
    counts = None if job is None else job.counts
    decided_at = copy.decided_at if copy.decided_at is not None else instant(status.decided_at)
    remaining = None if phase in _OVER else remaining_of(copy)
    waits = _wait_of(copy)
    rank, needs = _needs(copy, phase, waits)
    return JobRow(
        uid=copy.uid,
        namespace=copy.key.namespace,
        name=copy.key.name,
        kind=copy.submitted_kind or copy.kind,
        phase=phase,
        created_at=copy.created_at,
        profile=status.phase is not None,
        is_resized=JOB_KINDS[copy.kind].is_resized,
        ps=status.ps if counts is None else counts.ps,
        workers=status.workers if counts is None else counts.workers,
        replicas=_trainers(job),
        target_ps=status.target_ps,
        target_workers=status.target_workers,
        loss=status.loss,
        metric=status.metric[:_LONGEST],
        goal=status.goal[:_LONGEST],
        deadline=status.deadline[:_LONGEST],
        deadline_at=None if job is None else job.finish_by,
        percent=status.progress_percent,
        speed=status.steps_per_second,
        remaining=remaining,
        outlook=outlook_of(copy),
        ends_at=_end(copy, remaining, decided_at),
        action=_action(copy),
        reason=copy.reason[:_LONGEST],
        waits=waits,
        needs=needs[:_LONGEST],
        rank=rank,
        priority=0 if job is None else job.priority,
        rescales=status.rescales,
        saved=None if status.books is None else status.books.saved_seconds,
        books="" if status.books is None else status.books.text,
    )


def _needs(copy: JobCopy, phase: str, waits: Waits | None) -> tuple[int, str]:
    """Return how urgently somebody has to look at a job, and why."""
    status = copy.status
    reason, outlook = copy.reason, outlook_of(copy)
    if phase in _ENDED:
        return (2, reason or "it has failed") if phase == Phase.FAILED else (0, "")
    is_refused = waits is not None and (waits.never or NOT_CREATED in waits.text)
    is_late = any(part in status.deadline for part in ("at risk", "no counts meet", "has passed"))
    found = (
        (phase == Phase.FAILING, reason),
        (False, ""),  # of one that has failed
        (is_refused, "" if waits is None else waits.text),
        (phase == Phase.LEFT_ALONE, reason),
        (is_late, f"deadline {status.deadline}"),
        ("unlikely" in outlook, outlook),
        (bool(status.complaint), status.complaint),
        (phase == Phase.WAITING_FOR_CHECKPOINT, reason),
        (bool(status.straggler), status.straggler),
        (bool(status.memory_pressure), status.memory_pressure),
        (waits is not None, "" if waits is None else waits.text),
        (phase == Phase.WAITING, reason or "its pods do not exist yet"),
    )
    for rank, (holds, sentence) in enumerate(found, 1):
        if holds:
            return rank, sentence.removeprefix("waits: ")
    return 0, ""


def phase_of(copy: JobCopy) -> str:
    """The phase that is shown: that of its profile, until the job itself says that it has ended."""
    if copy.outcome is not None:
        return Phase.COMPLETED if copy.outcome == "Succeeded" else Phase.FAILED
    if copy.status.phase or copy.failure:
        return copy.status.phase or Phase.FAILING
    if copy.wait is not None:
        return Phase.WAITING
    return RUNNING if any(pod.running for pod in copy.pods) else NOT_RUNNING


def has_ended(copy: JobCopy) -> bool:
    """Return whether the job has completed or failed."""
    return phase_of(copy) in _ENDED


def _trainers(job: Job | None) -> dict[str, int]:
    if job is None or job.counts.ps:
        return {}
    return {role.value: count for role, count in job.trainers.items() if count}


def _action(copy: JobCopy) -> str:
    """The last decision where it was to change something."""
    decision = copy.decision
    return "" if decision is None or decision.action is Action.KEEP else decision.action.value


def instant(text: str | None) -> float | None:
    """Seconds since the epoch; ``None`` where a profile has none that can be read."""
    if text is None:
        return None
    try:
        return parse_instant(text)
    except Malformed:
        return None


def remaining_of(copy: JobCopy) -> TimeLeft | None:
    """The time to the goal, by the forecast or the profile; ``None`` at the goal."""
    if is_goal_met(copy):
        return None
    if copy.job is not None and isinstance(copy.forecast, Forecast):
        return time_left(copy.forecast, copy.job.counts)
    seconds = copy.status.remaining_seconds
    return None if seconds is None else TimeLeft(seconds, seconds, seconds)


def outlook_of(copy: JobCopy) -> str:
    """Return how sure its end is, or why no time to it is known."""
    if phase_of(copy) == Phase.LEFT_ALONE:
        return ""
    if is_goal_met(copy):
        return "goal met"
    if copy.job is None or copy.job.goal is None:
        return "no goal" if copy.status.phase else ""
    if has_ended(copy):
        return "goal not met"
    if isinstance(copy.forecast, Forecast):
        return copy.forecast.unlikely or ("estimated" if copy.forecast.is_expected else "")
    return "" if copy.status.remaining_seconds is not None else "no forecast yet"


def is_goal_met(copy: JobCopy) -> bool:
    """Return whether the job has met its goal, by its forecast or its profile."""
    met = ConditionType.GOAL_MET, Truth.TRUE
    return (
        copy.status.phase is Phase.AT_TARGET
        or (isinstance(copy.forecast, Forecast) and copy.forecast.goal_met)
        or any((condition.type, condition.status) == met for condition in copy.status.conditions)
    )


_STANDS: Final = (
    Phase.WAITING,
    Phase.SUSPENDED,
    Phase.PAUSED,
    Phase.WAITING_FOR_ITS_TURN,
    Phase.AT_TARGET,
)


def _end(copy: JobCopy, remaining: TimeLeft | None, decided_at: float | None) -> float | None:
    """When the goal is expected to be met, if the job trains on as it does; of a job with very many
    epochs an instant that a browser can show."""
    if remaining is None or decided_at is None or copy.status.phase in _STANDS:
        return None
    return min(decided_at + remaining.median, LAST_SECONDS)


def _wait_of(copy: JobCopy) -> Waits | None:
    """Return why the job waits; ``None`` where it does not."""
    reason = copy.status.reason if copy.status.phase is Phase.WAITING else ""
    if copy.wait is not None and NOT_CREATED not in reason:
        wait = copy.wait
        named = [_shown_job(each) for each in wait.ahead[:_MOST_AHEAD]]
        more = wait.jobs_ahead - len(named)
        behind = ", ".join(named) + (f" and {more} more" if named and more > 0 else "")
        expected = instant(wait.expected_at) if wait.awaits else None
        awaits = wait.awaits[:_LONGEST]
        return Waits(wait.text[:_LONGEST], behind[:_LONGEST], expected, awaits, wait.never)
    return Waits(reason[:_LONGEST]) if reason else None


def _shown_job(ahead: JobAhead) -> str:
    nodes = f"{ahead.keeps_nodes} node{'s' if ahead.keeps_nodes != 1 else ''}"
    return f"{ahead.job} ({nodes} kept free)" if ahead.keeps_nodes else ahead.job
