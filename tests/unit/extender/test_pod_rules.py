"""The extender plans gangs by the rules of their pods, and remembers what others' rules take."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from extender.state.occupancy import Occupancy, Occupant
from optimus.jobs import Counts, JobKey, ReplicaSpec, Requirement, Role
from optimus.kube.pods import Pod
from optimus.placement.gang import Gang, Member
from optimus.placement.rules import (
    AffinityTerm,
    HostPort,
    Labels,
    PodRules,
    PodSelector,
    SpreadConstraint,
    selections_of,
)
from optimus.resources import Resources
from tests.unit.extender.fake_cluster import FakeCluster, reasons
from tests.unit.properties import examples

ALONE = PodSelector((Requirement("app", "In", ("t",)),), ("ns",))
ANTI = PodRules(anti_affinity=(AffinityTerm("host", ALONE),))
LABELS: Labels = (("app", "t"),)


def cluster_of(*cpus: int) -> FakeCluster:
    cluster = FakeCluster({})
    for at, cpu in enumerate(cpus):
        cluster.node(f"n{at}", cpu, host=f"n{at}")
    return cluster


def workers(
    cluster: FakeCluster, job: str, count: int, rules: PodRules | None, **fields: object
) -> list[Pod]:
    made = {"labels": LABELS, "rules": rules, **fields}
    return [
        cluster.pod(job, Role.WORKER, at, Counts(0, count), **made)  # type: ignore[arg-type]  # fields of a pod
        for at in range(count)
    ]


def test_of_two_jobs_that_keep_apart_one_is_placed_whole_and_one_waits() -> None:
    cluster = cluster_of(9, 9, 9, 9, 9, 9)
    first, second = workers(cluster, "a", 4, ANTI), workers(cluster, "b", 4, ANTI)
    placed = [cluster.place(pod.name) for pod in first]
    assert len({*placed}) == 4
    assert None not in placed
    (reason,) = reasons(cluster, second[0].name)
    assert reason == (
        "job ns/b (4 workers) does not fit as a whole: "
        "required pod anti-affinity leaves too few nodes"
    )
    cluster.delete(first[0].name, first[1].name)
    cluster.plan()
    assert None not in [cluster.place(pod.name) for pod in second]


def test_a_refusal_for_want_of_affinity_ends_with_the_pod_that_is_wanted() -> None:
    beside = PodRules(
        affinity=(AffinityTerm("host", PodSelector((Requirement("app", "In", ("db",)),), ("ns",))),)
    )
    cluster = cluster_of(9, 9)
    (worker,) = workers(cluster, "a", 1, beside)
    assert cluster.place(worker.name) is None
    cluster.change(cluster.other("db", 1), labels=(("app", "db"),), node="n1")
    cluster.plan()
    assert cluster.place(worker.name) == "n1"


def test_a_gated_pod_does_not_complete_a_gang() -> None:
    cluster = cluster_of(9)
    first, second = workers(cluster, "a", 2, None)
    cluster.change(second, gates=("example.com/quota",))
    waiting = {"waiting for scheduling gate example.com/quota of job ns/a"}
    assert reasons(cluster, first.name) == waiting
    assert cluster.planned_nodes() == {}
    cluster.change(second, gates=())
    assert cluster.place(first.name) == "n0"


# --- incremental counts against counting again

apps = st.sampled_from(["a", "b"])
selectors = st.builds(
    lambda name, namespace, requirements: PodSelector(
        (Requirement("app", "In", (name,)),), (namespace,), requirements
    ),
    apps,
    st.sampled_from(["ns", "x"]),
    st.sampled_from([None, None, (), (Requirement("team", "In", ("t",)),)]),
)
rules = st.none() | st.builds(
    PodRules,
    st.sampled_from([(), (HostPort(80),), (HostPort(80, "TCP", "1.1.1.1"),)]),
    st.lists(st.builds(AffinityTerm, st.just("zone"), selectors), max_size=1).map(tuple),
    st.lists(st.builds(AffinityTerm, st.just("zone"), selectors), max_size=1).map(tuple),
    st.lists(st.builds(SpreadConstraint, st.just("zone"), st.just(1), selectors), max_size=1).map(
        tuple
    ),
)
occupants = st.builds(
    lambda node, namespace, name, found, leaving: Occupant(
        node, namespace, (("app", name),), found, leaving
    ),
    st.sampled_from(["n0", "n1"]),
    st.sampled_from(["ns", "x"]),
    apps,
    rules,
    st.booleans(),
)
members = st.builds(
    lambda name, found: Member(
        Role.WORKER, 0, ReplicaSpec(Resources(cpu=1)), None, frozenset(), (("app", name),), found
    ),
    apps,
    rules,
)
steps = st.lists(st.tuples(st.integers(0, 4), st.none() | occupants | members), max_size=20)


@examples(200)
@given(steps, st.booleans())
def test_kept_counts_are_those_of_counting_again(
    events: list[tuple[int, Occupant | Member | None]], labelled: bool
) -> None:
    occupancy, there = Occupancy(), dict[int, Occupant]()
    if labelled:
        occupancy.set_namespace("x", (("team", "t"),))
    for key, event in events:
        if isinstance(event, Member):
            gang = Gang(JobKey("ns", "j"), "u", (event,))
            rebuilt = Occupancy()
            rebuilt.set_namespace("x", (("team", "t"),) if labelled else ())
            for at, pod in there.items():
                rebuilt.add(at, pod)
            found, expected = occupancy.surroundings(gang), rebuilt.surroundings(gang)
            assert (found is None) == (expected is None)
            if found is not None and expected is not None:
                assert found.counts == expected.counts
                assert {*found.repelling} == {*expected.repelling}
                assert found.ports == expected.ports
                for each in selections_of(event.rules or PodRules()):
                    of_namespaces = {"x": (("team", "t"),)} if labelled else {}
                    by_hand = Counter(
                        pod.node
                        for pod in there.values()
                        if each.matches(pod.namespace, pod.labels, of_namespaces)
                        and not (each.staying and pod.leaving)
                    )
                    assert found.counts[each] == by_hand
            continue
        if key in there:
            occupancy.remove(key, there.pop(key).namespace)
        if event is not None:
            there[key] = event
            occupancy.add(key, event)
