"""The cluster as the extender sees it, corrected event by event."""

from collections.abc import Sequence

import msgspec

from extender.state.cluster import Cluster, ProfileRescale
from optimus.jobs import Counts, Job, JobKey, NodeConstraints, ReplicaSpec, Requirement, Role
from optimus.kube.pods import Owner, Pod
from optimus.nodes import Node
from optimus.placement.gang import Gang, Member
from optimus.placement.rules import AffinityTerm, HostPort, PodRules, PodSelector, SpreadConstraint
from optimus.resources import Resources
from optimus.snapshot import ReplicaId
from tests.cases import cases

POD = Pod(
    uid="pod",
    namespace="ns",
    name="pod",
    created_at=0.0,
    node="a",
    resources=Resources(cpu=2),
    constraints=NodeConstraints(),
)
REPLICA = msgspec.structs.replace(POD, replica=ReplicaId("job", Role.WORKER, 0))
NODE = Node("a", Resources(cpu=8))


def cluster_with(*pods: Pod) -> Cluster:
    cluster = Cluster()
    cluster.set_node("a", NODE)
    for pod in pods:
        cluster.set_pod(None, pod)
    return cluster


@cases(
    ("after", "releases"),
    {
        "it is gone": (None, 1),
        "it has ended": (msgspec.structs.replace(POD, phase="Succeeded"), 1),
        "it shrinks": (msgspec.structs.replace(POD, resources=Resources(cpu=1)), 1),
        "it grows": (msgspec.structs.replace(POD, resources=Resources(cpu=3)), 0),
        "nothing changes": (POD, 0),
    },
)
def test_a_pod_leaves_room_where(after: Pod | None, releases: int) -> None:
    cluster = cluster_with(POD)
    cluster.set_pod(POD, after)
    assert cluster.releases == releases
    assert cluster.released_at == ({"a": 1} if releases else {})


def test_a_recreated_node_has_been_left_by_no_pod() -> None:
    cluster = cluster_with(POD)
    cluster.set_pod(POD, None)
    cluster.set_node("a", None)
    cluster.set_node("a", NODE)
    assert cluster.released_at == {}


def test_a_replica_that_is_being_deleted_is_ending_until_it_is_gone() -> None:
    cluster = cluster_with(REPLICA)
    assert cluster.ending == {}
    leaving = msgspec.structs.replace(REPLICA, leaving=True)
    cluster.set_pod(REPLICA, leaving)
    assert cluster.ending == {"pod": leaving}
    cluster.set_pod(leaving, None)
    assert cluster.ending == {}


@cases(
    ("pods", "priority"),
    {
        "the lowest of its pods": ([(5, False), (3, False)], 3),
        "those that are being deleted do not count": ([(5, False), (3, True)], 5),
        "where no other is left they do": ([(5, True), (3, True)], 3),
        "nought without pods": ([], 0),
    },
)
def test_the_priority_of_a_job(pods: Sequence[tuple[int, bool]], priority: int) -> None:
    cluster = cluster_with(
        *(
            msgspec.structs.replace(REPLICA, uid=f"{at}", priority=each, leaving=leaving)
            for at, (each, leaving) in enumerate(pods)
        )
    )
    assert cluster.priority_of("job") == priority


SPEC = ReplicaSpec(Resources(cpu=2))
JOB = Job(
    key=JobKey("ns", "job"),
    uid="job",
    kind="TFJob",
    created_at=0.0,
    counts=Counts(1, 1),
    ps=SPEC,
    worker=SPEC,
)
RESCALE = ProfileRescale("job", "i1", Counts(1, 1), leaving=True)


@cases("job", {"": JOB, "that cannot be read": None})
def test_while_a_rescale_replaces_its_pods_a_job_keeps_its_priority_and_has_run(
    job: Job | None,
) -> None:
    pod = msgspec.structs.replace(REPLICA, priority=5)
    cluster = cluster_with(pod)
    cluster.set_job("job", job, exists=True)
    cluster.set_rescale("job", RESCALE)
    cluster.set_pod(pod, None)
    cluster.set_job("job", job, exists=True)  # a later version of it
    assert cluster.pods == {}
    assert cluster.priority_of("job") == 5
    assert cluster.have_run == {"job"}
    cluster.set_job("job", None)
    assert cluster.priority_of("job") == 0
    assert cluster.have_run == set()


def test_a_job_has_run_until_it_is_gone() -> None:
    cluster = Cluster()
    cluster.set_rescale("job", RESCALE)
    cluster.set_job("job", JOB)
    assert cluster.have_run == {"job"}
    cluster.set_job("job", None)
    assert cluster.have_run == set()


def test_a_job_has_run_with_what_it_held_or_was_to_have_by_a_rescale() -> None:
    cluster = cluster_with(msgspec.structs.replace(REPLICA, node="a"))
    held = REPLICA.resources
    assert cluster.ran_with("job", held)
    assert not cluster.ran_with("job", held + held)
    cluster.set_job("job", JOB)
    target = JOB.demand(RESCALE.target)
    cluster.set_rescale("job", RESCALE)
    assert cluster.ran_with("job", target * 9), "while it lasts"
    cluster.set_rescale("job", None)
    assert cluster.ran_with("job", target)
    assert not cluster.ran_with("job", target * 9)
    assert cluster.ran_with("of which nothing is known", target)


def test_a_job_that_cannot_be_read_may_run_until_it_is_gone() -> None:
    cluster = cluster_with(REPLICA)
    assert not cluster.may_run("job")
    cluster.set_job("job", None, exists=True)
    assert cluster.may_run("job")
    assert cluster.knows_gang_of(REPLICA)
    cluster.set_job("job", None)
    assert not cluster.may_run("job")
    assert not cluster.knows_gang_of(REPLICA)


def test_pods_that_need_a_node_are_counted_until_they_have_one_or_are_gone() -> None:
    first = msgspec.structs.replace(REPLICA, node=None)
    second = msgspec.structs.replace(first, uid="second")
    of_other = msgspec.structs.replace(first, uid="third", replica=ReplicaId("k", Role.PS, 0))
    cluster = cluster_with(first, second, of_other, POD)
    assert cluster.waiting_jobs() == ("job", "k")
    assert [cluster.waiting_count(each) for each in ("job", "k", "nobody")] == [2, 1, 0]
    assert cluster.waiting_pods("job") == [first, second]
    assert cluster.have_run == set()
    bound = msgspec.structs.replace(first, node="a")
    cluster.set_pod(first, bound)
    assert (cluster.waiting_count("job"), cluster.waiting_pods("job")) == (1, [second])
    assert cluster.have_run == {"job"}
    leaving = msgspec.structs.replace(second, leaving=True)
    cluster.set_pod(second, leaving)
    assert cluster.waiting_jobs() == ("k",)
    cluster.set_pod(of_other, msgspec.structs.replace(of_other, phase="Failed"))
    assert cluster.waiting_jobs() == ()
    assert cluster.pods_of("job") == {"pod": bound, "second": leaving}
    assert cluster.pods_of("nobody") == {}


def test_a_pod_on_a_node_counts_for_the_rules_of_others_until_it_ends() -> None:
    web = PodSelector((Requirement("app", "In", ("web",)),), ("ns",))
    terms = PodRules(
        ports=(HostPort(80),),
        affinity=(AffinityTerm("zone", web),),
        spread=(SpreadConstraint("zone", 1, web),),
    )
    member = Member(Role.WORKER, 0, SPEC, None, frozenset(), (), terms)
    gang = Gang(JobKey("ns", "k"), "k", (member,))

    def counted(cluster: Cluster) -> set[tuple[bool, int]]:
        """Of each selection, whether pods that are being deleted are left out, and its pods."""
        found = cluster.occupancy.surroundings(gang)
        assert found is not None
        return {(each.staying, nodes.get("a", 0)) for each, nodes in found.counts.items()}

    labels = (("app", "web"),)
    pod = msgspec.structs.replace(POD, labels=labels, rules=PodRules(ports=(HostPort(80),)))
    cluster = cluster_with(pod)
    assert counted(cluster) == {(False, 1), (True, 1)}
    found = cluster.occupancy.surroundings(gang)
    assert found is not None
    assert found.ports == {HostPort(80): frozenset({"a"})}
    leaving = msgspec.structs.replace(pod, leaving=True)
    cluster.set_pod(pod, leaving)
    assert counted(cluster) == {(False, 1), (True, 0)}
    cluster.set_pod(leaving, msgspec.structs.replace(leaving, phase="Succeeded"))
    assert counted(cluster) == {(False, 0), (True, 0)}


OWNED = msgspec.structs.replace(REPLICA, owner=Owner("TFJob", "job", "job"))


@cases(
    ("changed", "of_known_job", "beside_another_pod"),
    {
        "as the job names its pods": ({}, True, True),
        "another kind": ({"owner": Owner("MXJob", "job", "job")}, False, False),
        "another name": ({"owner": Owner("TFJob", "k", "job")}, False, False),
        "another namespace": ({"namespace": "other"}, False, False),
        "no owner": ({"owner": None}, False, False),
        "no replica": ({"replica": None}, False, False),
    },
)
def test_a_pod_is_a_jobs_replica_where_all_that_it_says_of_the_job_is_so(
    changed: dict[str, object], of_known_job: bool, beside_another_pod: bool
) -> None:
    asked = msgspec.structs.replace(OWNED, uid="asked", **changed)
    known = Cluster()
    known.set_job("job", JOB)
    assert known.controls(asked) is of_known_job
    assert cluster_with(OWNED).controls(asked) is beside_another_pod
    assert Cluster().controls(asked) is (asked.owner is not None and asked.replica is not None)


def test_a_node_is_avoided_until_its_time_is_over() -> None:
    cluster = Cluster()
    cluster.set_avoided("job", {"a": 10.0, "b": 20.0})
    cluster.set_avoided("other", {"a": 20.0})
    assert cluster.expire_avoided(9.0) == []
    assert cluster.expire_avoided(10.0) == ["job"]
    assert cluster.avoided_by("job") == {"b"}
    assert sorted(cluster.expire_avoided(20.0)) == ["job", "other"]
    assert cluster.avoided_by("job") == cluster.avoided_by("nobody") == frozenset()


def test_a_rescale_holds_until_it_is_over() -> None:
    cluster = Cluster()
    cluster.set_rescale("job", RESCALE)
    assert cluster.rescales == {"job": RESCALE}
    later = ProfileRescale("job", "i2", Counts(1, 2), leaving=False)
    cluster.set_rescale("job", later)
    assert cluster.rescales == {"job": later}
    cluster.set_rescale("job", None)
    cluster.set_rescale("job", None)
    assert cluster.rescales == {}
