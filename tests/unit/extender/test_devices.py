"""Devices that pods claim are counted as a resource of nodes: gangs get all of theirs or none."""

from collections.abc import Callable
from typing import Any

import pytest

from extender.state.devices import resource_of
from optimus.jobs import Counts, Role
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


def test_a_claim_that_is_seen_late_or_early_changes_nothing(cluster: DeviceCluster) -> None:
    """Bindings and allocations are shown by different watches."""
    first, second = cluster.two("a"), cluster.two("b")
    early = cluster.pods[first[0]]
    assert cluster.ask(first[0]).kept == ("n1",)
    cluster.allocate(early, "gpu-0", "n1")
    assert cluster.left("n1") == 0
    cluster.bind(first[0], "n1")
    assert cluster.place(first[1]) == "n1"
    assert cluster.left("n1") == 0
    cluster.allocate(cluster.pods[first[1]], "gpu-1", "n1")
    assert cluster.left("n1") == 0
    assert reasons(cluster, second[0]) == NOT_WHOLE


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


def test_what_a_pod_of_no_job_claims_is_taken_too(cluster: DeviceCluster) -> None:
    other = cluster.other("other", 1, "n1")
    cluster.change(other, device_claims=CLAIMS)
    assert cluster.left("n1") == 1
    names = cluster.two("b")
    assert reasons(cluster, names[0]) == NOT_WHOLE


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


def test_without_the_api_every_pod_is_asked_about_first() -> None:
    cluster = FakeCluster({"n1": 8})
    names = cluster.job("b", 1, 1, device_claims=CLAIMS)
    waiting = {"waiting until every pod of job ns/b has been offered nodes"}
    assert reasons(cluster, names[0]) == waiting
    cluster.ask(names[1])
    assert [cluster.place(name) for name in names] == ["n1", "n1"]


@cases(
    "fields",
    {
        "some are reached by several nodes": {"node": "", "is_countable": False},
        "some share parts": {"is_countable": False},
    },
)
def test_where_devices_cannot_be_counted_every_pod_is_asked_about_first(
    cluster: DeviceCluster, fields: dict[str, Any]
) -> None:
    cluster.events.slice(cluster.slices["n1"], pool("n1", 1, **fields))
    names = cluster.two("b")
    assert reasons(cluster, names[0]) == {
        "waiting until every pod of job ns/b has been offered nodes"
    }
    cluster.ask(names[1])
    assert [cluster.place(name) for name in names] == ["n1", "n1"]


def test_certain_devices_are_asked_about_and_count_at_most(cluster: DeviceCluster) -> None:
    """Not more of them than there are devices of the class."""
    cluster.events.template(template(), template(is_exact=False))
    first, second = cluster.two("a"), cluster.two("b")
    for name in (*first, *second):
        cluster.ask(name)
    assert [cluster.place(name) for name in first] == ["n1", "n1"]
    assert cluster.place(second[0]) is None
    assert cluster.place(second[1]) is None


def test_a_class_within_another_counts_for_both(cluster: DeviceCluster) -> None:
    within = DeviceClass(name="large", values=frozenset({DRIVER, LARGE}))
    cluster.events.device_class(None, within)
    large = Device("large-0", frozenset({DRIVER, LARGE}))
    found = cluster.slices["n1"]
    after = pool("n1", 1, devices=(*found.devices[:1], large))
    cluster.events.slice(found, after)
    request = DeviceRequest("large", 1)
    cluster.events.template(None, ClaimTemplate(namespace="ns", name="large", requests=(request,)))
    claims = (PodClaim("gpu", resource_claim_template_name="large"),)
    cluster.pod("c", Role.WORKER, 0, Counts(0, 1), device_claims=claims)
    assert cluster.place("c-worker-0") == "n1"
    left = cluster.state.reservations.left("n1")
    assert (left[resource_of("gpu")], left[resource_of("large")]) == (1, 0)


def test_a_pool_counts_once_all_its_slices_are_there(cluster: DeviceCluster) -> None:
    old = cluster.slices["n1"]
    first = pool("n1", 1, name="new-1", generation=1, slices=2)
    cluster.events.slice(None, first)
    assert cluster.left("n1") == 0
    cluster.events.slice(None, pool("n1", 3, name="new-2", generation=1, slices=2))
    assert cluster.left("n1") == 4
    cluster.events.slice(old, None)
    assert cluster.left("n1") == 4


def test_gangs_spread_over_the_nodes_that_have_devices() -> None:
    cluster = DeviceCluster(n1=0, n2=1, n3=1)
    assert sorted(map(str, cluster.place_all(cluster.two("a")))) == ["n2", "n3"]
