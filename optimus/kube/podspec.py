"""Requests and node constraints of a pod's spec or a job's pod template.

What a pod requests is reckoned as kube-scheduler does (k8s.io/component-helpers
resource.PodRequests): containers and sidecars (init containers that restart) add up; other init
containers run one after the other beside the sidecars before them, so that the largest counts;
pod-level requests replace the sum; overhead comes on top."""

from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple, TypeVar

import msgspec

from optimus.jobs import NodeConstraints, ReplicaSpec, Requirement, Toleration
from optimus.kube.quantity import MOST_KINDS, Amount, most_kinds, requested
from optimus.placement.rules import (
    ANY_ADDRESS,
    AffinityTerm,
    HostPort,
    Labels,
    PodRules,
    PodSelector,
    SpreadConstraint,
)
from optimus.resources import CPU, MEMORY, NONE, PODS, Resources, larger, total

MOST_ITEMS: Final = 128
"""The items that are read of each list that a pod's user writes: labels, selectors, tolerations,
rules, kinds of resources. Further ones are left to kube-scheduler. An object of a megabyte would
take ten times as much here otherwise, for every pod, and once more for each version that a cache
below remembers."""

_MOST_CONTAINERS: Final = 1024
"""The containers of a pod that are counted: no kubelet runs as many."""

_MOST_VALUES: Final = 8192
"""The values that are read of all requirements on a node together: some users name each of their
nodes."""

_Item = TypeVar("_Item")


class _EnvVar(msgspec.Struct, gc=False):
    name: str
    value: str | None = None


class ResourceRequirements(msgspec.Struct, gc=False):
    """Requests and limits, of a container or a pod."""

    requests: dict[str, Amount] | None = None
    limits: dict[str, Amount] | None = None


class _ContainerPort(msgspec.Struct, gc=False, rename="camel"):
    container_port: int = 0
    host_port: int | None = None
    host_ip: str | None = msgspec.field(name="hostIP", default=None)
    protocol: str | None = None


class Container(msgspec.Struct, gc=False, rename="camel"):
    """A container or init container."""

    name: str = ""
    image: str = ""
    ports: list[_ContainerPort] | None = None
    resources: ResourceRequirements | None = None
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


class NodeSelector(msgspec.Struct, gc=False, rename="camel"):
    """Nodes by alternatives of which one must hold whole."""

    node_selector_terms: list[_NodeSelectorTerm] | None = None


class _NodeAffinity(msgspec.Struct, gc=False):
    # Preferences are left to kube-scheduler.
    required: NodeSelector | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )


class LabelSelector(msgspec.Struct, gc=False, rename="camel"):
    """Objects by their labels."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[_NodeSelectorRequirement] | None = None


class _PodAffinityTerm(msgspec.Struct, gc=False, rename="camel"):
    # The API server has turned matchLabelKeys and mismatchLabelKeys into parts of the selector.
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None


class _PodAffinity(msgspec.Struct, gc=False):
    required: list[_PodAffinityTerm] | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )


class _Affinity(msgspec.Struct, gc=False, rename="camel"):
    node_affinity: _NodeAffinity | None = None
    pod_affinity: _PodAffinity | None = None
    pod_anti_affinity: _PodAffinity | None = None


class _SpreadConstraint(msgspec.Struct, gc=False, rename="camel"):
    topology_key: str = ""
    max_skew: int = 1
    when_unsatisfiable: str = ""
    min_domains: int | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class _ClaimSource(msgspec.Struct, gc=False, rename="camel"):
    claim_name: str = ""


class _FieldRef(msgspec.Struct, gc=False, rename="camel"):
    field_path: str = ""


class _DownwardFile(msgspec.Struct, gc=False, rename="camel"):
    field_ref: _FieldRef | None = None


class _DownwardFiles(msgspec.Struct, gc=False):
    items: list[_DownwardFile] | None = None


class _Volume(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    persistent_volume_claim: _ClaimSource | None = None
    downward_api: _DownwardFiles | None = msgspec.field(name="downwardAPI", default=None)
    ephemeral: object = None
    csi: object = None
    gce_persistent_disk: object = None
    aws_elastic_block_store: object = None
    azure_disk: object = None
    iscsi: object = None
    rbd: object = None

    @property
    def is_limited(self) -> bool:
        """kube-scheduler limits how many of these, or which, are on one node."""
        return any(
            each is not None
            for each in (
                self.csi,
                self.gce_persistent_disk,
                self.aws_elastic_block_store,
                self.azure_disk,
                self.iscsi,
                self.rbd,
            )
        )


class _SchedulingGate(msgspec.Struct, gc=False):
    name: str = ""


class _Toleration(msgspec.Struct, gc=False, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class PodClaim(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A claim of devices: one that exists, or that is made for the pod from a template."""

    name: str
    resource_claim_template_name: str | None = None


class PodSpec(msgspec.Struct, gc=False, rename="camel"):
    """The fields of a pod's spec that this software reads."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: dict[str, Amount] | None = None
    resources: ResourceRequirements | None = None
    node_selector: dict[str, str] | None = None
    affinity: _Affinity | None = None
    tolerations: list[_Toleration] | None = None
    scheduler_name: str | None = None
    node_name: str | None = None
    host_network: bool | None = None
    topology_spread_constraints: list[_SpreadConstraint] | None = None
    volumes: list[_Volume] | None = None
    scheduling_gates: list[_SchedulingGate] | None = None
    resource_claims: list[PodClaim] | None = None
    scheduling_group: object = None
    priority: int | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    termination_grace_period_seconds: int | None = None


_ONE_POD = Resources({PODS: 1})


def requests_of(spec: PodSpec) -> Resources:
    """Return what a pod with this spec takes of a node, itself included (``pods`` = 1).

    Raises:
        Malformed: an amount is not a quantity.
    """
    return _of_pod(spec, _requests, requested(spec.overhead))


def _of_pod(
    spec: PodSpec, amounts: Callable[[ResourceRequirements], Resources], overhead: Resources
) -> Resources:
    def of(requirements: ResourceRequirements | None) -> Resources:
        return NONE if requirements is None else amounts(requirements)

    containers = tuple([of(each.resources) for each in (spec.containers or ())[:_MOST_CONTAINERS]])
    before = tuple(
        [
            (container.restart_policy == "Always", of(container.resources))
            for container in (spec.init_containers or ())[:_MOST_CONTAINERS]
        ]
    )
    stated = None if spec.resources is None else amounts(spec.resources)
    summed = _summed if len(containers) + len(before) <= MOST_ITEMS else _summed.__wrapped__
    return _few_kinds(summed(containers, before, stated, overhead))


class Template(NamedTuple):
    """The part of a pod template that admission and quotas look at; equal templates are one
    object."""

    requests: Resources
    limits: Resources
    """A resource of which no container states a limit is not there."""

    priority_class: str
    grace_seconds: int | None


def template_of(spec: PodSpec) -> Template:
    """The template with this spec.

    Raises:
        Malformed: an amount is not a quantity.
    """
    limits, overhead = _of_pod(spec, _limits, NONE), requested(spec.overhead)
    with_overhead = {name: amount + overhead[name] for name, amount in limits.items()}
    del with_overhead[PODS]
    return _shared_template(
        requests_of(spec),
        Resources(with_overhead),
        spec.priority_class_name or "",
        spec.termination_grace_period_seconds,
    )


_shared_template = lru_cache(maxsize=4096)(Template)


@lru_cache(maxsize=4096)
def _summed(
    containers: tuple[Resources, ...],
    init_containers: tuple[tuple[bool, Resources], ...],
    stated: Resources | None,
    overhead: Resources,
) -> Resources:
    """Return what a pod takes, from its parts (of init containers also whether each is a sidecar):
    thousands of pods have the same few."""
    sidecars, first = NONE, NONE
    for is_sidecar, amounts in init_containers:
        if is_sidecar:
            sidecars += amounts
            first = larger(first, sidecars)
        else:
            first = larger(first, sidecars + amounts)
    running = total(containers) + sidecars
    return _with_pod_level(larger(running, first), stated) + overhead + _ONE_POD


def _requests(requirements: ResourceRequirements) -> Resources:
    if not requirements.limits:
        return requested(requirements.requests)
    # The API server turns a limit without a request into a request; a job's template has not been
    # through that yet.
    return requested({**requirements.limits, **(requirements.requests or {})})


def _limits(requirements: ResourceRequirements) -> Resources:
    return requested(requirements.limits)


def _few_kinds(amounts: Resources) -> Resources:
    return Resources(most_kinds(amounts)) if len(amounts) > MOST_KINDS else amounts


def _with_pod_level(summed: Resources, stated: Resources | None) -> Resources:
    if stated is None:
        return summed
    allowed = {
        name: amount
        for name, amount in stated.items()
        if name in (CPU, MEMORY) or name.startswith("hugepages-")
    }
    return Resources({**summed, **allowed})


def _few(items: Iterable[_Item] | None) -> tuple[_Item, ...]:
    return tuple(islice(items or (), MOST_ITEMS))


def constraints_of(spec: PodSpec) -> NodeConstraints:
    """Return which nodes a pod with this spec may go to."""
    selector = tuple(sorted(_few((spec.node_selector or {}).items())))
    affinity, tolerations = _affinity(spec.affinity), _few(spec.tolerations)
    is_small = not affinity or sum(map(_size_of, affinity)) <= MOST_ITEMS
    shared = _shared_constraints if is_small else _shared_constraints.__wrapped__
    return shared(selector, affinity, tolerations)


@lru_cache(maxsize=4096)
def _shared_constraints(
    selector: tuple[tuple[str, str], ...],
    affinity: tuple[tuple[Requirement, ...], ...],
    tolerations: tuple[_Toleration, ...],
) -> NodeConstraints:
    """One object for thousands of pods."""
    return NodeConstraints(
        selector, affinity, tuple(_toleration(toleration) for toleration in tolerations)
    )


def rules_of(spec: PodSpec, namespace: str, name: str, labels: Labels) -> PodRules | None:
    """The rules of a pod that concern other pods, ports and volumes; ``None`` where it has none.

    Equal rules are one object, however many pods have them."""
    affinity = spec.affinity
    ports, claims = _host_ports(spec), _claims(spec, name)
    if not (ports or claims or affinity or spec.topology_spread_constraints):
        return None  # as most pods
    found = PodRules(
        ports=ports,
        affinity=_pod_terms(affinity.pod_affinity if affinity else None, namespace),
        anti_affinity=_pod_terms(affinity.pod_anti_affinity if affinity else None, namespace),
        spread=tuple(
            _spread(constraint, namespace, labels)
            for constraint in _few(spec.topology_spread_constraints)
            if constraint.when_unsatisfiable == "DoNotSchedule"
        ),
        claims=claims,
    )
    if found.is_empty:
        return None
    selectors = [term.selector for term in (*found.affinity, *found.anti_affinity)]
    selectors += [constraint.selector for constraint in found.spread]
    asked = sum(1 + _size_of(selector.requirements or ()) for selector in selectors)
    return _shared_rules(found) if asked + len(ports) <= MOST_ITEMS else found


def beyond_plan(spec: PodSpec) -> bool:
    """Return whether kube-scheduler has rules about such a pod that the plan does not know.

    These are volumes in the pod's own spec of which a node holds only so many, and what its user
    writes beyond that which is read of each list."""
    if any(volume.is_limited for volume in spec.volumes or ()):
        return True
    is_limited = spec.node_selector or (spec.affinity and spec.affinity.node_affinity)
    return bool(is_limited and _is_cut(spec)) or _has_more_kinds(spec)


def _is_cut(spec: PodSpec) -> bool:
    """Return whether the pod may go to fewer nodes than what is read of it says."""
    of_node = spec.affinity.node_affinity if spec.affinity else None
    terms = of_node.required.node_selector_terms if of_node and of_node.required else None
    lists = [each for term in terms or () for each in (term.match_expressions, term.match_fields)]
    values = sum(1 + len(each.values or ()) for found in lists for each in found or ())
    longest = max([len(spec.node_selector or ()), *(len(found or ()) for found in lists)])
    return longest > MOST_ITEMS or values > _MOST_VALUES


def _has_more_kinds(spec: PodSpec) -> bool:
    """Return whether it has more containers, or names more kinds of resources, than are counted."""
    containers = spec.containers or []
    if spec.init_containers:
        containers = [*containers, *spec.init_containers]
    if len(containers) > _MOST_CONTAINERS:
        return True
    amounts = [spec.overhead] if spec.overhead else []
    for each in containers:
        if each.resources:
            amounts += [each.resources.requests or {}, each.resources.limits or {}]
    if sum(map(len, amounts)) <= MOST_KINDS:
        return False  # as nearly always
    return len({name for each in amounts for name in each}) > MOST_KINDS


@lru_cache(maxsize=4096)
def _shared_rules(rules: PodRules) -> PodRules:
    return rules


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    containers = spec.containers or []
    if not spec.init_containers and not any(container.ports for container in containers):
        return ()  # as most pods
    if spec.init_containers:
        sidecars = [each for each in spec.init_containers if each.restart_policy == "Always"]
        containers = [*containers, *sidecars]
    found = set[HostPort]()
    for container in containers[:_MOST_CONTAINERS]:
        for port in container.ports or ():
            if len(found) == MOST_ITEMS:
                break
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number > 0:
                found.add(HostPort(number, port.protocol or "TCP", port.host_ip or ANY_ADDRESS))
    return tuple(sorted(found))


def _pod_terms(affinity: _PodAffinity | None, namespace: str) -> tuple[AffinityTerm, ...]:
    return tuple(
        AffinityTerm(term.topology_key, _pod_selector(term, namespace))
        for term in _few(affinity.required if affinity else None)
    )


def _pod_selector(term: _PodAffinityTerm, namespace: str) -> PodSelector:
    chosen = label_requirements(term.namespace_selector)
    # Kubernetes: without either, the pod's own namespace is meant.
    own = () if term.namespaces or chosen is not None else (namespace,)
    namespaces = tuple(sorted({*(term.namespaces or ()), *own}))
    return PodSelector(label_requirements(term.label_selector), namespaces, chosen)


def label_requirements(selector: LabelSelector | None) -> tuple[Requirement, ...] | None:
    """Return what labels must fulfil, all of it; ``None`` without a selector."""
    if selector is None:
        return None
    equal = [
        Requirement(key, "In", (value,))
        for key, value in sorted(_few((selector.match_labels or {}).items()))
    ]
    further = [
        _requirement(expression, field=False) for expression in _few(selector.match_expressions)
    ]
    return (*equal, *further)


def _spread(raw: _SpreadConstraint, namespace: str, labels: Labels) -> SpreadConstraint:
    requirements = label_requirements(raw.label_selector)
    if requirements is not None:
        own, keys = dict(labels), raw.match_label_keys or ()
        same = [Requirement(key, "In", (own[key],)) for key in keys if key in own]
        # A newer API server has written them into the selector already.
        requirements += tuple(each for each in same if each not in requirements)
    return SpreadConstraint(
        raw.topology_key,
        raw.max_skew,
        PodSelector(requirements, (namespace,)),
        raw.min_domains or 1,
        honours_affinity=raw.node_affinity_policy != "Ignore",
        honours_taints=raw.node_taints_policy == "Honor",
    )


def _claims(spec: PodSpec, name: str) -> tuple[str, ...]:
    found = set()
    for volume in spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            found.add(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            found.add(f"{name}-{volume.name}")  # Kubernetes names the claim of the pod so
    return tuple(sorted(found))


def shows_annotation(spec: PodSpec, annotation: str) -> bool:
    """A file in the pod has the value of this annotation of it: a downward API volume."""
    path = f"metadata.annotations['{annotation}']"
    return any(
        file.field_ref is not None and file.field_ref.field_path == path
        for volume in _few(spec.volumes)
        if volume.downward_api is not None
        for file in _few(volume.downward_api.items)
    )


def replica_spec(spec: PodSpec) -> ReplicaSpec:
    """Return what one replica with this template requests, and where it may go.

    Raises:
        Malformed: an amount is not a quantity.
    """
    return ReplicaSpec(requests_of(spec), constraints_of(spec))


def _affinity(affinity: _Affinity | None) -> tuple[tuple[Requirement, ...], ...]:
    of_node = affinity.node_affinity if affinity else None
    required = of_node.required if of_node else None
    return () if required is None else node_terms(required)


def node_terms(selector: NodeSelector) -> tuple[tuple[Requirement, ...], ...]:
    """The alternatives of a node selector."""
    found, left = list[tuple[Requirement, ...]](), _MOST_VALUES
    for term in map(_term, _few(selector.node_selector_terms)):
        left -= _size_of(term)
        if left < 0:
            break
        found.append(term)
    return tuple(found)


def _term(term: _NodeSelectorTerm) -> tuple[Requirement, ...]:
    labels = (_requirement(raw, field=False) for raw in _few(term.match_expressions))
    fields = (_requirement(raw, field=True) for raw in _few(term.match_fields))
    return (*labels, *fields)


def _size_of(term: tuple[Requirement, ...]) -> int:
    return sum(1 + len(requirement.values) for requirement in term)


def _requirement(raw: _NodeSelectorRequirement, *, field: bool) -> Requirement:
    return Requirement(raw.key, raw.operator, tuple((raw.values or ())[:_MOST_VALUES]), field)


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
