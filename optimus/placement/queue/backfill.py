"""Conservative backfill: which nodes are closed for the gangs behind one that waits too long.

A gang that is past the age limit, or bound in part, so that it holds nodes for nothing, and that
does not fit gets a plan on the cluster as it will be: running jobs end by the forecasts in their
profiles, jobs without a forecast after all others. Only the nodes of that plan are closed, so that
room gathers on them; the gangs behind use all other nodes, and these too where their own forecast
ends before the planned begin. A gang that would not fit after the end of all jobs closes nothing.
Nor does one that is kept from its nodes by rules of pods, or that has waited for long for a job of
which no end is known: others would wait for ever.

Running jobs change all the time. So they are read once a minute, and a plan is kept while its nodes
would still have the room; otherwise room would gather now here, now there.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import Final, NamedTuple, Protocol

from optimus.jobs import JobKey
from optimus.nodes import Node
from optimus.placement.capacity import Capacity
from optimus.placement.gang import Gang, GangRule, Placement
from optimus.placement.queue.order import Instant
from optimus.resources import NONE, Resources

READ_SECONDS: Final = 60.0
"""How long what was read of the running jobs is used."""

_READ_AGAIN_SECONDS: Final = 5.0
"""It is read again sooner for a gang that has no plan yet; not more often than this."""

MAX_CLOSING: Final = 16
"""Maximum number of gangs that close nodes: one of each namespace, then the second of each, and so
on. Further ones wait without."""

ENDLESS_SECONDS: Final = 3600.0
"""How long gangs close nodes while they wait for a job of which no end is known."""


class JobUsage(NamedTuple):
    """What a job takes of the nodes until it ends."""

    key: JobKey
    amounts: dict[str, Resources]
    """By node."""


class RunningJobs(NamedTuple):
    """What takes capacity of the cluster and will end, and what is left beside it, at one time."""

    nodes: Sequence[Node]
    left: Mapping[str, Resources]
    """By node."""

    usage: Mapping[str, JobUsage]
    """By job UID."""

    ends_at: Mapping[str, float]
    """By job UID, when its forecast has it end (epoch, seconds)."""


class ClusterReader(Protocol):
    """Reads more of the cluster, under the lock, where a plan needs it."""

    def running_jobs(self) -> RunningJobs:
        """Return what will end, and what is left beside it."""
        ...

    def with_surroundings(self, gang: Gang) -> Gang:
        """The gang with what other pods mean for it and the kinds of nodes that it prefers."""
        ...


@dataclass(frozen=True, slots=True)
class FuturePlan:
    """Where a gang will be placed, and when at the earliest."""

    amounts: Mapping[str, Resources]
    """What it needs, by node."""

    begins_at: float
    """When the last forecast ends that it waits for (epoch, seconds)."""

    awaits: str = ""
    """The UID of the job that it waits for longest, if it waits for the end of any."""

    awaited: JobKey | None = None
    """The same by namespace and name."""

    is_predicted: bool = True
    """Whether all jobs that it waits for have a forecast; otherwise it may begin any time later."""

    closes: bool = True
    """Whether the gang closes nodes until then."""

    @property
    def nodes(self) -> Collection[str]:
        """The nodes that are closed for the gangs behind it."""
        return self.amounts.keys() if self.closes else ()


class _JobEnding(NamedTuple):
    """A job that will end, and what it gives back by node."""

    at: float
    job_uid: str
    amounts: Mapping[str, Resources]
    key: JobKey


@dataclass(frozen=True, slots=True)
class _Future:
    """The cluster as it will be, read at one time."""

    read_at: float
    endings: Sequence[_JobEnding]
    """In the order in which jobs end."""

    left: Capacity
    """What was left when it was read."""

    emptied: Capacity
    """What is left once all jobs have ended."""


class _KnownPlan(NamedTuple):
    read_at: float
    gang: Gang
    plan: FuturePlan | None


class Backfill:
    """The future plans of gangs that wait. Belongs to the planner's thread."""

    def __init__(self, rule: GangRule) -> None:
        self._rule = rule
        self._known: dict[str, _KnownPlan] = {}
        self._future: _Future | None = None
        self._may_close: set[str] = set()
        self._endless_since: dict[str, float] = {}
        """By UID of a job of which no end is known, since when others close nodes until it ends."""

    def begin(self, waiting: Iterable[Gang], now: Instant) -> None:
        """Another walk down the queue: the gangs, in order, that may ask for a plan."""
        self._may_close = _in_turn(waiting)
        for job_uid in self._known.keys() - self._may_close:
            del self._known[job_uid]
        if self._future is not None and now.monotonic - self._future.read_at >= READ_SECONDS:
            self._future = None

    def may_close(self, job_uid: str) -> bool:
        """Return whether a gang may close nodes in this walk."""
        return job_uid in self._may_close

    def future_plan(
        self,
        gang: Gang,
        closed: Collection[str],
        now: Instant,
        reader: ClusterReader,
    ) -> FuturePlan | None:
        """The plan of a gang that does not fit; ``None`` where it would close nodes for nothing.

        ``closed`` are the nodes that gangs before it wait for."""
        if not self.may_close(gang.job_uid):
            return None
        plan = self._current_plan(gang, closed, now, reader)
        return None if plan is None else self._bounded(plan, now)

    def fits_when_all_have_ended(self, gang: Gang, now: Instant, reader: ClusterReader) -> bool:
        """Return whether a gang fits on nodes that have no training job, whatever is closed."""
        return self._place(gang, self._read(now, reader, again=False).emptied, ()) is not None

    def is_refused_by_rules(
        self, gang: Gang, now: Instant, reader: ClusterReader, *, never: bool
    ) -> bool:
        """Return whether a gang that does not fit would, but for rules of pods, by its amounts;
        ``never``: of one that does not fit either once all jobs have ended."""
        around = reader.with_surroundings(gang)
        if around.surroundings is None and not any(each.rules for each in gang.unbound):
            return False
        future = self._read(now, reader, again=False)
        members = tuple(replace(each, rules=None) for each in gang.members)
        bare = replace(gang, members=members, surroundings=None)
        return self._place(bare, future.emptied if never else future.left, ()) is not None

    def _bounded(self, plan: FuturePlan, now: Instant) -> FuturePlan:
        """A plan that waits for a job of which no end is known closes nodes for a time."""
        if plan.is_predicted or not plan.closes:
            return plan
        since = self._endless_since.setdefault(plan.awaits, now.monotonic)
        if now.monotonic - since <= ENDLESS_SECONDS:
            return plan
        return replace(plan, closes=False)

    def _current_plan(
        self, gang: Gang, closed: Collection[str], now: Instant, reader: ClusterReader
    ) -> FuturePlan | None:
        known = self._known.get(gang.job_uid)
        if known is not None and known.gang != gang:
            known = None
        plan = None if known is None else known.plan
        passes = plan is None or not any(node in closed for node in plan.amounts)
        if known is not None and passes and self._is_fresh(known.read_at):
            return plan
        future = self._read(now, reader, again=known is None)
        around = reader.with_surroundings(gang)
        if plan is not None and passes and self._stays(plan, around, closed, future):
            plan = replace(_future_plan(plan.amounts, future, now), closes=plan.closes)
        else:
            plan = self._plan(gang, around, closed, future, now)
        self._known[gang.job_uid] = _KnownPlan(future.read_at, gang, plan)
        return plan

    def _is_fresh(self, read_at: float) -> bool:
        return self._future is not None and self._future.read_at == read_at

    def _read(self, now: Instant, reader: ClusterReader, *, again: bool) -> _Future:
        future = self._future
        if future is None or (again and now.monotonic - future.read_at >= _READ_AGAIN_SECONDS):
            jobs = reader.running_jobs()
            left = Capacity(jobs.nodes, jobs.left)
            emptied = left.copy()
            endings = sorted(
                _JobEnding(
                    max(jobs.ends_at.get(job_uid, _UNKNOWN), now.epoch),
                    job_uid,
                    usage.amounts,
                    usage.key,
                )
                for job_uid, usage in jobs.usage.items()
            )
            for ending in endings:
                _add_amounts(emptied, ending.amounts, 1)
            running = {ending.job_uid for ending in endings}
            for job_uid in self._endless_since.keys() - running:
                del self._endless_since[job_uid]
            self._future = future = _Future(now.monotonic, endings, left, emptied)
        return future

    def _stays(
        self, plan: FuturePlan, around: Gang, closed: Collection[str], future: _Future
    ) -> bool:
        """Return whether a plan still holds, and closes nodes or none as before."""
        is_free = around.surroundings is None or (
            self._place(around, future.emptied, closed) is not None
        )
        return is_free == plan.closes and _still_fits(plan.amounts, future.emptied)

    def _plan(
        self, gang: Gang, around: Gang, closed: Collection[str], future: _Future, now: Instant
    ) -> FuturePlan | None:
        """``around`` is the gang with what other pods mean for it now."""
        placement = self._place(gang, future.emptied, closed)
        if placement is None:
            return None
        if around.surroundings is None:
            placement = self._earliest(gang, closed, future) or placement
            return _future_plan(_by_node(gang, placement), future, now)
        allowed = self._place(around, future.emptied, closed)
        plan = _future_plan(_by_node(gang, allowed or placement), future, now)
        return replace(plan, closes=allowed is not None)

    def _earliest(self, gang: Gang, closed: Collection[str], future: _Future) -> Placement | None:
        """The plan at the end of the first job by which the gang fits, by the forecasts."""
        known = [ending for ending in future.endings if ending.at < _UNKNOWN]
        if not known:
            return None
        capacity, ended = future.left.copy(), 0

        def fits_after(count: int) -> Placement | None:
            nonlocal ended
            for ending in known[ended:count]:
                _add_amounts(capacity, ending.amounts, 1)
            for ending in known[count:ended]:
                _add_amounts(capacity, ending.amounts, -1)
            ended = count
            return self._place(gang, capacity, closed)

        best, low, high = fits_after(len(known)), 0, len(known)
        while best is not None and low < high:
            middle = (low + high) // 2
            found = fits_after(middle)
            if found is None:
                low = middle + 1
            else:
                best, high = found, middle
        return best

    def _place(self, gang: Gang, capacity: Capacity, closed: Collection[str]) -> Placement | None:
        """A plan off the closed nodes; takes nothing."""
        capacity.distinguish(*{member.spec.constraints for member in gang.members})
        mark = capacity.mark()
        for row in (capacity.row_of.get(name) for name in sorted(closed)):
            if row is not None:
                capacity.take(row, capacity.free[row])
        answer = self._rule.place(gang, capacity)
        capacity.undo_to(mark)
        return answer if isinstance(answer, Placement) else None


def _in_turn(gangs: Iterable[Gang]) -> set[str]:
    """The UIDs of the first gangs, one of each namespace, then the second of each, and so on."""
    seen: Counter[str] = Counter()
    turns: list[tuple[int, int, str]] = []
    for at, gang in enumerate(gangs):
        turns.append((seen[gang.key.namespace], at, gang.job_uid))
        seen[gang.key.namespace] += 1
    return {job_uid for *_, job_uid in nsmallest(MAX_CLOSING, turns)}


_UNKNOWN: Final = float("inf")
"""The end of a job without a forecast: after all others."""


def _add_amounts(capacity: Capacity, amounts: Mapping[str, Resources], sign: int) -> None:
    for node, amount in amounts.items():
        row, vector = capacity.row_of.get(node), capacity.vector(amount)
        if row is not None and vector is not None:
            capacity.give_back(row, tuple([sign * each for each in vector]))


def _by_node(gang: Gang, placement: Placement) -> dict[str, Resources]:
    amounts: dict[str, Resources] = {}
    for member in gang.unbound:
        node = placement.nodes[gang.replica(member)]
        amounts[node] = amounts.get(node, NONE) + member.spec.resources
    return amounts


def _still_fits(amounts: Mapping[str, Resources], emptied: Capacity) -> bool:
    return all(
        node in emptied.row_of
        and amount.fits_in(emptied.resources_of(emptied.free[emptied.row_of[node]]))
        for node, amount in amounts.items()
    )


def _future_plan(amounts: Mapping[str, Resources], future: _Future, now: Instant) -> FuturePlan:
    """It begins no earlier than each node has the room, by the forecasts.

    Where a job without a forecast has to end too, the gang cannot begin before the others."""
    begins_at, left = now.epoch, future.left
    awaits: _JobEnding | None = None
    unknown: _JobEnding | None = None
    for node, amount in amounts.items():
        free = left.resources_of(left.free[left.row_of[node]])
        for ending in future.endings:
            if amount.fits_in(free):
                break
            if node not in ending.amounts:
                continue
            if ending.at == _UNKNOWN:
                unknown = ending
                break
            free += ending.amounts[node]
            if ending.at >= begins_at:
                begins_at, awaits = ending.at, ending
    last = unknown or awaits
    uid, key = ("", None) if last is None else (last.job_uid, last.key)
    return FuturePlan(amounts, begins_at, uid, key, unknown is None)
