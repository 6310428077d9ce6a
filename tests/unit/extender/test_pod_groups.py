"""Gangs whose pods kube-scheduler binds together or not at all (PodGroups)."""

from collections.abc import Sequence

import pytest

from extender.state.offers import MOST_ANSWERS
from optimus.jobs import Requirement
from optimus.placement.rules import PodRules, PodSelector, SpreadConstraint
from tests.unit.extender.fake_cluster import FakeCluster

WORKERS = PodSelector((Requirement("app", "In", ("t",)),), ("ns",))
SPREAD = PodRules(spread=(SpreadConstraint("zone", 1, WORKERS),))
NODES = ("n1", "n2", "n3")


class GroupCluster(FakeCluster):
    """A kube-scheduler that tries the pods of a group on a copy of its cache, one after the other.

    It binds them if it was answered with a node for each, and none of them otherwise."""

    def cycle(
        self, names: Sequence[str], offered: Sequence[str] = NODES, *, all_asked: bool = True
    ) -> list[str]:
        """The nodes of the pods that are answered; without ``all_asked`` up to the first that is
        refused, as kube-scheduler 1.37 does."""
        taken: dict[str, int] = {}
        found: list[str] = []
        for name in names:
            fitting = [node for node in offered if self.free(node) > taken.get(node, 0)]
            kept = self.ask(name, fitting).kept
            found += kept
            taken.update((node, taken.get(node, 0) + 1) for node in kept)
            if not kept and not all_asked:
                break
        return found


@pytest.fixture
def cluster() -> GroupCluster:
    return GroupCluster(dict.fromkeys(NODES, 2))


def test_a_plan_is_tried_before_each_pod_was_asked_about(cluster: GroupCluster) -> None:
    """kube-scheduler 1.37 asks about no further pod after a refusal."""
    names = cluster.job("a", 1, 2, in_group=True, beyond_plan=True)
    assert len(cluster.cycle(names, all_asked=False)) == 3


def test_a_node_that_is_not_offered_is_left_out_of_the_next_plan(cluster: GroupCluster) -> None:
    names = cluster.job("a", 1, 2, in_group=True)
    cluster.ask(names[0])
    planned, *_ = cluster.planned_nodes().values()
    offered = [node for node in NODES if node != planned]
    cycles: list[list[str]] = []
    while len(cycles) < 3 and not (cycles and len(cycles[-1]) == len(names)):
        cycles.append(cluster.cycle(names, offered, all_asked=False))
        cluster.plan()
    assert sorted({*cycles[-1]}) == offered
    assert len(cycles[-1]) == len(names)


def test_bindings_that_fail_are(cluster: GroupCluster) -> None:
    names = cluster.job("a", 1, 2, in_group=True)
    nodes = cluster.cycle(names)
    for name, node in zip(names[1:], nodes[1:], strict=True):
        cluster.bind(name, node)
    answers = []
    for _ in range(MOST_ANSWERS + 1):
        cluster.now += 1
        answers += cluster.cycle(names[:1])
    assert nodes[0] in answers[:-1]
    assert answers[-1] != nodes[0]


def test_pods_that_spread_take_one_another_s_nodes() -> None:
    cluster = GroupCluster({})
    for number in range(4):
        cluster.node(f"n{number}", 2, zone=f"z{number // 2}")
    names = cluster.job("a", 0, 8, in_group=True, rules=SPREAD, labels=(("app", "t"),))
    cluster.ask(names[0])
    zones = {"z0": 0, "z1": 0}
    for name in names:
        least = min(zones.values())
        offered = [
            node
            for node in (f"n{number}" for number in range(4))
            if zones[f"z{int(node[1]) // 2}"] == least
        ]
        (node,) = cluster.ask(name, offered).kept
        zones[f"z{int(node[1]) // 2}"] += 1
    assert zones == {"z0": 4, "z1": 4}
    cluster.assert_not_overcommitted()
