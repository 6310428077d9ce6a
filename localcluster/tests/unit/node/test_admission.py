"""What a node takes and refuses, and what a pod asks for."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from localcluster.node.admission import NodeAdmission
from tests.cases import cases
from tests.unit.node.pods import container, pod


def asking(cpu: str = "0", **more: str) -> dict[str, Any]:
    """Return a container with these requests."""
    return container(resources={"requests": {"cpu": cpu, **more}})


def node(**capacity: str) -> NodeAdmission:
    """Return a node with two cores and the labels zone=a, tier=3."""
    labels = {"zone": "a", "tier": "3"}
    return NodeAdmission(
        "n1", {"cpu": "2", "memory": "1Gi", "pods": "2", **capacity}, lambda: labels
    )


def test_a_pod_beyond_the_free_capacity_is_refused_with_figures() -> None:
    admission = node()
    assert admission.admit(pod(asking("1500m"), uid="a")) is None
    refused = admission.admit(pod(asking("501m"), uid="b"))
    assert refused is not None
    assert refused.reason == "OutOfcpu"
    assert refused.message.endswith("cpu, requested: 501, used: 1500, capacity: 2000")
    admission.release("a")
    assert admission.admit(pod(asking("501m"), uid="b")) is None


@cases(
    ("requests", "reason"),
    {
        "too much memory": ({"memory": "2Gi"}, "OutOfmemory"),
        "a GPU where there is none": ({"nvidia.com/gpu": "1"}, "OutOfnvidia.com/gpu"),
    },
)
def test_every_resource_is_checked(requests: dict[str, str], reason: str) -> None:
    refused = node().admit(pod(asking("1", **requests)))
    assert refused is not None
    assert refused.reason == reason


def test_the_number_of_pods_is_a_resource() -> None:
    admission = node()
    assert [admission.admit(pod(uid=uid)) for uid in ("a", "b")] == [None, None]
    refused = admission.admit(pod(uid="c"))
    assert refused is not None
    assert refused.reason == "OutOfpods"


def test_a_pod_that_an_earlier_agent_ran_is_never_refused() -> None:
    assert node().admit(pod(asking("9")), running=True) is None


EXPRESSION_CASES = {
    "In": ({"key": "zone", "operator": "In", "values": ["a", "b"]}, True),
    "NotIn": ({"key": "zone", "operator": "NotIn", "values": ["a"]}, False),
    "NotIn of a label that is not there": (
        {"key": "gpu", "operator": "NotIn", "values": ["a"]},
        True,
    ),
    "Exists": ({"key": "gpu", "operator": "Exists"}, False),
    "DoesNotExist": ({"key": "gpu", "operator": "DoesNotExist"}, True),
    "Gt": ({"key": "tier", "operator": "Gt", "values": ["2"]}, True),
    "Lt": ({"key": "tier", "operator": "Lt", "values": ["2"]}, False),
    "Gt of what is no number": ({"key": "zone", "operator": "Gt", "values": ["2"]}, False),
    "an operator that nobody knows": ({"key": "zone", "operator": "Near", "values": ["2"]}, False),
}


@cases(("expression", "fits"), EXPRESSION_CASES)
def test_required_node_affinity(expression: dict[str, Any], *, fits: bool) -> None:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    refused = node().admit(pod(affinity=affinity))
    assert (refused is None) == fits
    assert refused is None or refused.reason == "NodeAffinity"


def test_the_node_selector_and_fields_are_matched() -> None:
    assert node().admit(pod(nodeSelector={"zone": "a"})) is None
    assert node().admit(pod(nodeSelector={"zone": "b"})) is not None
    field = {"key": "metadata.name", "operator": "In", "values": ["n2"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    assert node().admit(pod(affinity=affinity)) is not None


def test_labels_are_those_that_the_node_has_now() -> None:
    labels: dict[str, str] = {}
    admission = NodeAdmission("n1", {"pods": "9"}, lambda: labels)
    assert admission.admit(pod(nodeSelector={"pool": "x"})) is not None
    labels["pool"] = "x"
    assert admission.admit(pod(nodeSelector={"pool": "x"})) is None


def test_a_pod_asks_for_its_peak_of_initialising_and_running() -> None:
    sidecar = {**asking("100m"), "name": "s", "restartPolicy": "Always"}
    init = {**asking("1800m"), "name": "i"}
    raw = pod(asking("300m"), init=(sidecar, init), overhead={"cpu": "150m"})
    refused = node().admit(raw)
    assert refused is not None
    assert "requested: 2050" in refused.message


@given(st.lists(st.integers(0, 1500), max_size=12), st.data())
def test_admitted_pods_never_exceed_the_capacity(
    millicores: list[int], data: st.DataObject
) -> None:
    admission = node(pods="100")
    held: dict[str, int] = {}
    for index, amount in enumerate(millicores):
        if held and index % 3 == 2:
            gone = data.draw(st.sampled_from(sorted(held)))
            admission.release(gone)
            del held[gone]
        admitted = admission.admit(pod(asking(f"{amount}m"), uid=str(index))) is None
        assert admitted == (amount == 0 or sum(held.values()) + amount <= 2000)
        if admitted:
            held[str(index)] = amount
