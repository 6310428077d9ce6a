"""The report on one gang, as JSON and as a sentence with figures."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from extender.gang_states import GangPhase, WaitReason
from extender.node_places import Places
from optimus.jobs import OF_ANOTHER_NAMESPACE, Role
from optimus.kube.waiting_events import JobAhead, Wait
from optimus.resources import CPU, MEMORY, PODS

EPHEMERAL_STORAGE: Final = "ephemeral-storage"
HUGE_PAGES: Final = "hugepages-"
"""Prefix of the resources that are, as memory is, amounts of bytes."""

_MOST_NAMED: Final = 3
"""Maximum number of jobs, pods or nodes named in a sentence; the others are counted."""


class RoleReport(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The replicas of one role."""

    role: Role
    expected: int
    exist: int
    gated: int
    bound: int
    lacking: int = 0
    """How many of those without a node lack a place."""

    request: Mapping[str, int] = msgspec.field(default_factory=dict)
    """What one asks for: CPU in millicores, memory in bytes."""

    places: Places | None = None
    """How many nodes hold one; only while the gang waits."""


class Expectation(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """When there will be capacity for a gang, by the forecasts of the jobs that run."""

    at: str | None
    """``None`` where the end of the job that is waited for is not known, or is overdue."""

    awaits: str = ""
    """The job whose end is waited for longest."""

    nodes: tuple[str, ...] = ()


class GangReport(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One gang. Jobs are NAMESPACE/NAME, instants RFC 3339, durations seconds."""

    namespace: str
    job: str
    kind: str
    uid: str
    priority: int
    state: GangPhase
    wait: WaitReason | None = None
    sentence: str = ""
    """Why it waits, with figures."""

    whole: bool = False
    missing: tuple[str, ...] = ()
    """Replicas without a pod, as ``worker-3``; the first of them, where there are many."""

    other_schedulers: tuple[str, ...] = ()
    """The schedulers that its other pods name, which place them without this process."""

    gates: tuple[str, ...] = ()
    """Scheduling gates of its pods."""

    roles: tuple[RoleReport, ...] = ()
    nodes: Mapping[str, str] = msgspec.field(default_factory=dict)
    """By replica, where it is bound or planned."""

    since: str | None = None
    waited_seconds: float = 0.0
    backs_off_seconds: float | None = None
    position: int | None = None
    """In the queue, from 1."""

    ahead: tuple[JobAhead, ...] = ()
    jobs_ahead: int = 0
    keeps_nodes: tuple[str, ...] = ()
    """Nodes that are closed for the gangs behind this one."""

    fits_without_other_jobs: bool | None = None
    """Whether it fits once every job that runs has ended; only while it waits."""

    expected: Expectation | None = None
    victims: tuple[str, ...] = ()
    """The jobs that make room for it now."""

    preempted_for: str = ""
    """The job that it is suspended for."""

    rules: tuple[str, ...] = ()
    """What keeps it from nodes that have the capacity: ``pod anti-affinity``, ``host ports``."""

    reason: str = ""
    """The sentence without figures."""


class CacheReport(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The copy of one kind of object."""

    kind: str
    objects: int
    synced: bool
    """Whether it has been listed whole once."""

    silent_seconds: float
    """Since the API server's last answer."""

    failure: str | None = None
    """Why it cannot be refreshed now."""


class Inspection(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The answer of GET /inspect."""

    at: str
    leads: bool
    """Whether this process plans gangs."""

    leader: str
    """Who held kube-scheduler's Lease when it was last read."""

    not_ready: str | None
    caches: tuple[CacheReport, ...]
    gangs: tuple[GangReport, ...]


def wait_of(report: GangReport) -> Wait:
    """Return what others than people read of a report."""
    if report.fits_without_other_jobs is False:
        return Wait(text=report.sentence, never=True, rules=report.rules)
    expected = report.expected or Expectation(at=None)
    return Wait(
        text=report.sentence,
        ahead=report.ahead,
        jobs_ahead=report.jobs_ahead,
        awaits=expected.awaits,
        expected_at=expected.at,
        rules=report.rules,
    )


def for_users(report: GangReport, today: str = "") -> GangReport:
    """The report as users of its namespace read it: without the names of others' jobs."""

    def seen(job: str) -> str:
        is_own = job.startswith(f"{report.namespace}/")
        return job if is_own or not job else OF_ANOTHER_NAMESPACE

    nodes = Counter[str]()
    for each in report.ahead:
        nodes[seen(each.job)] += each.keeps_nodes
    expected = report.expected
    if expected is not None:
        expected = msgspec.structs.replace(expected, awaits=seen(expected.awaits))
    found = msgspec.structs.replace(
        report,
        ahead=tuple(JobAhead(job, count) for job, count in nodes.items()),
        expected=expected,
        victims=tuple(dict.fromkeys(map(seen, report.victims))),
        preempted_for=seen(report.preempted_for),
    )
    return msgspec.structs.replace(found, sentence=sentence(found, today))


# --- as a sentence


def sentence(report: GangReport, today: str = "") -> str:
    """Why a gang waits, with figures, for its user. Instants of another day than ``today``, a date
    in UTC, are given with their day; without ``today`` none is."""
    match report.state:
        case GangPhase.WAITING if is_decided(report):
            parts = [
                _what_lacks(report),
                _behind(report),
                _since(report, today),
                _until(report),
            ]
            return "waits: " + "; ".join(part for part in parts if part)
        case GangPhase.INCOMPLETE:
            return "; ".join(filter(None, (_incomplete(report), _since(report, today))))
        case GangPhase.PLANNED if report.wait is WaitReason.PREEMPTING:
            whose = _named(report.victims, "jobs")
            return f"waits for the end of the pods of {whose}, whose room is reserved for it"
        case GangPhase.PLANNED | GangPhase.BINDING:
            nodes = _named(sorted({*report.nodes.values()}), "nodes")
            doing = "is planned on" if report.state is GangPhase.PLANNED else "is being bound to"
            return f"{doing} {nodes}"
        case GangPhase.RUNNING:
            return "all its pods have a node"
        case GangPhase.SUSPENDED if report.preempted_for:
            return f"is paused for {report.preempted_for}, and is resumed by itself"
        case GangPhase.SUSPENDED:
            return "is suspended, by its field suspend"
        case _:
            return report.reason


def cause(report: GangReport) -> tuple[object, ...]:
    """Equal in two reports of one gang that differ in their figures alone."""
    lacks = tuple((each.role, *_limit(each)) for each in report.roles if each.lacking)
    return is_decided(report), report.reason, lacks, report.gates


def is_decided(report: GangReport) -> bool:
    """Return whether a gang has its place in the queue."""
    return report.state is GangPhase.WAITING and report.wait is not WaitReason.UNUSED


def _what_lacks(report: GangReport) -> str:
    lacking = [_lacking(each) for each in report.roles if each.lacking]
    if lacking:
        return ", ".join(lacking)
    if report.wait is WaitReason.NO_ROOM and report.rules:
        rules = ", ".join(report.rules)
        return f"there is capacity for its pods, but not on nodes that its rules allow ({rules})"
    return report.reason


def _lacking(role: RoleReport) -> str:
    lacking, (limit, text) = role.lacking, _limit(role)
    noun = _plural(role.role, lacking)
    asks = amounts({limit: role.request[limit]}) if limit else ""
    of = f" of {asks}" if asks else ""
    return f"{lacking} {noun}{of} lack{'s' if lacking == 1 else ''} a place ({text})"


def _limit(role: RoleReport) -> tuple[str, str]:
    """The resource that limits the places of a role, and how many nodes hold one."""
    places = role.places
    if places is None:
        return "", ""
    if not places.admit_it:
        return "", "no node admits one: see its node selector, affinity and tolerations"
    if places.not_offered:
        limit = places.not_offered[0]
        return limit, (
            f"no node offers {limit}: a resource that another extender accounts for is to be named"
            " in OPTIMUS_IGNORED_RESOURCES"
        )
    limit = next(iter(places.short_of), "")
    if not places.hold_it_empty:
        short = f": too much {limit} is asked for" if limit else ""
        return limit, f"none of {places.admit_it} nodes holds one even when empty{short}"
    short = f"; {limit} is short" if limit else ""
    return limit, f"{places.hold_it_now} of {places.admit_it} nodes hold one{short}"


def _behind(report: GangReport) -> str:
    if not report.jobs_ahead or report.fits_without_other_jobs is False:
        return ""  # whoever never fits waits behind nobody
    names = [each.job for each in report.ahead]
    keepers = [each for each in report.ahead if each.keeps_nodes]
    if keepers:
        kept = ", ".join(f"{each.job} ({each.keeps_nodes} nodes)" for each in keepers)
        return f"behind {kept}, for which nodes are kept free"
    return f"behind {_named(names, 'jobs', report.jobs_ahead)}"


def _since(report: GangReport, today: str) -> str:
    return f"since {_clock(report.since, today)}" if report.since else ""


def _until(report: GangReport) -> str:
    """Return what has to happen. The time is not said: the sentence is stored, and read when it has
    passed."""
    if report.fits_without_other_jobs is False:
        return "it does not fit even once all training jobs have ended"
    awaits = "" if report.expected is None else report.expected.awaits
    return f"until {awaits} ends" if awaits else ""


def _incomplete(report: GangReport) -> str:
    if not report.missing:
        return report.reason
    expected = sum(each.expected for each in report.roles)
    count = max(expected - sum(each.exist for each in report.roles), len(report.missing))
    missing = _named(report.missing, "pods", count)
    return f"waits for {count} of {expected} pods that do not exist: {missing}"


def _named(names: Sequence[str], what: str, count: int | None = None) -> str:
    count, first = count or len(names), ", ".join(names[:_MOST_NAMED])
    more = count - min(len(names), _MOST_NAMED)
    return f"{first} and {more} more {what}" if more > 0 else first


def _plural(role: Role, count: int) -> str:
    if role is Role.PS:
        return "PS"
    return f"{role}s" if count != 1 else str(role)


def _clock(instant: str, today: str) -> str:
    """An RFC 3339 instant in UTC to the minute; with the date where that is not today."""
    date = f"{instant[:10]} " if today and instant[:10] != today else ""
    return f"{date}{instant[11:16]} UTC"


def amounts(request: Mapping[str, int]) -> str:
    """Amounts as Kubernetes writes them: ``2.5 cpu``, ``4Gi memory``."""
    return ", ".join(
        _amount(name, value) for name, value in sorted(request.items()) if name != PODS
    )


def _amount(name: str, value: int) -> str:
    if name == CPU:
        return f"{value / 1000:g} {name}"
    if name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith(HUGE_PAGES):
        for unit, size in (("Gi", 2**30), ("Mi", 2**20)):
            if value >= size:
                return f"{value / size:.4g}{unit} {name}"
    return f"{value} {name}"
