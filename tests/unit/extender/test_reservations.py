"""What is left of nodes beside reservations: always what adding up all of them again gives."""

from collections.abc import Mapping
from random import Random

import msgspec
import pytest

from extender.state.cluster import Cluster
from extender.state.reservations import Reservations
from optimus.jobs import JobKey, NodeConstraints, ReplicaSpec, Role
from optimus.kube.pods import Owner, Pod
from optimus.nodes import Node
from optimus.placement.gang import Gang, Member, Placement
from optimus.placement.ledger import Reservation
from optimus.resources import NONE, Resources, total
from optimus.snapshot import ReplicaId
from tests.cases import cases

JOBS = ("j0", "j1", "j2")
NAMES = ("n0", "n1", "n2", "n3")


def cpu(amount: int) -> Resources:
    return Resources(cpu=amount)


def replica(job: str, index: int) -> ReplicaId:
    return ReplicaId(job, Role.WORKER, index)


def member(index: int, amount: int = 1, node: str | None = None) -> Member:
    return Member(Role.WORKER, index, ReplicaSpec(cpu(amount)), node)


def gang(job: str, *members: Member) -> Gang:
    return Gang(JobKey("ns", job), job, members)


def placed(job: str, *nodes: str) -> Placement:
    return Placement(job, {replica(job, index): node for index, node in enumerate(nodes)})


def pod(uid: str, amount: int, node: str | None, job: str | None = None, **fields: object) -> Pod:
    made = Pod(
        uid=uid,
        namespace="ns",
        name=uid,
        created_at=0.0,
        node=node,
        resources=cpu(amount),
        constraints=NodeConstraints(),
        owner=None if job is None else Owner("TFJob", job, job),
        replica=None if job is None else replica(job, 0),
    )
    return msgspec.structs.replace(made, **fields)


class Setting:
    """Nodes with reservations, and what each job's old pods still take of the same room."""

    def __init__(self, **nodes: int) -> None:
        self.cluster = Cluster()
        self.reservations = Reservations(self.cluster)
        self.leaving: dict[str, Mapping[str, Resources]] = {}
        for name, amount in nodes.items():
            self.node(name, amount)

    def node(self, name: str, amount: int | None, **labels: str) -> None:
        made = None if amount is None else Node(name, cpu(amount), labels)
        self.cluster.set_node(name, made)

    def hold(
        self, job: str, *nodes: str, until: float = 60.0, leaving: Mapping[str, int] | None = None
    ) -> None:
        members = (member(index) for index in range(len(nodes)))
        leaves = {name: cpu(amount) for name, amount in (leaving or {}).items()}
        self.reservations.hold(gang(job, *members), placed(job, *nodes), until, leaves)
        self.leaving.pop(job, None)
        if leaves and nodes:
            self.leaving[job] = leaves

    def holds(self, job: str) -> tuple[Reservation, ...]:
        return self.reservations.ledger.of_job(job)

    def left(self, name: str, job: str | None = None) -> Resources:
        """What is left of a node, but for what is reserved for one job."""
        left = self.cluster.free(name)
        for each in (each for each in JOBS if each != job):
            held = total(kept.resources for kept in self.holds(each) if kept.node == name)
            overlap = self.leaving.get(each, {}).get(name, NONE) if self.holds(each) else NONE
            left -= cpu(held["cpu"] - min(held["cpu"], overlap["cpu"]))
        return left

    def every_left(self, job: str | None = None) -> dict[str, Resources]:
        return {name: self.left(name, job) for name in self.cluster.nodes}

    def change(self, random: Random, step: int) -> None:
        job, name = random.choice(JOBS), random.choice(NAMES)
        match random.randrange(7):
            case 0 | 1:
                nodes = random.choices(NAMES, k=random.randint(0, 3))
                leaving = {name: random.randint(1, 2)} if random.random() < 0.4 else None
                self.hold(job, *nodes, until=step + random.randint(2, 20), leaving=leaving)
            case 2:
                self.reservations.release(replica(job, random.randrange(3)))
            case 3:
                self.reservations.expire(step)
            case 4:
                leaves = {name: cpu(1)} if random.random() < 0.5 else {}
                self.reservations.set_leaving(job, leaves)
                if job in self.leaving and self.holds(job):
                    self.leaving[job] = leaves
            case 5:
                there = name in self.cluster.nodes
                self.node(name, None if there and random.random() < 0.3 else random.randint(2, 6))
            case _:
                bound = pod(f"p{step}", random.randint(1, 2), name)
                self.cluster.set_pod(None, bound)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_left_is_what_adding_up_everything_gives(seed: int) -> None:
    random, setting = Random(seed), Setting(n0=4, n1=4, n2=2, n3=3)
    reservations, known, since = setting.reservations, dict[str, Resources](), 0
    before = setting.every_left()
    known |= before
    reservations.read_changes()
    for step in range(30):
        for _ in range(random.randint(1, 3)):
            setting.change(random, step)
        expected = setting.every_left()
        match random.randrange(5):
            case 0:
                assert reservations.free().free_by_name() == expected
            case 1:
                assert reservations.left_by_node() == expected
            case 2:
                for name, left in reservations.read_changes().items():
                    known.pop(name, None)
                    known |= {} if left is None else {name: left}
                assert known == expected
            case 3:
                changed = reservations.changed_since(since)
                assert changed.items() <= expected.items()
                differ = {name for name in expected if before.get(name) != expected[name]}
                assert differ <= changed.keys()
                since, before = reservations.changes, expected
            case _:
                job = random.choice(JOBS)
                found = reservations.free_for(gang(job, member(0))).free_by_name()
                assert found == setting.every_left(job)
        overcommitted = {name for name in NAMES if _is_overcommitted(setting, name)}
        assert {*reservations.overcommitted()} == overcommitted


def _is_overcommitted(setting: Setting, name: str) -> bool:
    """Whether more is reserved on a node than its bound pods leave."""
    if name not in setting.cluster.nodes:
        return any(kept.node == name for job in JOBS for kept in setting.holds(job)) and (
            _reserved_on_lost(setting, name) > 0
        )
    free = max(setting.cluster.free(name)["cpu"], 0)
    return free < (setting.cluster.free(name) - setting.left(name))["cpu"]


def _reserved_on_lost(setting: Setting, name: str) -> int:
    amount = 0
    for job in JOBS:
        held = sum(kept.resources["cpu"] for kept in setting.holds(job) if kept.node == name)
        amount += held - min(held, setting.leaving.get(job, {}).get(name, NONE)["cpu"])
    return amount


def test_room_that_old_pods_still_take_is_not_subtracted_twice() -> None:
    setting = Setting(a=4)
    old = pod("old", 3, "a")
    setting.cluster.set_pod(None, old)
    setting.hold("j0", "a", "a", leaving={"a": 3})
    assert setting.reservations.left("a") == cpu(1)
    setting.reservations.set_leaving("j0", {"a": cpu(1)})
    assert setting.reservations.free().free_by_name() == {"a": NONE}
    setting.cluster.set_pod(old, None)
    setting.reservations.set_leaving("j0", {})
    assert setting.reservations.free().free_by_name() == {"a": cpu(2)}


# --- what a gang may use


@cases(
    ("amount", "nodes", "fits"),
    {
        "with its own reservation": (2, ("a",), True),
        "but no more than that": (3, ("a",), False),
        "two replicas on one node": (1, ("a", "a"), True),
        "a third finds no room": (1, ("a", "a", "a"), False),
        "the node is gone": (1, ("gone",), False),
        "the node does not admit it": (1, ("tainted",), False),
    },
)
def test_whether_a_plan_still_holds(amount: int, nodes: tuple[str, ...], fits: bool) -> None:
    setting = Setting(a=4)
    setting.cluster.set_node("tainted", Node("tainted", cpu(9), {}, cordoned=True))
    setting.cluster.set_pod(None, pod("other", 2, "a"))
    setting.hold("j0", "a")
    members = (member(index, amount) for index in range(len(nodes)))
    assert setting.reservations.still_fits(gang("j0", *members), placed("j0", *nodes)) is fits


# --- priorities


def test_a_pod_takes_what_is_reserved_for_lower_priorities_as_they_were_when_it_was_reserved() -> (
    None
):
    setting = Setting(a=3, b=3)
    for job, priority, node in (("j0", 1, "a"), ("j1", 5, "a"), ("j2", 5, "b")):
        setting.cluster.set_pod(None, pod(f"of-{job}", 1, None, job, priority=priority))
        setting.hold(job, node, node)
    setting.reservations.release(replica("j1", 1))
    full = {
        priority: setting.reservations.nodes_too_full(cpu(2), ["a", "b", "c"], priority)
        for priority in (1, 2, 5, 6)
    }
    assert full == {1: {"a", "b"}, 2: {"b"}, 5: {"b"}, 6: set()}
    setting.reservations.release_job("j2")
    assert setting.reservations.nodes_too_full(cpu(2), ["a", "b"], 1) == {"a"}
