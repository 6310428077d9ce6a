"""What a node takes and refuses, and what a pod asks for."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from localcluster.node.admission import NodeAdmission
from tests.unit.node.pods import container, pod


def asking(cpu: str = "0", **more: str) -> dict[str, Any]:
    """Return a container with these requests."""
    return container(resources={"requests": {"cpu": cpu, **more}})


def node(**capacity: str) -> NodeAdmission:
    """Return a node with two cores."""
    return NodeAdmission({"cpu": "2", "memory": "1Gi", "pods": "2", **capacity})


def test_a_pod_beyond_the_free_capacity_is_refused_with_figures() -> None:
    admission = node()
    assert admission.admit(pod(asking("1500m"), uid="a")) is None
    refused = admission.admit(pod(asking("501m"), uid="b"))
    assert refused is not None
    assert refused.reason == "OutOfcpu"
    assert refused.message.endswith("cpu, requested: 501, used: 1500, capacity: 2000")
    admission.release("a")
    assert admission.admit(pod(asking("501m"), uid="b")) is None


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
