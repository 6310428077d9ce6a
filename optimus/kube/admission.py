"""What admission makes of a job's pods: defaults, limits, quotas and priority.

The API server fills in the defaults of LimitRanges, refuses pods outside of their limits, and
charges ResourceQuotas. Here the same is worked out from a job's template before its pods exist, so
that no job is stopped for counts whose pods would be refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

import msgspec

from optimus.jobs import Job, Role
from optimus.kube.errors import Malformed
from optimus.kube.pods import Pod
from optimus.kube.podspec import (
    Container,
    PodSpec,
    ResourceRequirements,
    Template,
    limits_of,
    requests_of,
)
from optimus.kube.quantity import parse_quantity, requested
from optimus.kube.quotas import Bounds, LimitRange, PriorityClass, ResourceQuota, Scope
from optimus.kube.training_jobs import TrainingJob
from optimus.quotas import Quota, QuotaCharge, format_amount
from optimus.resources import CPU, MEMORY, NONE, PODS, Resources, total

_STATED: Final = tuple(
    f"{kind}.{name}" for kind in ("requests", "limits") for name in (CPU, MEMORY)
)
"""A quota on one of these refuses a pod of which a container does not state it."""

NO_BUDGETS: Final[Mapping[str, Resources]] = {}


class AdmittedPod(msgspec.Struct, frozen=True, eq=False):
    """A pod of a template as it is stored: what it requests and may use, and why it is refused."""

    requests: Resources
    limits: Resources
    unstated: frozenset[str]
    """Of ``requests.cpu`` and the like, what some container does not state."""
    is_best_effort: bool
    is_terminating: bool
    problem: str | None = None


@lru_cache(maxsize=4096)
def admitted_pod(template: Template, ranges: tuple[LimitRange, ...]) -> AdmittedPod:
    """A pod of this template in a namespace with these LimitRanges."""
    try:
        return _admitted(template, ranges)
    except Malformed as error:
        none = frozenset[str]()
        return AdmittedPod(NONE, NONE, none, False, False, str(error))


def _admitted(template: Template, ranges: tuple[LimitRange, ...]) -> AdmittedPod:
    written = template.spec
    containers = [_stated(each) for each in written.containers or ()]
    init_containers = [_stated(each) for each in written.init_containers or ()]
    for container in (*containers, *init_containers):
        for bounds in (bounds for one in ranges for bounds in one.bounds):
            if bounds.per == "container":
                _fill_in(container, bounds)
    spec = msgspec.structs.replace(written, containers=containers, init_containers=init_containers)
    every = (*containers, *init_containers)
    stated = [{*_names("requests", each), *_names("limits", each)} for each in every]
    problems = (_problem(spec, bounds, one.name) for one in ranges for bounds in one.bounds)
    is_whole = spec.resources is not None
    return AdmittedPod(
        requests=requests_of(spec),
        limits=limits_of(spec),
        unstated=frozenset(
            name for name in _STATED if not is_whole and any(name not in each for each in stated)
        ),
        is_best_effort=not any({*_STATED} & each for each in stated) and not is_whole,
        is_terminating=written.active_deadline_seconds is not None,
        problem=next((problem for problem in problems if problem is not None), None),
    )


def _stated(container: Container) -> Container:
    """A copy in which limits without requests are requests too, as the API server stores it."""
    given = container.resources or ResourceRequirements()
    limits = dict(given.limits or {})
    both = ResourceRequirements({**limits, **(given.requests or {})}, limits)
    return msgspec.structs.replace(container, resources=both)


def _fill_in(container: Container, bounds: Bounds) -> None:
    resources = container.resources or ResourceRequirements()
    resources.requests = {**bounds.default_request, **(resources.requests or {})}
    resources.limits = {**bounds.default, **(resources.limits or {})}


def _names(kind: str, container: Container) -> Iterable[str]:
    amounts = getattr(container.resources, kind) or {}
    return (f"{kind}.{name}" for name in amounts)


def _problem(spec: PodSpec, bounds: Bounds, name: str) -> str | None:
    """Why a LimitRange refuses the pod."""
    if bounds.per == "pod":
        whole = requests_of(spec), limits_of(spec)
        return _outside(*whole, bounds, f"limit range {name} allows a pod")
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        given = container.resources or ResourceRequirements()
        amounts = requested(given.requests), requested(given.limits)
        found = _outside(*amounts, bounds, f"limit range {name} allows a container")
        if found is not None:
            return found
    return None


def _outside(requests: Resources, limits: Resources, bounds: Bounds, who: str) -> str | None:
    for name, least in bounds.least.items():
        if requests[name] < least:
            asked = format_amount(name, requests[name])
            return f"{who} no less than {format_amount(name, least)} of {name}, and it asks {asked}"
    for name, most in bounds.most.items():
        asked_most = max(requests[name], limits[name])
        if asked_most > most or limits[name] == 0:
            asked = format_amount(name, asked_most) if limits[name] else "it states no limit"
            stated = f"it asks {asked}" if limits[name] else asked
            return f"{who} no more than {format_amount(name, most)} of {name}, and {stated}"
    for name, written in bounds.ratio.items():
        ratio = parse_quantity(written)
        if requests[name] and limits[name] > ratio * requests[name]:
            asked = f"{limits[name] / requests[name]:g} times"
            return f"{who} a limit of {written} times the request of {name}, and it has {asked}"
    return None


def _is_in(scope: Scope, pod: AdmittedPod, priority_class: str) -> bool:
    """Whether a scope of a quota holds for a pod."""
    if scope.name == "PriorityClass":
        return {
            "In": priority_class in scope.values,
            "NotIn": priority_class not in scope.values,
            "Exists": bool(priority_class),
            "DoesNotExist": not priority_class,
        }.get(scope.operator, False)
    return {
        "Terminating": pod.is_terminating,
        "NotTerminating": not pod.is_terminating,
        "BestEffort": pod.is_best_effort,
        "NotBestEffort": not pod.is_best_effort,
    }.get(scope.name, False)


def taken_of(quota: ResourceQuota, pod: AdmittedPod, priority_class: str) -> Resources:
    """What one such pod takes of a quota; nothing where its scopes leave the pod out."""
    if not all(_is_in(scope, pod, priority_class) for scope in quota.scopes):
        return NONE
    return _taken(quota.limited, pod)


def _taken(limited: Iterable[str], pod: AdmittedPod) -> Resources:
    amounts = {}
    for name in limited:
        kind, _, resource = name.partition(".")
        if name == PODS:
            amounts[name] = 1
        else:
            amounts[name] = (pod.limits if kind == "limits" else pod.requests)[resource]
    return Resources(amounts)


@dataclass(slots=True)
class Namespaces:
    """The quotas, limits and priority classes of a cluster at one moment, by namespace."""

    quotas: Mapping[str, tuple[ResourceQuota, ...]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[LimitRange, ...]] = field(default_factory=dict)
    classes: Mapping[str, PriorityClass] = field(default_factory=dict)
    default_class: PriorityClass | None = None

    @classmethod
    def of(
        cls,
        quotas: Iterable[ResourceQuota],
        ranges: Iterable[LimitRange],
        classes: Iterable[PriorityClass],
    ) -> "Namespaces":
        """Group what the watches show by namespace."""
        found = {kind.name: kind for kind in classes}
        defaults = sorted(
            (each for each in found.values() if each.is_default),
            key=lambda each: (each.value, each.name),
        )
        by_namespace: dict[str, tuple[ResourceQuota, ...]] = {}
        for quota in sorted(quotas, key=lambda each: each.name):
            by_namespace[quota.namespace] = (*by_namespace.get(quota.namespace, ()), quota)
        bounds: dict[str, tuple[LimitRange, ...]] = {}
        for one in sorted(ranges, key=lambda each: each.name):
            bounds[one.namespace] = (*bounds.get(one.namespace, ()), one)
        return cls(by_namespace, bounds, found, defaults[0] if defaults else None)

    def priority_class(self, template: Template) -> str:
        """The class that a pod of this template is of."""
        default = "" if self.default_class is None else self.default_class.name
        return template.spec.priority_class_name or default


class Admission:
    """Admits training jobs; what was worked out for a job is kept until something changes."""

    def __init__(self, budgets: Mapping[str, Resources] = NO_BUDGETS) -> None:
        """``budgets`` are by namespace, with the names of quotas (``requests.cpu``)."""
        self._budgets = {
            namespace: (tuple(amounts), amounts) for namespace, amounts in budgets.items()
        }
        self._admitted: dict[str, tuple[TrainingJob, object, TrainingJob]] = {}

    def admitted(self, jobs: Iterable[TrainingJob], of: Namespaces) -> list[TrainingJob]:
        """The jobs with the requests and priority that admission gives their pods."""
        known, found = dict[str, tuple[TrainingJob, object, TrainingJob]](), list[TrainingJob]()
        for job in jobs:
            ranges = of.ranges.get(job.namespace, ())
            priority = _priority(job, of)
            basis = ranges, priority
            if job.job is None or not (ranges or any(priority)):
                found.append(job)
                continue
            before = self._admitted.get(job.uid)
            if before is not None and before[0] is job and before[1] == basis:
                known[job.uid] = before
            else:
                known[job.uid] = job, basis, _with(job, job.job, ranges, priority)
            found.append(known[job.uid][2])
        self._admitted = known
        return found

    def quotas(
        self, jobs: Iterable[TrainingJob], pods: Mapping[str, Sequence[Pod]], of: Namespaces
    ) -> tuple[Quota, ...]:
        """The quotas and budgets of the namespaces of jobs that are not over; pods by job UID."""
        by_namespace: dict[str, list[TrainingJob]] = {}
        for job in jobs:
            if job.active is not None:
                by_namespace.setdefault(job.namespace, []).append(job)
        found = []
        for namespace in sorted(by_namespace):
            members = by_namespace[namespace]
            for quota in of.quotas.get(namespace, ()):
                charges = _charges(members, pods, of, quota)
                own = total(charge.held + charge.leaving for charge in charges.values())
                left = quota.hard - _at_least_none(quota.used - own)
                title = f"quota {quota.name}"
                found.append(Quota(namespace, title, quota.limited, left, charges, quota.hard))
            if namespace in self._budgets:
                limited, amounts = self._budgets[namespace]
                charges = _charges(members, pods, of, limited)
                found.append(Quota(namespace, "the budget", limited, amounts, charges, amounts))
        return tuple(found)

    def refused(self, jobs: Iterable[TrainingJob], of: Namespaces) -> dict[str, str]:
        """Why pods of a job could not be made again, by UID."""
        found = {}
        for job in jobs:
            why = _why_refused(job, of)
            if why is not None:
                found[job.uid] = why
        return found


def _at_least_none(amounts: Resources) -> Resources:
    return Resources({name: max(amount, 0) for name, amount in amounts.items()})


def _priority(job: TrainingJob, of: Namespaces) -> tuple[int, str]:
    """The lowest priority of the job's templates, and its class."""
    found = []
    for template in job.templates.values():
        name = of.priority_class(template)
        known = of.classes.get(name)
        found.append((0 if known is None else known.value, name))
    return min(found, default=(0, ""))


def _with(
    training_job: TrainingJob, job: Job, ranges: tuple[LimitRange, ...], priority: tuple[int, str]
) -> TrainingJob:
    def asked(role: Role, resources: Resources) -> Resources:
        template = training_job.templates.get(role)
        pod = None if template is None else admitted_pod(template, ranges)
        return resources if pod is None else pod.requests or resources

    ps = replace(job.ps, resources=asked(Role.PS, job.ps.resources))
    worker = replace(job.worker, resources=asked(Role.WORKER, job.worker.resources))
    fixed = tuple(
        replace(each, spec=replace(each.spec, resources=asked(each.role, each.spec.resources)))
        for each in job.fixed
    )
    value, name = priority
    admitted = replace(job, ps=ps, worker=worker, fixed=fixed, priority=value, priority_class=name)
    return replace(training_job, job=admitted)


def _charges(
    jobs: Iterable[TrainingJob],
    pods: Mapping[str, Sequence[Pod]],
    of: Namespaces,
    quota: ResourceQuota | tuple[str, ...],
) -> dict[str, QuotaCharge]:
    """What each of these jobs takes of a quota, or of what a budget limits; by UID."""
    found = {}
    for job in jobs:
        ranges = of.ranges.get(job.namespace, ())
        taken = {}
        for role, template in job.templates.items():
            pod = admitted_pod(template, ranges)
            taken[role] = (
                taken_of(quota, pod, of.priority_class(template))
                if isinstance(quota, ResourceQuota)
                else _taken(quota, pod)
            )
        if any(taken.values()) and job.job is not None:
            found[job.uid] = _charge(job.job, taken, pods.get(job.uid, ()))
    return found


def _charge(job: Job, taken: Mapping[Role, Resources], pods: Sequence[Pod]) -> QuotaCharge:
    held: tuple[list[Resources], list[Resources]] = [], []
    for pod in pods:
        if pod.replica is not None and not pod.finished:
            held[pod.leaving].append(taken.get(pod.replica.role, NONE))
    fixed = total(taken.get(each.role, NONE) * each.count for each in job.fixed)
    ps, worker = taken.get(Role.PS, NONE), taken.get(Role.WORKER, NONE)
    return QuotaCharge(ps, worker, fixed, total(held[0]), total(held[1]))


def _why_refused(job: TrainingJob, of: Namespaces) -> str | None:
    ranges, quotas = of.ranges.get(job.namespace, ()), of.quotas.get(job.namespace, ())
    if job.active is None or not (ranges or quotas or of.classes):
        return None
    for role, template in job.templates.items():
        pod = admitted_pod(template, ranges)
        why = pod.problem
        name = template.spec.priority_class_name
        if name and of.classes and name not in of.classes:
            why = f"there is no PriorityClass {name}"
        for quota in quotas:
            if not all(_is_in(scope, pod, of.priority_class(template)) for scope in quota.scopes):
                continue
            unstated = sorted(pod.unstated.intersection(quota.limited))
            if unstated:
                why = why or f"quota {quota.name} wants {unstated[0]} to be stated"
        if why is not None:
            return f"its {role} pods could not be made again after a rescale: {why}"
    return None
