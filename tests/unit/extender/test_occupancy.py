"""What pods on nodes mean for the rules of others, as they come, change and go."""

from collections.abc import Callable

from extender.state.occupancy import Occupancy, Occupant
from optimus.jobs import JobKey, ReplicaSpec, Requirement, Role
from optimus.kube.volumes import READ_WRITE_ONCE_POD, VolumeClaim
from optimus.placement.gang import Gang, Member
from optimus.placement.rules import (
    AffinityTerm,
    HostPort,
    Labels,
    PodRules,
    PodSelector,
    Selection,
    SpreadConstraint,
    Surroundings,
)
from tests.cases import cases

HTTP = HostPort(80)
X: Labels = (("app", "x"),)


def select(app: str, namespace: str = "ns") -> PodSelector:
    return PodSelector((Requirement("app", "In", (app,)),), (namespace,))


BESIDE_X = PodRules(affinity=(AffinityTerm("zone", select("x")),))
SPREAD_X = PodRules(spread=(SpreadConstraint("zone", 1, select("x")),))


def gang_of(rules: PodRules | None, labels: Labels = X, namespace: str = "ns") -> Gang:
    member = Member(Role.WORKER, 0, ReplicaSpec(), None, frozenset(), labels, rules)
    return Gang(JobKey(namespace, "j"), "u", (member,))


def seen_by(occupancy: Occupancy, rules: PodRules | None, labels: Labels = X) -> Surroundings:
    found = occupancy.surroundings(gang_of(rules, labels))
    assert found is not None
    return found


@cases(
    ("rules", "count"),
    {
        "a pod that is being deleted counts for no spread": (SPREAD_X, 1),
        "but for affinity": (BESIDE_X, 2),
    },
)
def test_a_pod_that_is_being_deleted(rules: PodRules, count: int) -> None:
    occupancy = Occupancy()
    occupancy.add("before", Occupant("n", "ns", X, leaving=True))
    (counted,) = seen_by(occupancy, rules).counts.values()
    assert sum(counted.values()) == count - 1
    occupancy.add("stays", Occupant("n", "ns", X))
    (counted,) = seen_by(occupancy, rules).counts.values()
    assert counted == {"n": count}


@cases("labels", {"other labels": (("team", "t"),), "it is gone": None})
def test_pods_of_a_namespace_count_by_the_labels_that_it_has_now(labels: Labels | None) -> None:
    of_team = PodSelector(
        (Requirement("app", "In", ("x",)),), (), (Requirement("team", "In", ("s",)),)
    )
    beside = PodRules(affinity=(AffinityTerm("zone", of_team),))
    occupancy = Occupancy()
    occupancy.set_namespace("other", (("team", "s"),))
    occupancy.add("p", Occupant("a", "other", X))
    assert seen_by(occupancy, beside).counts == {Selection((of_team,)): {"a": 1}}
    assert seen_by(occupancy, beside).of_namespaces == {"other": (("team", "s"),)}
    occupancy.set_namespace("other", labels)
    assert seen_by(occupancy, beside).counts == {Selection((of_team,)): {}}
    occupancy.add("q", Occupant("a", "other", X))
    assert seen_by(occupancy, beside).counts == {Selection((of_team,)): {}}


def claim() -> VolumeClaim:
    return VolumeClaim(
        namespace="ns",
        name="c",
        volume="v",
        is_bound=True,
        access_modes=(READ_WRITE_ONCE_POD,),
    )


# --- which refusals may be out of date


def adding(pod: Occupant) -> Callable[[Occupancy], object]:
    return lambda occupancy: occupancy.add("new", pod)


def test_many_selections_are_counted_and_each_as_it_is_now() -> None:
    occupancy = Occupancy()
    occupancy.add("p", Occupant("a", "ns", X))
    for at in range(1100):
        rules = PodRules(affinity=(AffinityTerm("zone", select(f"app{at}")),))
        seen_by(occupancy, rules)
    assert seen_by(occupancy, BESIDE_X).counts == {Selection((select("x"),)): {"a": 1}}
    occupancy.add("q", Occupant("b", "ns", (("app", "app0"),)))
    first = PodRules(affinity=(AffinityTerm("zone", select("app0")),))
    assert seen_by(occupancy, first).counts == {Selection((select("app0"),)): {"b": 1}}
