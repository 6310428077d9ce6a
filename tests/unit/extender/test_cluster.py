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
        "it is gone": (None, True),
        "it has ended": (msgspec.structs.replace(POD, phase="Succeeded"), True),
        "it shrinks": (msgspec.structs.replace(POD, resources=Resources(cpu=1)), True),
        "it grows": (msgspec.structs.replace(POD, resources=Resources(cpu=3)), False),
        "nothing changes": (POD, False),
    },
)
def test_a_pod_leaves_room_where(after: Pod | None, releases: bool) -> None:
    cluster = cluster_with(POD)
    cluster.set_pod(POD, after, 5.0)
    assert cluster.released_at == ({"a": 5.0} if releases else {})


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
