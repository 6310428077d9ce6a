"""What a pod's spec and status say about other pods, ports, volumes, gates and resizes."""

from typing import Any

from optimus.jobs import Requirement
from optimus.kube.pods import Pod
from optimus.placement.rules import AffinityTerm, HostPort, PodRules, PodSelector, SpreadConstraint
from tests.cases import cases
from tests.unit.kube.test_pods import container, decoded

APP = PodSelector((Requirement("app", "In", ("a",)),), ("ns",))
SELECTOR = {"matchLabels": {"app": "a"}}


def with_spec(**spec: Any) -> Pod:
    return decoded({"containers": [container()], **spec}, labels={"app": "a", "rev": "7"})


def port(**fields: object) -> dict[str, object]:
    return container(ports=[fields])


def anti(**term: object) -> dict[str, Any]:
    required = [{"topologyKey": "zone", "labelSelector": SELECTOR, **term}]
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def spread(**fields: object) -> list[dict[str, object]]:
    common = {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}
    return [{**common, "labelSelector": SELECTOR, **fields}]


@cases(
    ("spec", "ports"),
    {
        "a host port": ({"containers": [port(containerPort=80, hostPort=8080)]}, (HostPort(8080),)),
        "of one address and another protocol": (
            {
                "containers": [
                    port(containerPort=80, hostPort=8080, protocol="UDP", hostIP="1.2.3.4")
                ]
            },
            (HostPort(8080, "UDP", "1.2.3.4"),),
        ),
        "in the node's network every port is the node's": (
            {"containers": [port(containerPort=80)], "hostNetwork": True},
            (HostPort(80),),
        ),
        "a sidecar's port counts, an init container's does not": (
            {
                "containers": [container()],
                "initContainers": [
                    {**port(containerPort=1, hostPort=1), "restartPolicy": "Always"},
                    port(containerPort=2, hostPort=2),
                ],
            },
            (HostPort(1),),
        ),
    },
)
def test_host_ports(spec: dict[str, Any], ports: tuple[HostPort, ...]) -> None:
    assert decoded(spec).rules == PodRules(ports=ports)


def test_ports_conflict_where_number_and_protocol_are_equal_and_an_address_is_shared() -> None:
    every, one = HostPort(80), HostPort(80, "TCP", "10.0.0.1")
    assert every.conflicts_with(one)
    assert one.conflicts_with(every)
    assert one.conflicts_with(one)
    assert not one.conflicts_with(HostPort(80, "TCP", "10.0.0.2"))
    assert not every.conflicts_with(HostPort(80, "UDP"))
    assert not every.conflicts_with(HostPort(81))


@cases(
    ("term", "selector"),
    {
        "the pod's own namespace": ({}, APP),
        "namespaces by name": (
            {"namespaces": ["x", "b"]},
            PodSelector(APP.requirements, ("b", "x")),
        ),
        "every namespace": ({"namespaceSelector": {}}, PodSelector(APP.requirements, (), ())),
        "namespaces by label and by name": (
            {"namespaceSelector": {"matchLabels": {"team": "t"}}, "namespaces": ["b"]},
            PodSelector(APP.requirements, ("b",), (Requirement("team", "In", ("t",)),)),
        ),
        "selects no pod": ({"labelSelector": None}, PodSelector(None, ("ns",))),
        "selects every pod": ({"labelSelector": {}}, PodSelector((), ("ns",))),
    },
)
def test_required_anti_affinity(term: dict[str, object], selector: PodSelector) -> None:
    rules = with_spec(affinity=anti(**term)).rules
    assert rules == PodRules(anti_affinity=(AffinityTerm("zone", selector),))


def test_required_affinity_and_no_preferred_one() -> None:
    term = {"topologyKey": "zone", "labelSelector": SELECTOR}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": term}]}
    assert (
        with_spec(affinity={"podAffinity": preferred, "podAntiAffinity": preferred}).rules is None
    )
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    rules = with_spec(affinity={"podAffinity": required}).rules
    assert rules == PodRules(affinity=(AffinityTerm("zone", APP),))


@cases(
    ("fields", "constraint"),
    {
        "the defaults of the policies": ({}, SpreadConstraint("zone", 2, APP)),
        "other policies and a least number of domains": (
            {"minDomains": 3, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"},
            SpreadConstraint("zone", 2, APP, 3, honours_affinity=False, honours_taints=True),
        ),
        "label keys of which the pod's own values count": (
            {"matchLabelKeys": ["rev", "absent"]},
            SpreadConstraint(
                "zone",
                2,
                PodSelector((*(APP.requirements or ()), Requirement("rev", "In", ("7",))), ("ns",)),
            ),
        ),
    },
)
def test_topology_spread(fields: dict[str, object], constraint: SpreadConstraint) -> None:
    rules = with_spec(topologySpreadConstraints=spread(**fields)).rules
    assert rules == PodRules(spread=(constraint,))


def test_a_spread_that_may_be_broken_is_no_rule() -> None:
    anyway = spread(whenUnsatisfiable="ScheduleAnyway")
    assert with_spec(topologySpreadConstraints=anyway).rules is None


def test_claims_by_name_and_those_made_for_the_pod() -> None:
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "shared"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "other", "emptyDir": {}},
    ]
    pod = with_spec(volumes=volumes)
    assert pod.rules == PodRules(claims=("p-scratch", "shared"))
    assert not pod.beyond_plan


@cases(
    "spec",
    {
        "an inline volume": {"volumes": [{"name": "v", "csi": {"driver": "d"}}]},
        "an iSCSI volume": {"volumes": [{"name": "v", "iscsi": {"iqn": "i"}}]},
    },
)
def test_what_only_kube_scheduler_can_answer(spec: dict[str, Any]) -> None:
    assert with_spec(**spec).beyond_plan


def test_labels_are_in_order_and_shared_rules_are_one_object() -> None:
    one, two = (with_spec(affinity=anti()) for _ in range(2))
    assert one.labels == (("app", "a"), ("rev", "7"))
    assert all(mine is yours for mine, yours in zip(one.labels, two.labels, strict=True))
    assert one.rules is two.rules
