"""Plans waiting gangs on a copy of the free capacity, in the order of the queue.

A snapshot has the waiting gangs, and what is left of the nodes that have changed since the last
one. The extender takes it under a lock, plans in slices of a few milliseconds without the lock, and
reserves under the lock what still fits.

A refusal holds until a node that admits the gang can hold more of the replicas that it lacked:
``Shortfall`` records how many were lacking, and compares nodes that change with what they had then.
So the end of a pod costs no planning while it frees less than any waiting gang lacks.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from optimus.nodes import Node
from optimus.placement.capacity import Vector
from optimus.placement.first_kind import FirstKindRule
from optimus.placement.gang import DoesNotFit, Gang, GangRule, Placement, does_not_fit, gang_shape
from optimus.placement.queue.backfill import Backfill, ClusterReader, FuturePlan
from optimus.placement.queue.budgets import NamespaceBudgets
from optimus.placement.queue.capacity_copy import CapacityCopy
from optimus.placement.queue.order import Instant, OrderKey, QueueEntry, WaitingGang, order_key
from optimus.placement.queue.shortfall import GangRefusal, Shortfall, shortages
from optimus.resources import NONE, Resources

SLICE_SECONDS: Final = 0.005
"""A slice ends with the first gang after this time, so that what it planned is reserved soon."""

REFUSAL_SECONDS: Final = 60.0
"""A refusal is checked again after this time, whatever has changed."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one slice is planned on."""

    now: Instant
    queue: Sequence[QueueEntry]
    """Complete gangs without a plan, in no particular order."""

    refusals: Mapping[str, GangRefusal]
    """Known refusals, by job UID."""

    left: Mapping[str, Resources | None]
    """What is left of each node that has changed; ``None``: the node is gone."""

    nodes: Mapping[str, Node] | None
    """All nodes, where any has come, gone or changed in itself."""

    own: Mapping[str, Mapping[str, Resources]]
    """By job UID and node, what is reserved for the gang's own unplaced replicas."""

    remaining_seconds: Mapping[str, float]
    """By job UID, how long it would run, where its profile says so."""

    rules_generation: int
    """Changes with whatever the rules of pods count."""

    rules_openings: int
    """Changes where that may have opened a node to a gang."""

    release_count: int
    """How often all plans had been released: plans of an earlier time are void."""


class PlannedGang(NamedTuple):
    """A gang with the nodes that it fits on."""

    queued: QueueEntry
    gang: Gang
    """With what other pods meant for it."""

    placement: Placement


class RefusedGang(NamedTuple):
    """A gang that does not fit."""

    queued: QueueEntry
    refusal: GangRefusal


class Slice(NamedTuple):
    """What one slice found out, in the order of the queue."""

    answers: Sequence[PlannedGang | RefusedGang]
    more: bool
    """Whether gangs are left for another slice."""

    future_plans: Mapping[str, FuturePlan] = {}
    """Of the gangs that close nodes, by job UID; not where there is more."""

    searches: int = 0
    """For how many gangs nodes were searched for."""


# --- one slice after the other


class Planning:
    """The planning thread's state. ``plan`` is called by one thread at a time."""

    def __init__(
        self, rule: GangRule, age_limit_seconds: float, clock: Callable[[], float] = lambda: 0.0
    ) -> None:
        """``clock`` tells how long searches take, in seconds; without it none takes any time."""
        self._rule, self._age_limit, self._clock = rule, age_limit_seconds, clock
        self._free = CapacityCopy()
        self._backfill = Backfill(rule)
        self._before: dict[str, Vector] = {}
        """Shared by the shortfalls since the last plan."""
        self._shapes: dict[object, _RefusedShape] = {}
        self._keys: dict[str, tuple[WaitingGang, bool, OrderKey]] = {}
        """By job UID, the place in the queue of gangs that are older than the limit or are not."""
        self._keys_for = NONE
        """Of which capacity demands are shares."""
        self._outdated: set[str] = set()
        """Jobs whose refusal is known and has to be found out again."""
        self.budgets = NamespaceBudgets()
        """Of searches that take longer than a slice."""

    def plan(
        self,
        snapshot: Snapshot,
        reader: ClusterReader,
        *,
        seconds: float = SLICE_SECONDS,
        last: str | None = None,
    ) -> Slice:
        """Plan gangs in order, for about so many seconds, at least one, down to that of the job
        ``last`` (a UID)."""
        self._update(snapshot)
        epoch, limit = snapshot.now.epoch, self._age_limit
        queue = self._in_order(snapshot)
        until = self._clock() + seconds
        walk, considered = self._walk(snapshot), 0
        future_plans: dict[str, FuturePlan] = {}
        first = [
            each.gang
            for each in queue
            if each.waiting.in_part or each.waiting.waited_seconds(epoch) > limit
        ]
        self._backfill.begin(first, snapshot.now)
        uids = [] if last is None else [each.waiting.job_uid for each in queue]
        end = uids.index(last) + 1 if last in uids else len(queue)
        for queued in queue[:end]:
            job_uid = queued.waiting.job_uid
            known = snapshot.refusals.get(job_uid)
            if known is None or self._is_outdated(known, queued, walk):
                gang = reader.with_surroundings(queued.gang)
                if (considered and self._clock() >= until) or walk.must_be_reserved_first(gang):
                    self._before = walk.before
                    return Slice(walk.answers, more=True, searches=walk.searches)
                considered += 1
                self._outdated.discard(job_uid)
                began = self._clock()
                known = walk.consider(queued, gang)
                self._charge(gang, self._clock() - began, snapshot.now.monotonic)
            if known is not None and self._backfill.may_close(job_uid):
                plan = self._backfill.future_plan(queued.gang, walk.closed, snapshot.now, reader)
                if plan is not None:
                    future_plans[job_uid] = plan
                    walk.close(plan)
        self._before = walk.before
        return Slice(walk.answers, end < len(queue), future_plans, walk.searches)

    def _charge(self, gang: Gang, took: float, at: float) -> None:
        """Charge a long search to its namespace, or to those whose pods' rules alone make it long,
        whose gangs then come last."""
        around, has_rules = gang.surroundings, any(member.rules for member in gang.unbound)
        causes = around.repelled_by if around is not None and not has_rules else frozenset()
        for each in (causes or {gang.key.namespace}) if took > SLICE_SECONDS else ():
            self.budgets.charge(each, took / max(len(causes), 1), at)

    def _in_order(self, snapshot: Snapshot) -> list[QueueEntry]:
        """The queue, first what goes first; among gangs of one priority those of a namespace last
        that is over its budget. Keys are kept: most gangs wait as they did before."""
        epoch, limit = snapshot.now.epoch, self._age_limit
        capacity, keys = self._free.capacity.allocatable, self._keys
        if capacity != self._keys_for:
            keys, self._keys_for = {}, capacity
        self._keys = {}
        for queued in snapshot.queue:
            waiting = queued.waiting
            old = epoch - waiting.since > limit
            known = keys.get(waiting.job_uid)
            if known is None or known[:2] != (waiting, old):
                known = waiting, old, order_key(waiting, capacity, epoch, limit)
            self._keys[waiting.job_uid] = known
        queue = sorted(snapshot.queue, key=lambda each: self._keys[each.waiting.job_uid][2])
        now = snapshot.now.monotonic
        over = {
            namespace
            for namespace in {each.gang.key.namespace for each in queue}
            if self.budgets.is_over(namespace, now)
        }
        if over:
            queue.sort(
                key=lambda each: (
                    -each.waiting.priority,
                    each.gang.key.namespace in over,
                )
            )
        return queue

    def _walk(self, snapshot: Snapshot) -> "_Walk":
        return _Walk(snapshot, self._free, FirstKindRule(self._rule), self._before, self._shapes)

    def _update(self, snapshot: Snapshot) -> None:
        """Take over what has changed; refusals become outdated where enough was gained."""
        changed = self._free.update(snapshot)
        refusals = snapshot.refusals
        self._outdated &= refusals.keys()
        if changed is None:
            self._outdated |= refusals.keys()
            self._before = {}
            self._shapes.clear()
            return
        oldest = snapshot.now.monotonic - REFUSAL_SECONDS
        shortfalls = {id(each.shortfall): each.shortfall for each in refusals.values()}
        shortfalls |= {id(each.shortfall): each.shortfall for each in self._shapes.values()}
        baselines = {id(each.before): each.before for each in shortfalls.values()}
        baselines[id(self._before)] = self._before
        nodes, nothing = self._free.nodes, (0,) * len(self._free.capacity.resources)
        for baseline in baselines.values():
            for name, before in changed.before.items():
                baseline.setdefault(name, before)
            baseline.update(dict.fromkeys(changed.altered, nothing))
        for shortfall in shortfalls.values():
            for name, after in changed.after.items():
                if name in nodes:
                    shortfall.update(nodes[name], after)
                else:
                    shortfall.gains.pop(name, None)
        covered = {key for key, each in shortfalls.items() if each.is_covered()}
        for shape, each in list(self._shapes.items()):
            if id(each.shortfall) in covered or each.at <= oldest:
                del self._shapes[shape]
        self._outdated |= {
            job_uid
            for job_uid, each in refusals.items()
            if id(each.shortfall) in covered
            or each.at <= oldest
            or each.rules_openings not in (None, snapshot.rules_openings)
        }
        if self._before:
            self._before = {}  # what is refused from now on compares with what is left now

    def _is_outdated(self, known: GangRefusal, queued: QueueEntry, walk: "_Walk") -> bool:
        """Return whether nodes have gained enough, or a node is open by now whose closing kept the
        gang from being planned, and its namespace is within its budget."""
        is_outdated = queued.waiting.job_uid in self._outdated or (
            bool(known.blocked_by) and not known.blocked_by <= walk.closed_for(queued)
        )
        return is_outdated and not self.budgets.is_over(queued.gang.key.namespace, walk.at)


class _Walk:
    """One slice's way down the queue."""

    def __init__(
        self,
        snapshot: Snapshot,
        free: CapacityCopy,
        rule: GangRule,
        before: dict[str, Vector],
        shapes: "dict[object, _RefusedShape]",
    ) -> None:
        self._snapshot, self._free, self._rule = snapshot, free, rule
        self.before = before
        self._begins: dict[str, float] = {}
        """By closed node, when the gang that it is kept for can begin (epoch, seconds)."""
        self.closed: frozenset[str] = frozenset()
        """The nodes that are closed for gangs of which no end is known."""
        self.answers: list[PlannedGang | RefusedGang] = []
        self._shapes = shapes
        self.searches = 0
        self.at = snapshot.now.monotonic

    def close(self, plan: FuturePlan) -> None:
        """Keep nodes for a gang, against those behind it."""
        self._begins |= dict.fromkeys(plan.nodes, plan.begins_at)
        self.closed = frozenset(self._begins)

    def closed_for(self, queued: QueueEntry) -> frozenset[str]:
        """The nodes that are closed for a gang: not those where it ends before they are needed."""
        remaining = self._snapshot.remaining_seconds.get(queued.waiting.job_uid)
        if remaining is None or not self.closed:
            return self.closed
        ends_at = self._snapshot.now.epoch + remaining
        return frozenset(name for name, begin in self._begins.items() if ends_at > begin)

    def must_be_reserved_first(self, gang: Gang) -> bool:
        """Return whether plans of this slice may concern the gang by rules of pods, which count
        what is reserved: then it is planned in the next."""
        planned = [each.gang for each in self.answers if isinstance(each, PlannedGang)]
        return bool(planned) and (
            gang.surroundings is not None
            or any(member.rules for each in planned for member in each.members)
        )

    def consider(self, queued: QueueEntry, gang: Gang) -> GangRefusal | None:
        """Plan one gang on what is left."""
        free = self._free
        own = self._snapshot.own.get(gang.job_uid, {})
        shape = None if own else _shape(gang)
        if shape in self._shapes:
            return self._refuse(queued, gang, does_not_fit(gang), self._shapes[shape].shortfall)
        self.searches += 1
        preferred = (gang.bound_to(kind) for kind in gang.kinds)
        free.capacity.distinguish(
            *{member.spec.constraints for each in (gang, *preferred) for member in each.members}
        )
        mark = free.capacity.mark()
        free.add(own, 1)
        answer = self._rule.place(gang, free.capacity)
        closed: frozenset[str] = frozenset()
        if isinstance(answer, Placement):
            closed = self.closed_for(queued)
            if not closed.isdisjoint(answer.nodes.values()):
                free.close(closed)
                answer = self._rule.place(gang, free.capacity)
                if isinstance(answer, DoesNotFit):
                    job = f"job {gang.key} ({gang_shape(gang)})"
                    answer = DoesNotFit(
                        f"{job} fits, but a job before it in the queue needs the capacity"
                    )
        if isinstance(answer, DoesNotFit):
            lacking = shortages(gang, free.capacity)
            free.capacity.undo_to(mark)
            shortfall = Shortfall(lacking, self.before, closed)
            if shape is not None and not closed:
                self._shapes[shape] = _RefusedShape(shortfall, self._snapshot.now.monotonic)
            return self._refuse(queued, gang, answer, shortfall)
        free.capacity.undo_to(mark)
        self._plan(queued, gang, answer, own)
        return None

    def _refuse(
        self, queued: QueueEntry, gang: Gang, answer: DoesNotFit, shortfall: Shortfall
    ) -> GangRefusal:
        at = self._snapshot.now.monotonic
        rules = None if gang.surroundings is None else self._snapshot.rules_openings
        refusal = GangRefusal(answer, shortfall, at, rules, shortfall.closed)
        self.answers.append(RefusedGang(queued, refusal))
        return refusal

    def _plan(
        self,
        queued: QueueEntry,
        gang: Gang,
        placement: Placement,
        own: Mapping[str, Resources],
    ) -> None:
        amounts: dict[str, Resources] = {}
        for member in gang.unbound:
            node = placement.nodes[gang.replica(member)]
            amounts[node] = amounts.get(node, Resources()) + member.spec.resources
        self._free.reserve(own, 1)
        self._free.reserve(amounts)
        # Refusals from here on are found on less: they compare with what is left now.
        self.before = self._free.touched()
        self.answers.append(PlannedGang(queued, gang, placement))


class _RefusedShape(NamedTuple):
    """What every gang of a shape lacks: one search answers for all of them."""

    shortfall: Shortfall
    at: float


def _shape(gang: Gang) -> object:
    """The same for gangs that need the same; ``None`` for one that differs from others of its
    shape in where it may go."""
    if gang.surroundings is not None or gang.is_in_part:
        return None
    if any(member.excluded for member in gang.members):
        return None
    return frozenset(Counter((member.role, member.spec) for member in gang.members).items())
