"""Which nodes the claims of a pod leave to it, and which keep its gang from being planned."""

import json

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
        "job ns/j (4 workers) does not fit as a whole: persistent volume claim c does not exist"
    )
    cluster.handlers.volume(None, decode_volume(volume(zone="b")))
    cluster.handlers.claim(None, decode_claim(claim(annotations=BOUND, volumeName="v")))
    cluster.plan()
    placed = [cluster.place(f"j-worker-{at}") for at in range(4)]
    assert sorted(filter(None, placed)) == ["n2", "n2", "n3", "n3"]


def test_pods_that_share_a_claim_are_planned_beside_one_volume() -> None:
    cluster = gang_with_claim(4)
    cluster.bind(cluster.other("other", 1).name, "n0")
    cluster.handlers.storage_class(
        None, decode_storage_class(storage_class(allowedTopologies=ZONES))
    )
    cluster.handlers.claim(None, decode_claim(claim()))
    placed = [cluster.place(f"j-worker-{at}") for at in range(4)]
    assert sorted(filter(None, placed)) == ["n2", "n2", "n3", "n3"]
