"""One look at one job: what to create, delete and write, as the training operator v1.7 would.

A job that has ended is cleaned up; a suspended one is emptied before any other rule is asked; then
the limits; then each role's slots are filled, its pods counted, and the counts judged. Pods that
are being deleted while they run count as failed: the reason why a running job must never be edited.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from localcluster.embedded.operator import status_rules
from localcluster.embedded.operator.actions import (
    Action,
    CreatePod,
    CreateService,
    DeletePod,
    DeleteService,
    Tell,
    WriteStatus,
)
from localcluster.embedded.operator.conditions import find, is_finished, is_true, with_condition
from localcluster.embedded.operator.jobs import Job, Json, Role
from localcluster.embedded.operator.pod_factory import LABELS, child_name, make_pod, make_service

_RESTARTED = ("OnFailure", "Always", "ExitCode")
_OVERWRITTEN = (
    "Restart policy in pod template will be overwritten by restart policy in replica spec"
)


@dataclass
class _Look:
    """One job in the making of its plan."""

    job: Job
    pods: Sequence[Json]
    services: Sequence[Json]
    now: str
    status: Json
    actions: list[Action] = field(default_factory=list)

    def set(self, kind: str, message: str, *, word: str = "", true: bool = True) -> None:
        reason = f"{self.job.rules.kind}{word or kind}"
        self.status = with_condition(self.status, self.now, kind, reason, message, true=true)

    def tell(self, word: str, message: str, kind: str = "Normal") -> None:
        self.actions.append(Tell(kind, f"{self.job.rules.kind}{word}", message))


def reconcile(job: Job, pods: Sequence[Json], services: Sequence[Json], now: str) -> list[Action]:
    """What to do now.

    Args:
        job: the job, with its defaults.
        pods: those that it controls, those being deleted included.
        services: those with its labels.
        now: RFC 3339, in UTC.
    """
    stored: Json = job.body.get("status") or {}
    look = _Look(job, pods, services, now, stored)
    look.set("Created", f"{job.rules.kind} {job.name} is created.")
    if is_finished(look.status):
        _clean_up(look)
    elif job.policy.get("suspend"):
        _suspend(look)
    else:
        _resume(look)
        if not _is_past_limits(look):
            _fill(look)
            _judge(look)
    if look.status != stored:
        look.actions.append(WriteStatus({"replicaStatuses": {}, **look.status}))
    return look.actions


# --- the end, and suspension


def _clean_up(look: _Look) -> None:
    policy = look.job.policy.get("cleanPodPolicy") or "None"
    if policy != "None":
        phases = (
            ("Running", "Pending")
            if policy == "Running"
            else ("Running", "Pending", "Succeeded", "Failed", "Unknown")
        )
        _delete(look, [pod for pod in look.pods if _phase(pod) in phases])
    if is_true(look.status, "Succeeded"):
        counts = look.status.get("replicaStatuses") or {}
        look.status = {
            **look.status,
            "replicaStatuses": {role: _all_succeeded(each) for role, each in counts.items()},
        }


def _all_succeeded(counts: Json) -> Json:
    succeeded = counts.get("succeeded", 0) + counts.get("active", 0)
    left = {key: value for key, value in counts.items() if key not in ("active", "succeeded")}
    return {**left, **({"succeeded": succeeded} if succeeded else {})}


def _suspend(look: _Look) -> None:
    _delete(look, look.pods)
    counts = look.status.get("replicaStatuses")
    if counts is not None:
        idle = {
            role: {key: n for key, n in each.items() if key != "active"}
            for role, each in counts.items()
        }
        look.status = {**look.status, "replicaStatuses": idle}
    message = f"{look.job.rules.kind} {look.job.name} is suspended."
    if is_true(look.status, "Running"):
        look.set("Running", message, word="Suspended", true=False)
    if not is_true(look.status, "Suspended"):
        look.set("Suspended", message)
        look.tell("Suspended", message)


def _resume(look: _Look) -> None:
    if is_true(look.status, "Suspended"):
        message = f"{look.job.rules.kind} {look.job.name} is resumed."
        look.set("Suspended", message, word="Resumed", true=False)
        look.status = {**look.status, "startTime": look.now}
        look.tell("Resumed", message)


def _delete(look: _Look, pods: Iterable[Json]) -> None:
    """Delete pods, and the services that are called like them; what is being deleted is left
    alone."""
    there = {service["metadata"]["name"] for service in look.services if not _leaves(service)}
    for pod in pods:
        name = pod["metadata"]["name"]
        if not _leaves(pod):
            look.actions.append(DeletePod(name, pod["metadata"]["uid"]))
        if name in there:
            look.actions.append(DeleteService(name))


# --- limits


def _is_past_limits(look: _Look) -> bool:
    """Whether the job has failed by a limit of its run policy; then that is planned."""
    said = ""
    if _is_past_backoff(look):
        said = "it has reached the specified backoff limit"
    elif _is_past_deadline(look):
        said = "it was active longer than specified deadline"
    if not said:
        return False
    message = f"Job {look.job.name} has failed because {said}"
    look.status = {"completionTime": look.now, **look.status}
    _delete(look, look.pods)
    look.tell("Failed", message)
    look.set("Failed", message)
    return True


def _is_past_backoff(look: _Look) -> bool:
    limit = look.job.policy.get("backoffLimit")
    if limit is None:
        return False
    counted = [role for role in look.job.roles.values() if role.restart_policy in _RESTARTED]
    restarts = sum(
        _restarts(pod)
        for role in counted
        for pod in _of(role, look.pods)
        if _phase(pod) == "Running"
    )
    return bool(restarts >= max(1, limit)) or (limit == 0 and _failed_anew(look))


def _failed_anew(look: _Look) -> bool:
    # The operator counts tries in a queue that always answers 0, so that this rule speaks only
    # where the limit is 0.
    known = sum(
        each.get("failed", 0) for each in (look.status.get("replicaStatuses") or {}).values()
    )
    failed = sum(_phase(pod) == "Failed" for pod in look.pods)
    active = sum(
        _phase(pod) not in ("Succeeded", "Failed") and not _leaves(pod) for pod in look.pods
    )
    return failed > known and active != sum(role.replicas for role in look.job.roles.values())


def _is_past_deadline(look: _Look) -> bool:
    limit, started = look.job.policy.get("activeDeadlineSeconds"), look.status.get("startTime")
    if limit is None or started is None:
        return False
    active = datetime.fromisoformat(look.now) - datetime.fromisoformat(started)
    return active.total_seconds() >= int(limit)


# --- pods and services


def _fill(look: _Look) -> None:
    for role in look.job.roles.values():
        _fill_pods(look, role)
        _fill_services(look, role)


def _fill_pods(look: _Look, role: Role) -> None:
    counts: dict[str, int] = {}
    for index, there in _slots(role, look.pods):
        if not there:
            # An empty slot beyond the count is filled too: the operator does so, and takes the pod
            # away again.
            if role.template["spec"].get("restartPolicy"):
                look.actions.append(Tell("Warning", "SettedPodTemplateRestartPolicy", _OVERWRITTEN))
            look.actions.append(CreatePod(make_pod(look.job, role, index)))
        elif len(there) == 1:
            _look_at_pod(look, role, index, there[0])
            counted = status_rules.counted_as(there[0])
            counts[counted] = counts.get(counted, 0) + 1
    shown = {key: counts[key] for key in ("active", "succeeded", "failed") if counts.get(key)}
    roles = {**(look.status.get("replicaStatuses") or {}), role.name: shown}
    look.status = {**look.status, "replicaStatuses": roles}


def _look_at_pod(look: _Look, role: Role, index: int, pod: Json) -> None:
    retried = _phase(pod) == "Failed" and _is_retried(role, status_rules.exit_code(look.job, pod))
    if (index >= role.replicas or retried) and not _leaves(pod):
        look.actions.append(DeletePod(pod["metadata"]["name"], pod["metadata"]["uid"]))
    if retried:
        message = f"job {look.job.name} is restarting because {role.name} replica(s) failed."
        if not is_true(look.status, "Restarting"):
            look.tell("Restarting", message, "Warning")
        look.set("Restarting", message)


def _is_retried(role: Role, exit_code: int | None) -> bool:
    if role.restart_policy == "ExitCode":
        # Without an exit code the operator goes by a number of its own, which is large.
        return exit_code is None or exit_code >= 128
    return role.restart_policy in ("OnFailure", "Always")


def _fill_services(look: _Look, role: Role) -> None:
    for index, there in _slots(role, look.services):
        if not there:
            look.actions.append(CreateService(make_service(look.job, role, index)))
        elif index >= role.replicas and len(there) == 1:
            look.actions.append(DeleteService(child_name(look.job, role, index)))


def _slots(role: Role, objects: Sequence[Json]) -> list[tuple[int, list[Json]]]:
    """The role's objects by index; as many slots as the highest index asks for, and one at
    least."""
    found: dict[int, list[Json]] = {}
    for each in _of(role, objects):
        index = each["metadata"]["labels"].get(f"{LABELS}/replica-index", "")
        if index.isdecimal():
            found.setdefault(int(index), []).append(each)
    count = max(role.replicas, max(found, default=0) + 1)
    return [(index, found.get(index, [])) for index in range(count)]


def _of(role: Role, objects: Sequence[Json]) -> list[Json]:
    return [
        each
        for each in objects
        if each["metadata"]["labels"].get(f"{LABELS}/replica-type") == role.label
    ]


def _phase(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def _leaves(each: Json) -> bool:
    return each["metadata"].get("deletionTimestamp") is not None


def _restarts(pod: Json) -> int:
    status = pod.get("status") or {}
    states = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    return sum(state.get("restartCount", 0) for state in states)


# --- the outcome


def _judge(look: _Look) -> None:
    look.status = {"startTime": look.now, **look.status}
    counts: Mapping[str, Json] = look.status["replicaStatuses"]
    restarting = find(look.status, "Restarting")
    message = None if restarting is None else str(restarting["message"])
    for verdict in status_rules.verdicts(look.job, counts, look.pods, message):
        if verdict.kind in ("Succeeded", "Failed"):
            look.status = {"completionTime": look.now, **look.status}
        if verdict.told and not is_true(look.status, verdict.kind):
            look.tell(verdict.kind, verdict.message, verdict.told)
        look.set(verdict.kind, verdict.message)
