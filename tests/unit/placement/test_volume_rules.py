"""Gangs whose pods mount volumes that only some nodes reach."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from optimus.jobs import JobKey, ReplicaSpec, Requirement, Role
from optimus.nodes import Node
from optimus.placement.capacity import Capacity
from optimus.placement.gang import DoesNotFit, Gang, Member
from optimus.placement.rules import ClaimedVolume, NodeTerms, PodRules, Surroundings
from optimus.placement.theorem1 import Theorem1
from optimus.resources import Resources

EAST, WEST = (((Requirement("zone", "In", (zone,)),),) for zone in ("east", "west"))
ANY_ZONE: NodeTerms = (*EAST, *WEST)
BEYOND_BOTH = "its volumes leave too few nodes"


def two_zones(*, east: int, west: int) -> list[Node]:
    return [
        Node(f"{zone}-{at}", Resources(cpu=cpu), {"zone": zone})
        for zone, cpu in (("east", east), ("west", west))
        for at in range(2)
    ]


def gang_with(claims: Sequence[str], volumes: Mapping[str, ClaimedVolume]) -> Gang:
    """A worker of one CPU for each claim."""
    spec = ReplicaSpec(Resources(cpu=1))
    members = tuple(
        Member(Role.WORKER, at, spec, rules=PodRules(claims=(claim,)))
        for at, claim in enumerate(claims)
    )
    return Gang(JobKey("ns", "job"), "uid", members, Surroundings(volumes=volumes))


def zones_of(gang: Gang, nodes: Sequence[Node]) -> Counter[str] | str:
    """Unbound workers by zone, or why there is no plan."""
    capacity = Capacity(nodes, {each.name: each.allocatable for each in nodes})
    answer = Theorem1().place(gang, capacity)
    if isinstance(answer, DoesNotFit):
        return answer.reason.partition(": ")[2]
    return Counter(name.partition("-")[0] for name in answer.nodes.values())


SHARED = {"data": ClaimedVolume(ANY_ZONE, (EAST, WEST))}
"""Bound once a pod has a node: to a volume of the east or to one of the west."""


def test_pods_go_to_the_nodes_that_reach_their_volume() -> None:
    gang = gang_with(["data"] * 3, {"data": ClaimedVolume(WEST)})
    assert zones_of(gang, two_zones(east=9, west=2)) == {"west": 3}
    assert zones_of(gang, two_zones(east=9, west=1)) == BEYOND_BOTH


@pytest.mark.parametrize(
    ("east", "west", "expected"),
    [
        pytest.param(2, 1, {"east": 3}, id="the first volume"),
        pytest.param(1, 2, {"west": 3}, id="the second where the first is too small"),
        pytest.param(1, 1, BEYOND_BOTH, id="not both"),
    ],
)
def test_pods_that_share_an_unbound_claim_go_where_one_volume_is(
    east: int, west: int, expected: dict[str, int] | str
) -> None:
    assert zones_of(gang_with(["data"] * 3, SHARED), two_zones(east=east, west=west)) == expected


def test_the_rest_of_a_gang_goes_where_the_volume_of_its_bound_replica_is() -> None:
    gang = gang_with(["data"] * 3, SHARED)
    bound = (replace(gang.members[0], node="west-1"), *gang.members[1:])
    gang = replace(gang, members=bound)
    assert zones_of(gang, two_zones(east=9, west=1)) == {"west": 2}
    assert zones_of(gang, two_zones(east=9, west=0)) == BEYOND_BOTH
    elsewhere = replace(gang, members=(replace(bound[0], node="gone"), *bound[1:]))
    assert zones_of(elsewhere, two_zones(east=9, west=1)) == {"east": 2}
