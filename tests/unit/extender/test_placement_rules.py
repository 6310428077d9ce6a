"""The placement rules by name, on a cluster."""

import pytest

from extender.settings import Settings
from extender.state.cluster import ProfileFacts
from optimus.placement.rules import HostPort, PodRules
from tests.unit.extender.fake_cluster import FakeCluster

NODES = dict.fromkeys("abcd", 4)


def planned(cluster: FakeCluster, **fields: object) -> list[str]:
    cluster.job("j", 2, 2, **fields)  # type: ignore[arg-type]  # fields of a pod
    cluster.plan()
    return sorted(cluster.planned_nodes().values())


@pytest.mark.parametrize(
    ("rule", "nodes"),
    [("theorem1", ["a"] * 4), ("spread", ["a", "b", "c", "d"]), ("pack", ["a"] * 4)],
)
def test_a_gang_is_placed_by_the_rule_that_the_settings_name(rule: str, nodes: list[str]) -> None:
    assert planned(FakeCluster(NODES, settings=Settings(placement=rule))) == nodes


@pytest.mark.parametrize("rule", ["theorem1", "spread", "pack"])
def test_rules_of_pods_and_avoided_nodes_hold_whatever_the_rule(rule: str) -> None:
    cluster = FakeCluster(NODES | {"e": 1}, settings=Settings(placement=rule))
    cluster.handlers.set_profile("uid-j", ProfileFacts(avoided={"a": cluster.now + 60}))
    port = PodRules(ports=(HostPort(80),))
    assert planned(cluster, rules=port) == ["b", "c", "d", "e"]
