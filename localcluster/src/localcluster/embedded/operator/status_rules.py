"""Whether a job runs, has succeeded, failed or restarts, by what its pods are counted as."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from localcluster.embedded.operator.jobs import TFJOB, Job, Json, Role
from localcluster.embedded.operator.pod_factory import LABELS

_TFJOB_ORDER: Final = ("Chief", "Evaluator", "Master", "PS", "Worker")
_MXJOB_ORDER: Final = ("Scheduler", "Server", "Worker")
"""The real operator looks at an MXJob's roles in any order; with one always the same, it is the
scheduler first."""


@dataclass(frozen=True)
class Verdict:
    """A condition that is to hold; ``told`` is the type of the Event that says so, "" for none."""

    kind: str
    message: str
    told: str = ""


def counted_as(pod: Json) -> str:
    """``active``, ``succeeded``, ``failed``, or "" for a pod that counts as nothing yet."""
    phase = (pod.get("status") or {}).get("phase")
    if phase == "Running" and pod["metadata"].get("deletionTimestamp") is not None:
        return "failed"
    return {"Running": "active", "Succeeded": "succeeded", "Failed": "failed"}.get(phase or "", "")


def exit_code(job: Job, pod: Json) -> int | None:
    """The exit code of the framework's container; ``None`` while it has not ended."""
    for each in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (each.get("state") or {}).get("terminated")
        if each.get("name") == job.rules.container and ended is not None:
            return int(ended.get("exitCode", 0))
    return None


def verdicts(
    job: Job, counts: Mapping[str, Json], pods: Sequence[Json], restarting: str | None
) -> Iterator[Verdict]:
    """The conditions that follow from the counts, in the order in which they are to be set.

    ``restarting`` is the message of the condition that the job restarts, where it has that.
    """
    if job.rules is TFJOB:
        return _of_tfjob(job, counts, pods, restarting)
    return _of_mxjob(job, counts)


def _in_order(job: Job, order: Sequence[str]) -> list[Role]:
    return [job.roles[name] for name in order if name in job.roles]


def _of_tfjob(
    job: Job, counts: Mapping[str, Json], pods: Sequence[Json], restarting: str | None
) -> Iterator[Verdict]:
    named = f"TFJob {job.namespace}/{job.name}"
    for role in _in_order(job, _TFJOB_ORDER):
        seen = counts[role.name]
        yield from _course_of_tfjob(job, role, seen, pods)
        failed = seen.get("failed", 0)
        if not failed:
            continue
        if restarting is not None:
            yield Verdict("Restarting", restarting)
        elif not (job.dynamic_workers and role.name == "Worker"):
            yield Verdict(
                "Failed",
                f"{named} has failed because {failed} {role.name} replica(s) failed.",
                "Normal",
            )


def _course_of_tfjob(job: Job, role: Role, seen: Json, pods: Sequence[Json]) -> Iterator[Verdict]:
    named = f"TFJob {job.namespace}/{job.name}"
    done = role.replicas == seen.get("succeeded", 0)
    runs = seen.get("active", 0) > 0
    succeeded = Verdict("Succeeded", f"{named} successfully completed.", "Normal")
    running = Verdict("Running", f"{named} is running.")
    if job.has_chief():
        if role.name in ("Chief", "Master"):
            yield from [running] * runs + [succeeded] * done
    elif role.name == "Worker":
        if done or (_worker_0_is_done(job, pods) and not job.all_workers_must_succeed):
            yield succeeded
        elif runs:
            yield running


def _worker_0_is_done(job: Job, pods: Sequence[Json]) -> bool:
    first = {f"{LABELS}/replica-type": "worker", f"{LABELS}/replica-index": "0"}
    found = [pod for pod in pods if first.items() <= pod["metadata"]["labels"].items()]
    return len(found) == 1 and counted_as(found[0]) == "succeeded" and exit_code(job, found[0]) == 0


def _of_mxjob(job: Job, counts: Mapping[str, Json]) -> Iterator[Verdict]:
    roles = _in_order(job, _MXJOB_ORDER)
    alone = [(role.name, role.replicas) for role in roles if role.replicas] == [("Worker", 1)]
    for role in roles:
        seen = counts[role.name]
        if role.name == "Scheduler" or alone:
            if seen.get("active", 0):
                yield Verdict("Running", f"MXJob {job.name} is running.")
            if role.replicas == seen.get("succeeded", 0):
                yield Verdict("Succeeded", f"MXJob {job.name} is successfully completed.", "Normal")
                return
        failed = seen.get("failed", 0)
        if failed and role.restart_policy == "ExitCode":
            why = f"mxjob {job.name} is restarting because {failed} {role.name} replica(s) failed."
            yield Verdict("Restarting", why, "Warning")
        elif failed:
            yield Verdict(
                "Failed",
                f"mxjob {job.name} is failed because {failed} {role.name} replica(s) failed.",
                "Normal",
            )
