"""A job's conditions: which follow from its pods, and how one replaces another.

Failed is for good; Running and Restarting replace each other. No status is changed in place."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from localcluster.embedded.operator.jobs import PYTORCHJOB, TFJOB, Job, Role
from localcluster.embedded.operator.pod_factory import LABELS
from localcluster.embedded.raw_objects import Json

_TFJOB_ORDER: Final = ("Chief", "Evaluator", "Master", "PS", "Worker")
_MXJOB_ORDER: Final = ("Scheduler", "Server", "Worker")
"""The real operator looks at an MXJob's roles in any order; with one always the same, it is the
scheduler first."""


@dataclass(frozen=True)
class NewCondition:
    """A condition that is to hold; ``event`` is the type of the Event that says so, "" for none."""

    kind: str
    message: str
    event: str = ""


def counted_as(pod: Json) -> str:
    """``active``, ``succeeded``, ``failed``, or "" for a pod that counts as nothing yet."""
    phase = (pod.get("status") or {}).get("phase")
    if phase == "Running" and pod["metadata"].get("deletionTimestamp") is not None:
        return "failed"
    return {"Running": "active", "Succeeded": "succeeded", "Failed": "failed"}.get(phase or "", "")


def exit_code(job: Job, pod: Json) -> int | None:
    """Return the exit code of the framework's container; ``None`` while it has not ended."""
    for each in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (each.get("state") or {}).get("terminated")
        if each.get("name") == job.kind.kind.container and ended is not None:
            return int(ended.get("exitCode", 0))
    return None


def conditions_of(
    job: Job, counts: Mapping[str, Json], pods: Sequence[Json], restarting: str | None
) -> Iterator[NewCondition]:
    """Yield the conditions that follow from the counts, in the order in which they are to be set.

    ``restarting`` is the message of the condition that the job restarts, where it has that."""
    if job.kind is TFJOB:
        return _of_tfjob(job, counts, pods, restarting)
    if job.kind is PYTORCHJOB:
        return _of_pytorchjob(job, counts)
    return _of_mxjob(job, counts)


def _in_order(job: Job, order: Sequence[str]) -> list[Role]:
    return [job.roles[name] for name in order if name in job.roles]


def _of_tfjob(
    job: Job, counts: Mapping[str, Json], pods: Sequence[Json], restarting: str | None
) -> Iterator[NewCondition]:
    named = f"TFJob {job.namespace}/{job.name}"
    for role in _in_order(job, _TFJOB_ORDER):
        count = counts[role.name]
        yield from _tfjob_role(job, role, count, pods)
        failed = count.get("failed", 0)
        if not failed:
            continue
        if restarting is not None:
            yield NewCondition("Restarting", restarting)
        else:
            yield NewCondition(
                "Failed",
                f"{named} has failed because {failed} {role.name} replica(s) failed.",
                "Normal",
            )


def _tfjob_role(job: Job, role: Role, count: Json, pods: Sequence[Json]) -> Iterator[NewCondition]:
    named = f"TFJob {job.namespace}/{job.name}"
    done = role.replicas == count.get("succeeded", 0)
    runs = count.get("active", 0) > 0
    succeeded = NewCondition("Succeeded", f"{named} successfully completed.", "Normal")
    running = NewCondition("Running", f"{named} is running.")
    if job.has_chief():
        if role.name in ("Chief", "Master"):
            yield from [running] * runs + [succeeded] * done
    elif role.name == "Worker":
        if done or _worker_0_is_done(job, pods):
            yield succeeded
        elif runs:
            yield running


def _worker_0_is_done(job: Job, pods: Sequence[Json]) -> bool:
    first = {f"{LABELS}/replica-type": "worker", f"{LABELS}/replica-index": "0"}
    found = [pod for pod in pods if first.items() <= pod["metadata"]["labels"].items()]
    return len(found) == 1 and counted_as(found[0]) == "succeeded" and exit_code(job, found[0]) == 0


def _of_mxjob(job: Job, counts: Mapping[str, Json]) -> Iterator[NewCondition]:
    roles = _in_order(job, _MXJOB_ORDER)
    alone = [(role.name, role.replicas) for role in roles if role.replicas] == [("Worker", 1)]
    for role in roles:
        count = counts[role.name]
        if role.name == "Scheduler" or alone:
            if count.get("active", 0):
                yield NewCondition("Running", f"MXJob {job.name} is running.")
            if role.replicas == count.get("succeeded", 0):
                yield NewCondition(
                    "Succeeded", f"MXJob {job.name} is successfully completed.", "Normal"
                )
                return
        failed = count.get("failed", 0)
        if failed:
            yield NewCondition(
                "Failed",
                f"mxjob {job.name} is failed because {failed} {role.name} replica(s) failed.",
                "Normal",
            )


def _of_pytorchjob(job: Job, counts: Mapping[str, Json]) -> Iterator[NewCondition]:
    named = f"PyTorchJob {job.name}"
    for role in _in_order(job, PYTORCHJOB.roles):
        count = counts[role.name]
        active, succeeded, failed = (count.get(key, 0) for key in ("active", "succeeded", "failed"))
        decides = role.name == "Master" or "Master" not in job.roles
        if decides and active:
            yield NewCondition("Running", f"{named} is running.")
        if decides and succeeded == role.replicas:
            yield NewCondition("Succeeded", f"{named} is successfully completed.", "Normal")
            return
        if failed and role.replicas > succeeded + active:
            why = f"because {failed} {role.name} replica(s) failed."
            if role.restart_policy == "Never":
                yield NewCondition("Failed", f"{named} is failed {why}", "Normal")
            else:
                yield NewCondition("Restarting", f"{named} is restarting {why}", "Warning")


def is_true(status: Json, kind: str) -> bool:
    """Tell whether a condition holds."""
    return any(
        each["type"] == kind and each["status"] == "True" for each in status.get("conditions") or ()
    )


def is_finished(status: Json) -> bool:
    """Tell whether the job has ended, in whatever way."""
    return is_true(status, "Succeeded") or is_true(status, "Failed")


def find(status: Json, kind: str) -> Json | None:
    """Return a condition, whatever its status."""
    return next((each for each in status.get("conditions") or () if each["type"] == kind), None)


def with_condition(
    status: Json, now: str, kind: str, reason: str, message: str, *, true: bool = True
) -> Json:
    """Return the status with a condition set, at the end of the list, unless it holds already."""
    value = "True" if true else "False"
    before = find(status, kind)
    if is_true(status, "Failed") or (
        before and (before["status"], before["reason"]) == (value, reason)
    ):
        return status
    moved = before["lastTransitionTime"] if before and before["status"] == value else now
    condition = {
        "type": kind,
        "status": value,
        "reason": reason,
        "message": message,
        "lastUpdateTime": now,
        "lastTransitionTime": moved,
    }
    return {**status, "conditions": [*_others(status, kind), condition]}


def _others(status: Json, kind: str) -> list[Json]:
    replaced = {"Restarting": "Running", "Running": "Restarting"}.get(kind, "")
    left = [each for each in status.get("conditions") or () if each["type"] not in (kind, replaced)]
    if kind in ("Failed", "Succeeded"):
        return [{**each, "status": "False"} if each["type"] == "Running" else each for each in left]
    return left
