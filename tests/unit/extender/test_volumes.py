"""Which nodes the claims of a pod leave to it, and which keep its gang from being planned."""

import json

import msgspec
import pytest

from extender.state.volumes import Volumes
from optimus.jobs import Counts, Requirement, Role
from optimus.kube.volumes import decode_claim, decode_storage_class, decode_volume
from optimus.placement.rules import ClaimedVolume, NodeTerms, PodRules
from tests.unit.extender.fake_cluster import FakeCluster, reasons

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def claim(name: str = "c", annotations: object = None, **spec: object) -> bytes:
    metadata = {"namespace": "ns", "name": name, "annotations": annotations}
    return json.dumps({"metadata": metadata, "spec": {"storageClassName": "s", **spec}}).encode()


def volume(name: str = "v", phase: str = "Available", zone: str = "", **spec: object) -> bytes:
    found: dict[str, object] = {"storageClassName": "s", "capacity": {"storage": "5Gi"}, **spec}
    if zone:
        expression = {"key": "zone", "operator": "In", "values": [zone]}
        terms = [{"matchExpressions": [expression]}]
        found["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return json.dumps(
        {"metadata": {"name": name}, "spec": found, "status": {"phase": phase}}
    ).encode()


def storage_class(provisioner: str = "csi.example.com", **fields: object) -> bytes:
    found = {"volumeBindingMode": "WaitForFirstConsumer", **fields}
    return json.dumps({"metadata": {"name": "s"}, "provisioner": provisioner, **found}).encode()


def claimed(claims: list[bytes], volumes: list[bytes], *classes: bytes) -> ClaimedVolume:
    state = Volumes()
    for each in claims:
        state.set_claim(None, decode_claim(each))
    for each in volumes:
        state.set_volume(None, decode_volume(each))
    for each in classes:
        state.set_class(None, decode_storage_class(each))
    return state.claimed("ns", "c", 0)


def zone(*values: str) -> NodeTerms:
    return ((Requirement("zone", "In", values),),)


LOCAL = storage_class("kubernetes.io/no-provisioner")
ZONES = [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}]


def test_a_bound_claim_restricts_to_the_nodes_of_its_volume() -> None:
    bound = claim(annotations=BOUND, volumeName="v")
    assert claimed([bound], [volume(zone="a")]) == ClaimedVolume(zone("a"))
    assert claimed([bound], [volume()]) == ClaimedVolume()
    assert claimed([bound], [volume(csi={"driver": "d"})]).beyond_plan


@pytest.mark.parametrize(
    ("claims", "volumes", "classes", "problem"),
    [
        pytest.param([], [], [], "persistent volume claim c does not exist", id="no claim"),
        pytest.param(
            [claim(annotations=BOUND, volumeName="v")],
            [],
            [],
            "volume v of persistent volume claim c is missing",
            id="a volume that is gone",
        ),
        pytest.param([claim()], [], [], "storage class s does not exist", id="no storage class"),
        pytest.param(
            [claim()],
            [],
            [storage_class(volumeBindingMode="Immediate")],
            "persistent volume claim c is not bound to a volume yet",
            id="a claim that is bound without waiting for a pod, and is not",
        ),
        pytest.param(
            [claim(resources={"requests": {"storage": "6Gi"}})],
            [volume(zone="a"), volume("w", "Bound"), volume("x", claimRef={"name": "other"})],
            [LOCAL],
            "no volume of storage class s is free for persistent volume claim c",
            id="volumes too small, not available or of another claim",
        ),
        pytest.param(
            [claim()],
            [volume(volumeMode="Block")],
            [LOCAL],
            "no volume of storage class s is free for persistent volume claim c",
            id="a volume of another mode",
        ),
        pytest.param(
            [claim()],
            [volume(phase="Released")],
            [LOCAL],
            "no volume of storage class s is free for persistent volume claim c",
            id="a volume that nobody claims any more and that is not free yet",
        ),
        pytest.param(
            [claim(volumeName="v")],
            [volume()],
            [LOCAL],
            "persistent volume claim c is not bound to a volume yet",
            id="a claim that asks for a volume by its name",
        ),
        pytest.param(
            [claim(storageClassName="")],
            [],
            [],
            "persistent volume claim c is not bound to a volume yet",
            id="a claim without a storage class",
        ),
    ],
)
def test_what_keeps_every_pod_from_being_placed(
    claims: list[bytes], volumes: list[bytes], classes: list[bytes], problem: str
) -> None:
    assert claimed(claims, volumes, *classes).problem == problem


def test_an_unbound_claim_restricts_to_the_nodes_of_volumes_that_suit_it() -> None:
    found = claimed([claim()], [volume("v", zone="a"), volume("w", zone="b")], LOCAL)
    assert found.terms == (*zone("a"), *zone("b"))
    assert found.options == (zone("a"), zone("b"))
    assert found.beyond_plan


def test_an_unbound_claim_for_one_pod_is_not_for_two() -> None:
    once = claim(accessModes=["ReadWriteOncePod"])
    assert claimed([once], [], storage_class()).exclusive
    assert not claimed([claim()], [], storage_class()).exclusive


def test_a_claim_that_is_being_deleted_holds_its_pods_back() -> None:
    state = Volumes()
    state.set_claim(None, msgspec.structs.replace(decode_claim(claim()), leaving=True))
    assert state.claimed("ns", "c", 0).problem == "persistent volume claim c is being deleted"


def test_what_is_gone_counts_no_longer() -> None:
    state, free = Volumes(), decode_volume(volume(zone="a"))
    wanted, bound = decode_claim(claim()), decode_claim(claim(annotations=BOUND, volumeName="v"))
    local = decode_storage_class(LOCAL)
    state.set_class(None, local)
    state.set_volume(None, free)
    state.set_claim(None, wanted)
    assert state.claimed("ns", "c", 0).problem is None
    state.set_volume(free, None)
    assert state.claimed("ns", "c", 0).problem == (
        "no volume of storage class s is free for persistent volume claim c"
    )
    state.set_claim(wanted, bound)
    assert state.claimed("ns", "c", 0).problem == (
        "volume v of persistent volume claim c is missing"
    )
    state.set_class(local, None)
    state.set_claim(bound, wanted)
    assert state.claimed("ns", "c", 0).problem == "storage class s does not exist"
    state.set_claim(wanted, None)
    assert state.claimed("ns", "c", 0).problem == "persistent volume claim c does not exist"


def test_an_unbound_claim_restricts_to_where_its_class_provisions() -> None:
    found = claimed([claim()], [], storage_class(allowedTopologies=ZONES))
    assert found.options == (zone("a"), zone("b"))
    anywhere = claimed([claim()], [volume(zone="a")], storage_class())
    assert (anywhere.terms, anywhere.options, anywhere.beyond_plan) == (None, (), True)


def test_a_claim_for_one_pod_is_refused_to_a_second() -> None:
    state = Volumes()
    once = claim(annotations=BOUND, volumeName="v", accessModes=["ReadWriteOncePod"])
    state.set_claim(None, decode_claim(once))
    state.set_volume(None, decode_volume(volume()))
    assert state.claimed("ns", "c", 0) == ClaimedVolume(exclusive=True)
    problem = "persistent volume claim c is used by another pod (ReadWriteOncePod)"
    assert state.claimed("ns", "c", 1).problem == problem


# --- a gang


def gang_with_claim(count: int) -> FakeCluster:
    cluster = FakeCluster({})
    for at in range(4):
        cluster.node(f"n{at}", 2, zone="ab"[at // 2])
    for at in range(count):
        rules = PodRules(claims=("c",))
        cluster.pod("j", Role.WORKER, at, Counts(0, count), rules=rules)
    return cluster


def test_a_gang_waits_for_its_claim_and_is_placed_where_the_volume_is() -> None:
    cluster = gang_with_claim(4)
    (reason,) = reasons(cluster, "j-worker-0")
    assert reason == (
        "job ns/j (0 PS + 4 workers) does not fit as a whole: "
        "persistent volume claim c does not exist"
    )
    cluster.handlers.volume(None, decode_volume(volume(zone="b")))
    cluster.handlers.claim(None, decode_claim(claim(annotations=BOUND, volumeName="v")))
    cluster.planner.advance()
    placed = [cluster.place(f"j-worker-{at}") for at in range(4)]
    assert sorted(filter(None, placed)) == ["n2", "n2", "n3", "n3"]


def test_a_gang_that_is_too_large_for_the_nodes_of_its_volume_waits_whole() -> None:
    cluster = gang_with_claim(5)
    cluster.handlers.volume(None, decode_volume(volume(zone="b")))
    cluster.handlers.claim(None, decode_claim(claim(annotations=BOUND, volumeName="v")))
    assert reasons(cluster, "j-worker-0") == {
        "job ns/j (0 PS + 5 workers) does not fit as a whole: its volumes leave too few nodes"
    }


def test_pods_that_share_a_claim_are_planned_beside_one_volume() -> None:
    cluster = gang_with_claim(4)
    cluster.bind(cluster.other("other", 1).name, "n0")
    cluster.handlers.storage_class(
        None, decode_storage_class(storage_class(allowedTopologies=ZONES))
    )
    cluster.handlers.claim(None, decode_claim(claim()))
    asked = {reason for at in range(3) for reason in reasons(cluster, f"j-worker-{at}")}
    assert asked == {"waiting until every pod of job ns/j has been offered nodes"}
    cluster.ask("j-worker-3")
    placed = [cluster.place(f"j-worker-{at}") for at in range(4)]
    assert sorted(filter(None, placed)) == ["n2", "n2", "n3", "n3"]


def test_a_claim_for_one_pod_keeps_a_gang_of_two_waiting() -> None:
    cluster = gang_with_claim(2)
    once = claim(annotations=BOUND, volumeName="v", accessModes=["ReadWriteOncePod"])
    cluster.handlers.volume(None, decode_volume(volume()))
    cluster.handlers.claim(None, decode_claim(once))
    (reason,) = reasons(cluster, "j-worker-0")
    assert reason.endswith("one pod alone may mount persistent volume claim c (ReadWriteOncePod)")
