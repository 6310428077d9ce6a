"""The Events on one job and on its pods, for the page: two bounded reads, however many pods it has.

Events on the pods come from one list of the namespace, read up to a limit. Deleted pods have no
object any more, but their Events are kept for an hour, and say why they were deleted; they are
found by the operator's names.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Protocol

from optimus.jobs import JobKey
from optimus.kube.client import path_of
from optimus.kube.errors import KubeError, Malformed
from optimus.kube.events import LONGEST_MESSAGE
from optimus.kube.job_kinds import JOB_KINDS
from optimus.kube.list_watch import decode_page, decoded
from optimus.kube.pods import Pod
from optimus.kube.times import instant_of
from optimus.kube.waiting_events import EventFacts, decode_event

READ_SECONDS: Final = 5.0
MOST_EVENTS: Final = 100
"""The most Events that are shown of the job, and of its pods; as many as ``_PAGE`` are read, since
a list is in the order of names."""

_PAGE: Final = 500
MOST_EVENT_BYTES: Final = 1 << 20


class BoundedSource(Protocol):
    """The part of ``optimus.kube.client.Client`` that is needed; see there."""

    def get(
        self,
        what: str,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        read_seconds: float | None = None,
        most_bytes: int | None = None,
    ) -> bytes:
        """The body of a GET."""


@dataclass(frozen=True, slots=True)
class DisplayedJob:
    """The job that is looked at, with its present pods; ``created_at`` in seconds since the
    epoch, UTC."""

    kind: str
    key: JobKey
    uid: str
    created_at: float
    pods: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class JobEvents:
    """The Events, the newest first. ``problems`` say what could not be read."""

    events: tuple[EventFacts, ...]
    problems: tuple[str, ...] = ()


def read_job_events(client: BoundedSource, job: DisplayedJob) -> JobEvents:
    """The last Events on a job and on its pods."""
    problems = list[str]()
    cut = (
        f"namespace {job.key.namespace} has more than {_PAGE} Events on pods: those of some of the"
        " job's pods may be missing"
    )
    on_job = _list(client, f"on {job.key}", job.key, f"uid={job.uid}", problems)
    on_pods = _list(client, f"on the pods of {job.key}", job.key, "kind=Pod", problems, cut)
    found = _last(on_job) + _last(_own(on_pods, job))
    newest = sorted(found, key=attrgetter("last_at"), reverse=True)
    return JobEvents(tuple(_shortened(each) for each in newest), tuple(problems))


def _list(
    client: BoundedSource, what: str, key: JobKey, about: str, problems: list[str], cut: str = ""
) -> list[EventFacts]:
    """Events by a selector on their object; what cannot be read, and ``cut`` where there are more,
    is added to ``problems``."""
    what, path = f"list the Events {what}", path_of("", "v1", "events", key.namespace)
    query = [("fieldSelector", f"involvedObject.{about}"), ("limit", str(_PAGE))]
    try:
        page = decode_page(client.get(what, path, query, READ_SECONDS, MOST_EVENT_BYTES))
    except (KubeError, Malformed) as error:
        problems.append(str(error))
        return []
    if cut and page.metadata.next_page:
        problems.append(cut)
    return decoded(page.items or (), decode_event, problems)


def _own(events: Iterable[EventFacts], job: DisplayedJob) -> list[EventFacts]:
    """The Events on the job's pods, and since it was created on pods that had the names of its
    pods."""
    roles = "|".join(JOB_KINDS[job.kind].roles)
    name = re.compile(rf"{re.escape(job.key.name)}-(?:{roles})-\d+")
    uids = {pod.uid for pod in job.pods}
    return [
        event
        for event in events
        if event.about_uid in uids
        or (name.fullmatch(event.about) and (instant_of(event.last_at) or 0.0) >= job.created_at)
    ]


def _last(events: Iterable[EventFacts]) -> list[EventFacts]:
    """The newest, warnings before others: each start of a pod brings four that nobody looks for."""
    by_weight = sorted(
        events, key=lambda event: (event.type == "Warning", event.last_at), reverse=True
    )
    return by_weight[:MOST_EVENTS]


def _shortened(event: EventFacts) -> EventFacts:
    return EventFacts(
        event.about[:253],
        event.type[:20],
        event.reason[:128],
        event.message[:LONGEST_MESSAGE],
        event.last_at,
        event.count,
        event.component[:128],
    )
