"""Reconciles one job as the training operator v1.7 does: what to create, delete and write.

A job that has ended is cleaned up; a suspended one is emptied. Of any other, each role's slots are
filled, its pods counted, and the conditions derived from the counts. Pods that are deleted while
they run count as failed: the reason why a running job must never be edited.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from localcluster.embedded.operator import status_rules
from localcluster.embedded.operator.jobs import Job, Role
from localcluster.embedded.operator.pod_factory import LABELS, child_name, make_pod, make_service
from localcluster.embedded.raw_objects import Json

_RESTARTED = ("OnFailure", "Always")


# --- what the operator does to the cluster


@dataclass(frozen=True)
class Create:
    """Create this pod or service."""

    body: Json


@dataclass(frozen=True)
class Delete:
    """Delete the pod or service of this name, a pod only if it still has this uid."""

    kind: str
    name: str
    uid: str | None = None


@dataclass(frozen=True)
class WriteStatus:
    """Write the job's status, unless the job has changed meanwhile."""

    status: Json


@dataclass(frozen=True)
class EmitEvent:
    """Emit an Event about the job; ``type`` is Normal or Warning."""

    type: str
    reason: str
    message: str


Action: TypeAlias = Create | Delete | WriteStatus | EmitEvent


@dataclass
class _Reconciliation:
    """One job with its pods, and the actions decided so far."""

    job: Job
    pods: Sequence[Json]
    services: Sequence[Json]
    now: str
    status: Json
    actions: list[Action] = field(default_factory=list)

    def set(self, kind: str, message: str, *, word: str = "", true: bool = True) -> None:
        reason = f"{self.job.kind.kind.name}{word or kind}"
        self.status = status_rules.with_condition(
            self.status, self.now, kind, reason, message, true=true
        )

    def emit(self, word: str, message: str, kind: str = "Normal") -> None:
        self.actions.append(EmitEvent(kind, f"{self.job.kind.kind.name}{word}", message))


def reconcile(job: Job, pods: Sequence[Json], services: Sequence[Json], now: str) -> list[Action]:
    """Return what to do now.

    Args:
        job: the job, with its defaults.
        pods: those that it controls, those being deleted included.
        services: those with its labels.
        now: RFC 3339, in UTC."""
    stored: Json = job.body.get("status") or {}
    run = _Reconciliation(job, pods, services, now, stored)
    run.set("Created", f"{job.kind.kind.name} {job.name} is created.")
    if status_rules.is_finished(run.status):
        _clean_up(run)
    elif job.policy.get("suspend"):
        _suspend(run)
    else:
        _resume(run)
        _fill(run)
        _update_conditions(run)
    if run.status != stored:
        run.actions.append(WriteStatus({"replicaStatuses": {}, **run.status}))
    return run.actions


# --- the end, and suspension


def _clean_up(run: _Reconciliation) -> None:
    policy = run.job.policy.get("cleanPodPolicy") or "None"
    ended = ("Succeeded", "Failed") if policy == "Running" else ()
    if policy != "None":
        _delete(run, [pod for pod in run.pods if _phase(pod) not in ended])
    if status_rules.is_true(run.status, "Succeeded"):
        counts = run.status.get("replicaStatuses") or {}
        run.status = {
            **run.status,
            "replicaStatuses": {role: _all_succeeded(each) for role, each in counts.items()},
        }


def _all_succeeded(counts: Json) -> Json:
    succeeded = counts.get("succeeded", 0) + counts.get("active", 0)
    left = {key: value for key, value in counts.items() if key not in ("active", "succeeded")}
    return {**left, **({"succeeded": succeeded} if succeeded else {})}


def _suspend(run: _Reconciliation) -> None:
    _delete(run, run.pods)
    counts = run.status.get("replicaStatuses")
    if counts is not None:
        idle = {
            role: {key: n for key, n in each.items() if key != "active"}
            for role, each in counts.items()
        }
        run.status = {**run.status, "replicaStatuses": idle}
    message = f"{run.job.kind.kind.name} {run.job.name} is suspended."
    if status_rules.is_true(run.status, "Running"):
        run.set("Running", message, word="Suspended", true=False)
    if not status_rules.is_true(run.status, "Suspended"):
        run.set("Suspended", message)
        run.emit("Suspended", message)


def _resume(run: _Reconciliation) -> None:
    if status_rules.is_true(run.status, "Suspended"):
        message = f"{run.job.kind.kind.name} {run.job.name} is resumed."
        run.set("Suspended", message, word="Resumed", true=False)
        run.status = {**run.status, "startTime": run.now}
        run.emit("Resumed", message)


def _delete(run: _Reconciliation, pods: Iterable[Json]) -> None:
    """Delete pods and the services of the same names, except what is terminating."""
    there = {service["metadata"]["name"] for service in run.services if not _terminating(service)}
    for pod in pods:
        name = pod["metadata"]["name"]
        if not _terminating(pod):
            run.actions.append(Delete("Pod", name, pod["metadata"]["uid"]))
        if name in there:
            run.actions.append(Delete("Service", name))


# --- pods and services


def _fill(run: _Reconciliation) -> None:
    for role in run.job.roles.values():
        _fill_pods(run, role)
        _fill_services(run, role)


def _fill_pods(run: _Reconciliation, role: Role) -> None:
    counts: dict[str, int] = {}
    for index, there in _slots(role, run.pods):
        if not there:
            # An empty slot beyond the count is filled too: the operator does so, and takes the pod
            # away again.
            run.actions.append(Create(make_pod(run.job, role, index)))
        elif len(there) == 1:
            _check_pod(run, role, index, there[0])
            counted = status_rules.counted_as(there[0])
            counts[counted] = counts.get(counted, 0) + 1
    shown = {key: counts[key] for key in ("active", "succeeded", "failed") if counts.get(key)}
    roles = {**(run.status.get("replicaStatuses") or {}), role.name: shown}
    run.status = {**run.status, "replicaStatuses": roles}


def _check_pod(run: _Reconciliation, role: Role, index: int, pod: Json) -> None:
    retried = _phase(pod) == "Failed" and role.restart_policy in _RESTARTED
    if (index >= role.replicas or retried) and not _terminating(pod):
        run.actions.append(Delete("Pod", pod["metadata"]["name"], pod["metadata"]["uid"]))
    if retried:
        message = f"job {run.job.name} is restarting because {role.name} replica(s) failed."
        if not status_rules.is_true(run.status, "Restarting"):
            run.emit("Restarting", message, "Warning")
        run.set("Restarting", message)


def _fill_services(run: _Reconciliation, role: Role) -> None:
    for index, there in _slots(role, run.services):
        if not there:
            run.actions.append(Create(make_service(run.job, role, index)))
        elif index >= role.replicas and len(there) == 1:
            run.actions.append(Delete("Service", child_name(run.job, role, index)))


def _slots(role: Role, objects: Sequence[Json]) -> list[tuple[int, list[Json]]]:
    """Return the role's objects by index, up to the highest index or the count."""
    found: dict[int, list[Json]] = {}
    for each in objects:
        labels = each["metadata"]["labels"]
        index = labels.get(f"{LABELS}/replica-index", "")
        if labels.get(f"{LABELS}/replica-type") == role.label and index.isdecimal():
            found.setdefault(int(index), []).append(each)
    count = max(role.replicas, max(found, default=0) + 1)
    return [(index, found.get(index, [])) for index in range(count)]


def _phase(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def _terminating(each: Json) -> bool:
    return each["metadata"].get("deletionTimestamp") is not None


# --- conditions


def _update_conditions(run: _Reconciliation) -> None:
    run.status = {"startTime": run.now, **run.status}
    counts: Mapping[str, Json] = run.status["replicaStatuses"]
    restarting = status_rules.find(run.status, "Restarting")
    message = None if restarting is None else str(restarting["message"])
    for new in status_rules.conditions_of(run.job, counts, run.pods, message):
        if new.kind in ("Succeeded", "Failed"):
            run.status = {"completionTime": run.now, **run.status}
        if new.event and not status_rules.is_true(run.status, new.kind):
            run.emit(new.kind, new.message, new.event)
        run.set(new.kind, new.message)
