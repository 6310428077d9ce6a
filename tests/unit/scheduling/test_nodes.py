"""Node admission as in kube-scheduler: cordons, taints, selectors, affinity."""

from optimus.jobs import NodeConstraints, Requirement, Toleration
from optimus.nodes import Node, Taint, refusal
from tests.cases import cases

NODE = Node("n1", labels={"zone": "a", "cores": "16"}, taints=())
TAINTED = Node("n2", taints=(Taint("optimus.dl/training", "true"),))


def affinity(*requirements: Requirement) -> NodeConstraints:
    return NodeConstraints(affinity=(requirements,))


@cases(
    ("node", "constraints"),
    {
        "no constraints": (NODE, NodeConstraints()),
        "the selector's label is there": (NODE, NodeConstraints(selector=(("zone", "a"),))),
        "Exists tolerates any value": (
            TAINTED,
            NodeConstraints(tolerations=(Toleration("optimus.dl/training", "Exists"),)),
        ),
        "Equal tolerates the same value": (
            TAINTED,
            NodeConstraints(
                tolerations=(Toleration("optimus.dl/training", "Equal", "true", "NoSchedule"),)
            ),
        ),
        "no key with Exists tolerates all": (
            TAINTED,
            NodeConstraints(tolerations=(Toleration(operator="Exists"),)),
        ),
        "a soft taint repels none": (
            Node("n3", taints=(Taint("soft", effect="PreferNoSchedule"),)),
            NodeConstraints(),
        ),
        "a cordon can be tolerated": (
            Node("n4", cordoned=True),
            NodeConstraints(
                tolerations=(Toleration("node.kubernetes.io/unschedulable", "Exists"),)
            ),
        ),
        "In": (NODE, affinity(Requirement("zone", "In", ("a", "b")))),
        "NotIn": (NODE, affinity(Requirement("zone", "NotIn", ("b",)))),
        "NotIn holds where the label is absent": (
            NODE,
            affinity(Requirement("gone", "NotIn", ("b",))),
        ),
        "DoesNotExist": (NODE, affinity(Requirement("gone", "DoesNotExist"))),
        "Gt compares numbers": (NODE, affinity(Requirement("cores", "Gt", ("8",)))),
        "a field asks for the name": (
            NODE,
            affinity(Requirement("metadata.name", "In", ("n1",), field=True)),
        ),
        "one alternative that holds is enough": (
            NODE,
            NodeConstraints(
                affinity=((Requirement("zone", "In", ("b",)),), (Requirement("zone", "Exists"),))
            ),
        ),
    },
)
def test_admits(node: Node, constraints: NodeConstraints) -> None:
    assert refusal(node, constraints) is None


@cases(
    ("node", "constraints", "reason"),
    {
        "cordoned": (Node("n", cordoned=True), NodeConstraints(), "node is cordoned"),
        "taint": (TAINTED, NodeConstraints(), "taint optimus.dl/training is not tolerated"),
        "another value": (
            TAINTED,
            NodeConstraints(tolerations=(Toleration("optimus.dl/training", "Equal", "no"),)),
            "taint optimus.dl/training is not tolerated",
        ),
        "another effect": (
            TAINTED,
            NodeConstraints(
                tolerations=(Toleration("optimus.dl/training", "Exists", "", "NoExecute"),)
            ),
            "taint optimus.dl/training is not tolerated",
        ),
        "another label value": (
            NODE,
            NodeConstraints(selector=(("zone", "b"),)),
            "node selector does not match",
        ),
        "In without the value": (
            NODE,
            affinity(Requirement("zone", "In", ("b",))),
            "node affinity does not match",
        ),
        "Gt of no number": (
            NODE,
            affinity(Requirement("zone", "Gt", ("8",))),
            "node affinity does not match",
        ),
        "an empty term matches nothing": (NODE, affinity(), "node affinity does not match"),
        "unknown operator": (
            NODE,
            affinity(Requirement("zone", "Near", ("a",))),
            "node affinity does not match",
        ),
    },
)
def test_refuses_with_a_reason(node: Node, constraints: NodeConstraints, reason: str) -> None:
    assert refusal(node, constraints) == reason
