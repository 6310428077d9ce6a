"""What a node takes and refuses, and what a pod asks for."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.node.admission import NodeBooks, pod_requests
from localcluster.node.quantity import canonical, parse_quantity
from tests.unit.node.pods import container, pod


def asking(cpu: str = "0", **more: str) -> dict[str, Any]:
    """Return a container with these requests."""
    return container(resources={"requests": {"cpu": cpu, **more}})


def books(**capacity: str) -> NodeBooks:
    """Return the books of a node with two cores and labels zone=a, tier=3."""
    labels = {"zone": "a", "tier": "3"}
    return NodeBooks("n1", {"cpu": "2", "memory": "1Gi", "pods": "2", **capacity}, lambda: labels)


def test_a_pod_over_what_is_left_is_refused_with_figures() -> None:
    node = books()
    assert node.admit(pod(asking("1500m"), uid="a")) is None
    refused = node.admit(pod(asking("501m"), uid="b"))
    assert refused is not None
    assert refused.reason == "OutOfcpu"
    assert refused.message.endswith("cpu, requested: 501, used: 1500, capacity: 2000")
    node.release("a")
    assert node.admit(pod(asking("501m"), uid="b")) is None


@pytest.mark.parametrize(
    ("requests", "reason"),
    [
        pytest.param({"memory": "2Gi"}, "OutOfmemory", id="too much memory"),
        pytest.param(
            {"nvidia.com/gpu": "1"}, "OutOfnvidia.com/gpu", id="a GPU where there is none"
        ),
    ],
)
def test_every_resource_is_checked(requests: dict[str, str], reason: str) -> None:
    refused = books().admit(pod(asking("1", **requests)))
    assert refused is not None
    assert refused.reason == reason


def test_the_number_of_pods_is_a_resource() -> None:
    node = books()
    assert [node.admit(pod(uid=uid)) for uid in ("a", "b")] == [None, None]
    refused = node.admit(pod(uid="c"))
    assert refused is not None
    assert refused.reason == "OutOfpods"


def test_a_pod_that_an_earlier_agent_ran_is_never_refused() -> None:
    assert books().admit(pod(asking("9")), running=True) is None


EXPRESSION_CASES = [
    pytest.param({"key": "zone", "operator": "In", "values": ["a", "b"]}, True, id="In"),
    pytest.param({"key": "zone", "operator": "NotIn", "values": ["a"]}, False, id="NotIn"),
    pytest.param(
        {"key": "gpu", "operator": "NotIn", "values": ["a"]},
        True,
        id="NotIn of a label that is not there",
    ),
    pytest.param({"key": "gpu", "operator": "Exists"}, False, id="Exists"),
    pytest.param({"key": "gpu", "operator": "DoesNotExist"}, True, id="DoesNotExist"),
    pytest.param({"key": "tier", "operator": "Gt", "values": ["2"]}, True, id="Gt"),
    pytest.param({"key": "tier", "operator": "Lt", "values": ["2"]}, False, id="Lt"),
    pytest.param(
        {"key": "zone", "operator": "Gt", "values": ["2"]}, False, id="Gt of what is no number"
    ),
    pytest.param(
        {"key": "zone", "operator": "Near", "values": ["2"]},
        False,
        id="an operator that nobody knows",
    ),
]


@pytest.mark.parametrize(("expression", "fits"), EXPRESSION_CASES)
def test_required_node_affinity(expression: dict[str, Any], *, fits: bool) -> None:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    refused = books().admit(pod(affinity=affinity))
    assert (refused is None) == fits
    assert refused is None or refused.reason == "NodeAffinity"


def test_the_node_selector_and_fields_are_matched() -> None:
    assert books().admit(pod(nodeSelector={"zone": "a"})) is None
    assert books().admit(pod(nodeSelector={"zone": "b"})) is not None
    field = {"key": "metadata.name", "operator": "In", "values": ["n2"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    assert books().admit(pod(affinity=affinity)) is not None


def test_labels_are_those_that_the_node_has_now() -> None:
    labels: dict[str, str] = {}
    node = NodeBooks("n1", {"pods": "9"}, lambda: labels)
    assert node.admit(pod(nodeSelector={"pool": "x"})) is not None
    labels["pool"] = "x"
    assert node.admit(pod(nodeSelector={"pool": "x"})) is None


def test_a_pod_asks_for_its_peak_of_initialising_and_running() -> None:
    sidecar = {**asking("100m"), "name": "s", "restartPolicy": "Always"}
    init = {**asking("900m"), "name": "i"}
    total = pod_requests(pod(asking("300m"), init=(sidecar, init), overhead={"cpu": "50m"})["spec"])
    assert total == {"cpu": Decimal("1.05"), "pods": Decimal(1)}
    total = pod_requests(pod(asking("300m"), init=(init, sidecar))["spec"])
    assert total["cpu"] == Decimal("0.9")


def test_a_limit_stands_for_a_missing_request() -> None:
    raw = container(resources={"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}})
    assert pod_requests(pod(raw)["spec"]) == {"cpu": 1, "memory": 2**30, "pods": 1}


@given(st.lists(st.integers(0, 1500), max_size=12), st.data())
def test_what_is_held_never_exceeds_the_capacity(
    millicores: list[int], data: st.DataObject
) -> None:
    node = books(pods="100")
    held: dict[str, int] = {}
    for index, amount in enumerate(millicores):
        if held and index % 3 == 2:
            gone = data.draw(st.sampled_from(sorted(held)))
            node.release(gone)
            del held[gone]
        admitted = node.admit(pod(asking(f"{amount}m"), uid=str(index))) is None
        assert admitted == (amount == 0 or sum(held.values()) + amount <= 2000)
        if admitted:
            held[str(index)] = amount


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("100m", "0.1", id="milli"),
        pytest.param("1.5Gi", "1610612736", id="binary"),
        pytest.param("2k", "2000", id="decimal"),
        pytest.param("1e3", "1000", id="exponent"),
        pytest.param("3E", "3e18", id="exa is no exponent"),
        pytest.param(" 7 ", "7", id="plain"),
    ],
)
def test_quantities(text: str, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize(
    "text", ["", "x", "1Kib", "NaN", "inf", "--1", "1e3m", "1_000", "1 Gi", "."]
)
def test_nonsense_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        pytest.param("0.5", "500m", id="a fraction of a core"),
        pytest.param("0.1", "100m", id="a tenth"),
        pytest.param("1n", "1m", id="no less than a thousandth"),
        pytest.param("2000m", "2", id="thousandths that are whole"),
        pytest.param("1.5Gi", "1536Mi", id="a fraction of a binary unit"),
        pytest.param("1000Ki", "1000Ki", id="a binary unit that is no larger one"),
        pytest.param("1024Mi", "1Gi", id="a larger binary unit"),
        pytest.param("2000k", "2M", id="a larger decimal unit"),
        pytest.param("1000Mi", "1000Mi", id="no mixing of units"),
        pytest.param("-1", "-1", id="less than nothing"),
        pytest.param("0Gi", "0", id="nothing of a unit"),
        pytest.param(0.25, "250m", id="a number"),
        pytest.param("100", "100", id="no trailing zeros are lost"),
    ],
)
def test_quantities_are_written_as_the_api_server_writes_them(
    text: str | float, written: str
) -> None:
    assert canonical(text) == written


@given(st.integers(0, 10**15), st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "Gi"]))
def test_writing_a_quantity_keeps_what_it_says(number: int, unit: str) -> None:
    once = canonical(f"{number}{unit}")
    assert parse_quantity(once) == parse_quantity(f"{number}{unit}")
    assert canonical(once) == once
