"""Events for users of jobs: why a gang waits, that a job is bound in part, that its
pods are placed one by one.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from extender.gang_report import GangReport, cause, for_users, wait_of
from extender.gang_states import WaitReason, sentence_of
from extender.job_events import JobNotice
from extender.state.extender_state import ExtenderState
from optimus.kube.contract import WAITING_EVENT
from optimus.kube.events import EventType
from optimus.kube.job_kinds import REPLICA_INDEX, REPLICA_TYPE
from optimus.kube.jobsets import WHAT_IS_A_GANG, set_uid
from optimus.kube.pods import Pod

AFTER_SECONDS: Final = 10.0
"""A gang that is placed within this time needs no Event."""

INCOMPLETE_SECONDS: Final = 60.0
"""The training operator creates pods one after the other; a gate may take a while."""

_NOTICE_AFTER: Final = {
    WaitReason.INCOMPLETE: INCOMPLETE_SECONDS,
    WaitReason.NO_ROOM: AFTER_SECONDS,
    WaitReason.NOT_OFFERED: AFTER_SECONDS,
    WaitReason.UNUSED: AFTER_SECONDS,
}
"""The others last for moments."""


def waiting_notices(
    reports: Iterable[GangReport], besides: Collection[str] = (), today: str = ""
) -> Iterator[JobNotice]:
    """A notice for each gang that waits; for the jobs in ``besides`` (UIDs) there is another Event.

    Those that would never fit come with a warning."""
    for report in (for_users(each, today) for each in reports):
        after = None if report.wait is None else _NOTICE_AFTER.get(report.wait)
        if after is None or report.uid in besides:
            continue
        never = report.fits_without_other_jobs is False or report.wait is WaitReason.UNUSED
        yield JobNotice(
            report.kind,
            report.namespace,
            report.job,
            set_uid(report.uid),
            EventType.WARNING if never else EventType.NORMAL,
            WAITING_EVENT,
            report.sentence,
            cause(report),
            after,
            wait_of(report).annotations(),
            gang=report.uid,
        )


def half_placed_notices(state: ExtenderState, after_seconds: float) -> tuple[JobNotice, ...]:
    """The jobs of which a part is bound while the rest fits nowhere, due after a time.

    The autoscaler takes such a job back where it manages it. Other jobs stay so, since the extender
    deletes no pod: their users are told what would help."""
    with state.lock:
        found = (_half_placed(state, uid, after_seconds) for uid in state.cluster.waiting_jobs())
        return tuple(notice for notice in found if notice is not None)


def _half_placed(state: ExtenderState, job_uid: str, after_seconds: float) -> JobNotice | None:
    job = state.cluster.jobs.get(job_uid)
    reason = "" if job is None else _why_not_whole(state, job_uid, str(job.key))
    if job is None or job.managed or not reason:
        return None
    pods = [pod for pod in state.cluster.pods_of(job_uid).values() if not pod.leaving]
    bound = sum(pod.bound() is not None for pod in pods)
    if not bound:
        return None
    message = (
        f"{bound} of {len(pods)} pods are bound and hold their resources; the rest waits: {reason}."
        " Free capacity on the nodes that its pods may use, or suspend and resume the job so that"
        " it is placed again as a whole"
    )
    return JobNotice(
        job.kind,
        job.key.namespace,
        job.key.name,
        set_uid(job_uid),
        EventType.WARNING,
        "HalfPlaced",
        message,
        reason,
        after_seconds,
    )


def _why_not_whole(state: ExtenderState, job_uid: str, job: str) -> str:
    """Return why the rest of a gang is not planned; empty where it is, or is about to be."""
    refusal, not_offered = state.refusals.get(job_uid), state.offers.has_refused(job_uid)
    if refusal is not None and not not_offered:
        return refusal.answer.reason
    if job_uid in state.queue.paused:
        return sentence_of(WaitReason.UNUSED, job)
    return sentence_of(WaitReason.NOT_OFFERED, job) if not_offered else ""


_NOT_RECOGNIZED: Final = (
    f"its pods are placed one by one, not as a gang: the labels {REPLICA_TYPE} and {REPLICA_INDEX}"
    " of pod {name} name no replica. The training operator sets them from version 1.6 on"
)


def unrecognized_notices(state: ExtenderState) -> Iterator[JobNotice]:
    """A notice for each job whose pods are placed one by one, since their labels name no replica.

    Training operators before 1.6 label pods otherwise."""
    with state.lock:
        schedulers = frozenset(state.queue.schedulers)
        every = tuple(next(iter(pods.values())) for pods in state.cluster.unrecognized.values())
    return (_not_recognized(pod) for pod in every if pod.scheduler_name in schedulers)


_NO_GANG_OF_SET: Final = (
    f"pods of it, such as {{name}}, are placed one by one, not as a gang: {WHAT_IS_A_GANG}"
)


def _not_recognized(pod: Pod) -> JobNotice:
    assert pod.owner is not None
    owner, sentence = pod.owner, _NOT_RECOGNIZED if pod.member is None else _NO_GANG_OF_SET
    return JobNotice(
        owner.kind,
        pod.namespace,
        owner.name,
        owner.uid,
        EventType.WARNING,
        "GangNotRecognized",
        sentence.format(name=pod.name),
        cause="",
        after_seconds=0.0,
    )
