"""What pods on nodes mean for the rules of others, as they come, change and go."""

from collections.abc import Callable

from extender.state.occupancy import Occupancy, Occupant
from optimus.jobs import JobKey, ReplicaSpec, Requirement, Role
from optimus.kube.volumes import READ_WRITE_ONCE_POD, Volume, VolumeClaim
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
Y: Labels = (("app", "y"),)


def select(app: str, namespace: str = "ns") -> PodSelector:
    return PodSelector((Requirement("app", "In", (app,)),), (namespace,))


BESIDE_X = PodRules(affinity=(AffinityTerm("zone", select("x")),))
APART_FROM_X = PodRules(anti_affinity=(AffinityTerm("zone", select("x")),))
SPREAD_X = PodRules(spread=(SpreadConstraint("zone", 1, select("x")),))
ON_80 = PodRules(ports=(HTTP,))


def gang_of(rules: PodRules | None, labels: Labels = X, namespace: str = "ns") -> Gang:
    member = Member(Role.WORKER, 0, ReplicaSpec(), None, frozenset(), labels, rules)
    return Gang(JobKey(namespace, "j"), "u", (member,))


def seen_by(occupancy: Occupancy, rules: PodRules | None, labels: Labels = X) -> Surroundings:
    found = occupancy.surroundings(gang_of(rules, labels))
    assert found is not None
    return found


def test_where_no_rule_concerns_it_a_gang_has_no_surroundings() -> None:
    occupancy = Occupancy()
    occupancy.add("p", Occupant("n", "ns", X))
    assert occupancy.surroundings(gang_of(None)) is None
    occupancy.add("q", Occupant("n", "ns", Y, APART_FROM_X))
    assert occupancy.surroundings(gang_of(None, Y)) is None, "of another label"
    assert occupancy.surroundings(gang_of(None, X, "other")) is None, "in another namespace"
    (term,) = APART_FROM_X.anti_affinity
    assert seen_by(occupancy, None).repelling == ((term, frozenset({"n"})),)


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


def test_a_host_port_is_taken_until_its_last_pod_has_left() -> None:
    occupancy = Occupancy()
    assert seen_by(occupancy, ON_80).ports == {}
    udp = PodRules(ports=(HostPort(80, "UDP"),))
    occupancy.add("p", Occupant("a", "ns", Y, ON_80))
    occupancy.add("q", Occupant("a", "other", Y, ON_80))
    occupancy.add("r", Occupant("b", "ns", Y, udp))
    assert seen_by(occupancy, ON_80).ports == {HTTP: frozenset({"a"})}
    occupancy.remove("p", "ns")
    assert seen_by(occupancy, ON_80).ports == {HTTP: frozenset({"a"})}
    occupancy.remove("q", "other")
    assert seen_by(occupancy, ON_80).ports == {}
    assert seen_by(occupancy, BESIDE_X).ports == {}, "asked for by none of the gang"


def test_an_anti_affinity_ends_with_the_last_pod_that_has_it() -> None:
    occupancy = Occupancy()
    (term,) = APART_FROM_X.anti_affinity
    for node in ("a", "b"):
        occupancy.add(node, Occupant(node, "ns", Y, APART_FROM_X))
    assert seen_by(occupancy, None).repelling == ((term, frozenset({"a", "b"})),)
    occupancy.remove("a", "ns")
    assert seen_by(occupancy, None).repelling == ((term, frozenset({"b"})),)
    occupancy.remove("b", "ns")
    assert occupancy.surroundings(gang_of(None)) is None


def test_an_anti_affinity_towards_all_pods_is_found_without_a_label() -> None:
    occupancy = Occupancy()
    alone = PodRules(anti_affinity=(AffinityTerm("zone", PodSelector((), ("ns",))),))
    occupancy.add("p", Occupant("a", "ns", Y, alone))
    assert [nodes for _, nodes in seen_by(occupancy, None).repelling] == [frozenset({"a"})]
    occupancy.remove("p", "ns")
    assert occupancy.surroundings(gang_of(None)) is None


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


def test_a_claim_for_one_pod_is_free_again_once_its_pod_has_left() -> None:
    occupancy = Occupancy()
    mounts = PodRules(claims=("c",))
    occupancy.volumes.set_claim(None, claim())
    occupancy.volumes.set_volume(None, Volume(name="v", claim=("ns", "c")))
    assert seen_by(occupancy, mounts).volumes["c"].problem is None
    occupancy.add("p", Occupant("a", "ns", Y, mounts))
    occupancy.add("q", Occupant("a", "other", Y, mounts))  # a claim of another namespace
    assert "another pod" in (seen_by(occupancy, mounts).volumes["c"].problem or "")
    occupancy.remove("p", "ns")
    assert seen_by(occupancy, mounts).volumes["c"].problem is None


@cases("is_csi", {"of a CSI driver": True, "of another": False})
def test_only_volumes_of_csi_drivers_leave_the_nodes_to_kube_scheduler(is_csi: bool) -> None:
    occupancy = Occupancy()
    occupancy.volumes.set_claim(None, claim())
    occupancy.volumes.set_volume(None, Volume(name="v", claim=("ns", "c"), is_csi=is_csi))
    assert occupancy.is_beyond_plan(gang_of(PodRules(claims=("c",)))) == is_csi
    assert not occupancy.is_beyond_plan(gang_of(ON_80))
    assert not occupancy.is_beyond_plan(gang_of(None))


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


@cases(
    ("change", "changed", "opened"),
    {
        "a pod that no rule counts": (adding(Occupant("n", "ns", Y)), False, False),
        "a pod that a gang counts": (adding(Occupant("n", "ns", X)), True, True),
        "more ports are taken": (adding(Occupant("n", "ns", Y, ON_80)), True, False),
        "a port is free again": (lambda occupancy: occupancy.remove("port", "ns"), True, True),
        "a volume": (lambda occupancy: occupancy.volumes_changed(), True, False),
        "a namespace": (lambda occupancy: occupancy.set_namespace("other", Y), True, True),
        "as it was": (lambda occupancy: occupancy.set_namespace("other", X), False, False),
        "a question": (
            lambda occupancy: occupancy.surroundings(gang_of(ON_80), ("port",)),
            False,
            False,
        ),
    },
)
def test_what_opens_nodes_to_gangs_that_were_refused(
    change: Callable[[Occupancy], object], changed: bool, opened: bool
) -> None:
    occupancy = Occupancy()
    occupancy.set_namespace("other", X)
    occupancy.add("port", Occupant("n", "ns", Y, ON_80))
    seen_by(occupancy, BESIDE_X)  # pods of the selection are counted from now on
    before = occupancy.generation, occupancy.openings
    change(occupancy)
    grew = occupancy.generation > before[0], occupancy.openings > before[1]
    assert grew == (changed, opened)


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
