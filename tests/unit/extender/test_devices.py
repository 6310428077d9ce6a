"""Devices that pods claim are counted as a resource of nodes: gangs get all of theirs or none."""

from collections.abc import Callable
from typing import Any

import pytest

from extender.state.devices import resource_of
from optimus.kube.devices import (
    AllocatedDevice,
    AttributeValue,
    ClaimTemplate,
    Device,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ResourceSlice,
)
from optimus.kube.pods import Pod
from optimus.kube.podspec import PodClaim
from tests.cases import cases
from tests.unit.extender.fake_cluster import FakeCluster, reasons

DRIVER = AttributeValue("", "gpu")
LARGE = AttributeValue("gpu/size", "large")
CLASS = DeviceClass(name="gpu", values=frozenset({DRIVER}))
CLAIMS = (PodClaim("gpu", resource_claim_template_name="one"),)
NOT_WHOLE = {"job ns/b (1 PS + 1 worker) does not fit as a whole"}


def pool(on: str, count: int, **fields: Any) -> ResourceSlice:
    found = tuple(Device(f"gpu-{number}", frozenset({DRIVER})) for number in range(count))
    known = {"name": f"slice-{on}", "pool": ("gpu", on), "node": on, "devices": found}
    return ResourceSlice(**known | fields)


def template(count: int = 1, *, is_exact: bool = True) -> ClaimTemplate:
    request = DeviceRequest("gpu", count, is_exact)
    return ClaimTemplate(namespace="ns", name="one", requests=(request,))


class DeviceCluster(FakeCluster):
    """Nodes of 8 CPUs, with the devices of their names."""

    def __init__(self, **devices: int) -> None:
        super().__init__(dict.fromkeys(devices, 8))
        self.events = self.handlers.device_events
        self.events.device_class(None, CLASS)
        self.events.template(None, template())
        self.slices = {node: pool(node, count) for node, count in devices.items()}
        for found in self.slices.values():
            self.events.slice(None, found)

    def two(self, job: str) -> list[str]:
        """A gang of a PS and a worker with one device each."""
        return self.job(job, 1, 1, device_claims=CLAIMS)

    def place_all(self, names: list[str]) -> list[str | None]:
        for name in names:
            self.ask(name)  # each is asked about before any is answered, where that is needed
        return [self.place(name) for name in names]

    def allocate(self, pod: Pod, device: str, node: str) -> DeviceClaim:
        """The claim that was made for a pod has got a device."""
        claim = DeviceClaim(
            namespace="ns",
            name=f"claim-{pod.name}",
            pod_uid=pod.uid,
            pod_claim="gpu",
            requests=template().requests,
            allocated=(AllocatedDevice(("gpu", node), device),),
        )
        self.events.claim(None, claim)
        return claim

    def left(self, node: str) -> int:
        return self.state.reservations.left(node)[resource_of("gpu")]


@pytest.fixture
def cluster() -> DeviceCluster:
    return DeviceCluster(n1=2)


def test_of_two_gangs_for_the_same_devices_one_gets_all(cluster: DeviceCluster) -> None:
    first, second = cluster.two("a"), cluster.two("b")
    assert cluster.place(first[0]) == "n1"
    assert reasons(cluster, second[0]) == NOT_WHOLE
    assert cluster.place(first[1]) == "n1"
    assert reasons(cluster, second[1]) == NOT_WHOLE
    cluster.assert_not_overcommitted()


def test_devices_are_free_once_their_claim_is_gone_and_not_before(cluster: DeviceCluster) -> None:
    first, second = cluster.two("a"), cluster.two("b")
    cluster.place_all(first)
    claims = [
        cluster.allocate(cluster.pods[name], f"gpu-{number}", "n1")
        for number, name in enumerate(first)
    ]
    assert reasons(cluster, second[0]) == NOT_WHOLE
    cluster.delete(*first)
    assert cluster.left("n1") == 0
    assert reasons(cluster, second[0]) == NOT_WHOLE
    for claim in claims:
        cluster.events.claim(claim, None)
    assert cluster.left("n1") == 2
    cluster.plan()
    assert cluster.place_all(second) == ["n1", "n1"]


def test_a_claim_that_pods_share_is_taken_once_it_has_devices(cluster: DeviceCluster) -> None:
    shared = DeviceClaim(
        namespace="ns",
        name="shared",
        requests=template().requests,
        allocated=(AllocatedDevice(("gpu", "n1"), "gpu-1"),),
    )
    cluster.events.claim(None, shared)
    assert cluster.left("n1") == 1
    cluster.events.claim(shared, None)
    assert cluster.left("n1") == 2


@cases(
    "change",
    {
        "the template comes later": "template",
        "the devices come later": "slice",
        "the class comes later": "class",
    },
)
def test_a_gang_waits_for_what_it_names(change: str) -> None:
    cluster = FakeCluster({"n1": 8})
    events = cluster.handlers.device_events
    shown: dict[str, Callable[[], None]] = {
        "template": lambda: events.template(None, template()),
        "slice": lambda: events.slice(None, pool("n1", 2)),
        "class": lambda: events.device_class(None, CLASS),
    }
    for name, show in shown.items():
        if name != change:
            show()
    names = cluster.job("b", 1, 1, device_claims=CLAIMS)
    assert reasons(cluster, names[0]) == NOT_WHOLE
    shown[change]()
    cluster.plan()
    assert [cluster.place(name) for name in names] == ["n1", "n1"]


def test_pods_that_have_ended_keep_their_devices_until_the_claim_is_released(
    cluster: DeviceCluster,
) -> None:
    (name, *_) = first = cluster.two("a")
    cluster.place_all(first)
    claim = cluster.allocate(cluster.pods[name], "gpu-0", "n1")
    cluster.change(cluster.pods[name], phase="Succeeded")
    assert cluster.left("n1") == 0
    cluster.events.claim(claim, None)
    assert cluster.left("n1") == 1
