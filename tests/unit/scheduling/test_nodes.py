"""Node admission as in kube-scheduler: cordons, taints, selectors, affinity."""

import pytest

from optimus.jobs import NodeConstraints, Requirement, Toleration
from optimus.nodes import Node, Taint, refusal

NODE = Node("n1", labels={"zone": "a", "cores": "16"}, taints=())
TAINTED = Node("n2", taints=(Taint("optimus.dl/training", "true"),))


def affinity(*requirements: Requirement) -> NodeConstraints:
    return NodeConstraints(affinity=(requirements,))


@pytest.mark.parametrize(
    ("node", "constraints"),
    [
        pytest.param(NODE, NodeConstraints(), id="no constraints"),
        pytest.param(
            NODE, NodeConstraints(selector=(("zone", "a"),)), id="the selector's label is there"
        ),
        pytest.param(
            TAINTED,
            NodeConstraints(tolerations=(Toleration("optimus.dl/training", "Exists"),)),
            id="Exists tolerates any value",
        ),
        pytest.param(
            TAINTED,
            NodeConstraints(
                tolerations=(Toleration("optimus.dl/training", "Equal", "true", "NoSchedule"),)
            ),
            id="Equal tolerates the same value",
        ),
        pytest.param(
            TAINTED,
            NodeConstraints(tolerations=(Toleration(operator="Exists"),)),
            id="no key with Exists tolerates all",
        ),
        pytest.param(
            Node("n3", taints=(Taint("soft", effect="PreferNoSchedule"),)),
            NodeConstraints(),
            id="a soft taint repels none",
        ),
        pytest.param(
            Node("n4", cordoned=True),
            NodeConstraints(
                tolerations=(Toleration("node.kubernetes.io/unschedulable", "Exists"),)
            ),
            id="a cordon can be tolerated",
        ),
        pytest.param(NODE, affinity(Requirement("zone", "In", ("a", "b"))), id="In"),
        pytest.param(NODE, affinity(Requirement("zone", "NotIn", ("b",))), id="NotIn"),
        pytest.param(
            NODE,
            affinity(Requirement("gone", "NotIn", ("b",))),
            id="NotIn holds where the label is absent",
        ),
        pytest.param(NODE, affinity(Requirement("gone", "DoesNotExist")), id="DoesNotExist"),
        pytest.param(NODE, affinity(Requirement("cores", "Gt", ("8",))), id="Gt compares numbers"),
        pytest.param(
            NODE,
            affinity(Requirement("metadata.name", "In", ("n1",), field=True)),
            id="a field asks for the name",
        ),
        pytest.param(
            NODE,
            NodeConstraints(
                affinity=((Requirement("zone", "In", ("b",)),), (Requirement("zone", "Exists"),))
            ),
            id="one alternative that holds is enough",
        ),
    ],
)
def test_admits(node: Node, constraints: NodeConstraints) -> None:
    assert refusal(node, constraints) is None


@pytest.mark.parametrize(
    ("node", "constraints", "reason"),
    [
        pytest.param(
            Node("n", cordoned=True), NodeConstraints(), "node is cordoned", id="cordoned"
        ),
        pytest.param(
            TAINTED, NodeConstraints(), "taint optimus.dl/training is not tolerated", id="taint"
        ),
        pytest.param(
            TAINTED,
            NodeConstraints(tolerations=(Toleration("optimus.dl/training", "Equal", "no"),)),
            "taint optimus.dl/training is not tolerated",
            id="another value",
        ),
        pytest.param(
            TAINTED,
            NodeConstraints(
                tolerations=(Toleration("optimus.dl/training", "Exists", "", "NoExecute"),)
            ),
            "taint optimus.dl/training is not tolerated",
            id="another effect",
        ),
        pytest.param(
            NODE,
            NodeConstraints(selector=(("zone", "b"),)),
            "node selector does not match",
            id="another label value",
        ),
        pytest.param(
            NODE,
            affinity(Requirement("zone", "In", ("b",))),
            "node affinity does not match",
            id="In without the value",
        ),
        pytest.param(
            NODE,
            affinity(Requirement("zone", "Gt", ("8",))),
            "node affinity does not match",
            id="Gt of no number",
        ),
        pytest.param(
            NODE, affinity(), "node affinity does not match", id="an empty term matches nothing"
        ),
        pytest.param(
            NODE,
            affinity(Requirement("zone", "Near", ("a",))),
            "node affinity does not match",
            id="unknown operator",
        ),
    ],
)
def test_refuses_with_a_reason(node: Node, constraints: NodeConstraints, reason: str) -> None:
    assert refusal(node, constraints) == reason
