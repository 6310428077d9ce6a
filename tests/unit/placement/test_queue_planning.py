"""When a gang that was refused is searched for again, as nodes change."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from optimus.jobs import JobKey, ReplicaSpec, Role
from optimus.nodes import Node
from optimus.placement.capacity import Capacity
from optimus.placement.gang import DoesNotFit, Gang, Member, Placement
from optimus.placement.queue.backfill import RunningJobs
from optimus.placement.queue.order import Instant, WaitingGang
from optimus.placement.queue.planning import (
    PlannedGang,
    Planning,
    RefusedGang,
    Slice,
    Snapshot,
)
from optimus.placement.queue.shortfall import GangRefusal
from optimus.placement.rules import PodRules, Surroundings
from optimus.placement.theorem1 import Theorem1
from optimus.resources import Resources

NODES = {name: Node(name, Resources(cpu=4), {"zone": name}) for name in ("n0", "n1")}


class NoFuture:
    """Of a cluster of which no end is known."""

    def running_jobs(self) -> RunningJobs:
        return RunningJobs(tuple(NODES.values()), {}, {}, {})

    def with_surroundings(self, gang: Gang) -> Gang:
        has_rules = any(member.rules for member in gang.members)
        return replace(gang, surroundings=Surroundings()) if has_rules else gang


@dataclass(frozen=True)
class Entry:
    gang: Gang
    waiting: WaitingGang


def entry(name: str, rules: PodRules | None = None) -> Entry:
    """A job of one PS and one worker of two CPUs each."""
    spec = ReplicaSpec(Resources(cpu=2))
    members = (Member(Role.PS, 0, spec), Member(Role.WORKER, 0, spec, rules=rules))
    waiting = WaitingGang(name, Resources(cpu=4), 0.0, False, 0)
    return Entry(Gang(JobKey("ns", name), name, members), waiting)


def snapshot(
    at: float,
    left: Mapping[str, int],
    *queue: Entry,
    refusals: Mapping[str, GangRefusal] | None = None,
) -> Snapshot:
    """What is left of nodes, in CPUs, where that has changed."""
    return Snapshot(
        now=Instant(at, at),
        queue=queue,
        refusals=refusals or {},
        left={name: Resources(cpu=amount) for name, amount in left.items()},
        nodes=NODES if at == 0.0 else None,
        own={},
        remaining_seconds={},
        rules_generation=0,
        rules_openings=0,
        release_count=0,
    )


class Slow(Theorem1):
    """A rule of which each search takes 0.2 seconds."""

    seconds = 0.0

    def place(self, gang: Gang, capacity: Capacity) -> Placement | DoesNotFit:
        Slow.seconds += 0.2
        return super().place(gang, capacity)


def test_no_gang_overtakes_one_like_it_whose_search_was_costly() -> None:
    planning = Planning(Slow(), 1e6, lambda: Slow.seconds)
    queue, known = (entry("first"), entry("second")), dict[str, GangRefusal]()

    def plan(at: float, left: int) -> Slice:
        return planning.plan(
            snapshot(at, {"n0": left, "n1": 0}, *queue, refusals=known), NoFuture()
        )

    for _ in queue:  # a slice ends with a costly search
        (refused,) = plan(0.0, 0).answers
        assert isinstance(refused, RefusedGang)
        known[refused.queued.waiting.job_uid] = refused.refusal
    assert not plan(1.0, 4).answers, "the first one rests, and so do those like it"
    (placed,) = plan(3.0, 4).answers
    assert isinstance(placed, PlannedGang)
    assert placed.queued.waiting.job_uid == "first"
