"""Events for the users of gangs that wait for nodes."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from extender.gang_report import GangReport, cause, wait_of
from extender.gang_states import GangState
from extender.job_events import Notice
from optimus.kube.contract import WAITING_EVENT
from optimus.kube.events import EventType

AFTER_SECONDS: Final = 10.0
"""A gang that is placed within this time needs no Event."""

INCOMPLETE_SECONDS: Final = 60.0
"""The training operator creates pods one after the other; a gate may take a while."""

_NOTICE_AFTER: Final = {
    GangState.INCOMPLETE: INCOMPLETE_SECONDS,
    GangState.WAITING: AFTER_SECONDS,
    GangState.BACKING_OFF: AFTER_SECONDS,
    GangState.PAUSED: AFTER_SECONDS,
}
"""The other states last for moments."""


def waiting_notices(
    reports: Iterable[GangReport], besides: Collection[str] = ()
) -> Iterator[Notice]:
    """A notice for each gang that waits; for the jobs in ``besides`` (UIDs) there is another Event.

    Those that would never fit come with a warning."""
    for report in reports:
        after = _NOTICE_AFTER.get(report.state)
        if after is None or report.uid in besides:
            continue
        never = report.fits_without_other_jobs is False or report.state is GangState.PAUSED
        yield Notice(
            report.kind,
            report.namespace,
            report.job,
            report.uid,
            EventType.WARNING if never else EventType.NORMAL,
            WAITING_EVENT,
            report.sentence,
            cause(report),
            after,
            wait_of(report).annotations(),
        )
