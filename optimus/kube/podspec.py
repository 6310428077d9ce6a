"""Requests and node constraints of a pod's spec or a job's pod template.

What a pod requests is reckoned as kube-scheduler does (k8s.io/component-helpers
resource.PodRequests): containers and sidecars (init containers that restart) add up; other init
containers run one after the other beside the sidecars before them, so that the largest counts;
pod-level requests replace the sum; overhead comes on top."""

from collections.abc import Collection, Iterable

import msgspec

from optimus.jobs import NodeConstraints, ReplicaSpec, Requirement, Toleration
from optimus.kube.quantity import Amount, requested
from optimus.resources import CPU, MEMORY, NONE, PODS, Resources, total


class _EnvVar(msgspec.Struct, gc=False):
    name: str
    value: str | None = None


class _ResourceRequirements(msgspec.Struct, gc=False):
    requests: dict[str, Amount] | None = None
    limits: dict[str, Amount] | None = None


class Container(msgspec.Struct, gc=False, rename="camel"):
    """A container or init container."""

    name: str = ""
    resources: _ResourceRequirements | None = None
    env: list[_EnvVar] | None = None
    restart_policy: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None


class _NodeSelectorRequirement(msgspec.Struct, gc=False):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _NodeSelectorTerm(msgspec.Struct, gc=False, rename="camel"):
    match_expressions: list[_NodeSelectorRequirement] | None = None
    match_fields: list[_NodeSelectorRequirement] | None = None


class _NodeSelector(msgspec.Struct, gc=False, rename="camel"):
    node_selector_terms: list[_NodeSelectorTerm] | None = None


class _NodeAffinity(msgspec.Struct, gc=False):
    # Preferences are left to kube-scheduler.
    required: _NodeSelector | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )


class _Affinity(msgspec.Struct, gc=False, rename="camel"):
    # Affinity to other pods cannot be planned before these are placed.
    node_affinity: _NodeAffinity | None = None


class _Toleration(msgspec.Struct, gc=False):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class PodSpec(msgspec.Struct, gc=False, rename="camel"):
    """The fields of a pod's spec that this software reads."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: dict[str, Amount] | None = None
    resources: _ResourceRequirements | None = None
    node_selector: dict[str, str] | None = None
    affinity: _Affinity | None = None
    tolerations: list[_Toleration] | None = None
    scheduler_name: str | None = None
    node_name: str | None = None


_ONE_POD = Resources({PODS: 1})


def requests_of(spec: PodSpec) -> Resources:
    """What a pod with this spec takes of a node, itself included (``pods`` = 1).

    Raises:
        Malformed: an amount is not a quantity.
    """
    sidecars, first = NONE, NONE
    for container in spec.init_containers or ():
        if container.restart_policy == "Always":
            sidecars += _amounts(container.resources)
            first = _larger(first, sidecars)
        else:
            first = _larger(first, sidecars + _amounts(container.resources))
    running = total(_amounts(container.resources) for container in spec.containers or ()) + sidecars
    return _with_pod_level(_larger(running, first), spec) + requested(spec.overhead) + _ONE_POD


def _amounts(requirements: _ResourceRequirements | None) -> Resources:
    if requirements is None:
        return NONE
    # The API server turns a limit without a request into a request; a job's template has not been
    # through that yet.
    return requested({**(requirements.limits or {}), **(requirements.requests or {})})


def _larger(left: Resources, right: Resources) -> Resources:
    return Resources({name: max(left[name], right[name]) for name in {*left, *right}})


def _with_pod_level(summed: Resources, spec: PodSpec) -> Resources:
    if spec.resources is None:
        return summed
    stated = _amounts(spec.resources)
    allowed = {
        name: amount
        for name, amount in stated.items()
        if name in (CPU, MEMORY) or name.startswith("hugepages-")
    }
    return Resources({**summed, **allowed})


def constraints_of(spec: PodSpec) -> NodeConstraints:
    """Which nodes a pod with this spec may go to."""
    return NodeConstraints(
        selector=tuple(sorted((spec.node_selector or {}).items())),
        affinity=_affinity(spec.affinity),
        tolerations=tuple(_toleration(toleration) for toleration in spec.tolerations or ()),
    )


def replica_spec(spec: PodSpec) -> ReplicaSpec:
    """What one replica with this template asks for, and where it may go.

    Raises:
        Malformed: an amount is not a quantity.
    """
    return ReplicaSpec(requests_of(spec), constraints_of(spec))


def _affinity(affinity: _Affinity | None) -> tuple[tuple[Requirement, ...], ...]:
    of_node = affinity.node_affinity if affinity else None
    required = of_node.required if of_node else None
    return tuple(_term(term) for term in (required.node_selector_terms if required else None) or ())


def _term(term: _NodeSelectorTerm) -> tuple[Requirement, ...]:
    labels = (_requirement(raw, field=False) for raw in term.match_expressions or ())
    fields = (_requirement(raw, field=True) for raw in term.match_fields or ())
    return (*labels, *fields)


def _requirement(raw: _NodeSelectorRequirement, *, field: bool) -> Requirement:
    return Requirement(raw.key, raw.operator, tuple(raw.values or ()), field)


def _toleration(raw: _Toleration) -> Toleration:
    return Toleration(raw.key or "", raw.operator or "Equal", raw.value or "", raw.effect or "")


def environment_value(
    containers: Iterable[Container], names: Collection[str]
) -> tuple[str, str] | None:
    """Name and value of the first of these environment variables that has a value.

    Of several in one container the last one counts, as it does for the process.
    """
    for container in containers:
        for variable in reversed(container.env or ()):
            if variable.name in names and variable.value:
                return variable.name, variable.value
    return None
