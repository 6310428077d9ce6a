"""Observes a job's pods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autoscaler.logs.poller import JobRun, run_of
from optimus.jobs import Counts, Job, Role
from optimus.kube.pods import Pod
from optimus.kube.training_jobs import TrainingJob


@dataclass(slots=True)
class JobPods:
    """One job's pods as they were last seen."""

    run: JobRun | None = None
    """The pods whose logs are read."""

    run_started_at: float | None = None
    """When the first of them began to train; ``None`` where nothing shows it."""

    half_bound_since: float | None = None
    """Since when some of its pods have a node, but not all."""

    here: tuple[Pod, ...] = ()
    """Those that have a node, or have finished."""

    is_placed: bool = False
    """Whether all pods of its present counts do."""

    is_ending: bool = False
    """Whether one of its trainers has Succeeded."""

    changed_from: Counts | None = None
    """The counts that its pods were made for, where others were set while they ran."""

    uids: tuple[str, ...] = ()
    """The UIDs of the pods that run or are to run."""

    is_whole: bool = False
    """Whether all of these are there and have nodes."""

    waits: bool = False
    """Whether one of them has no node yet."""

    failing: tuple[Pod, ...] = ()
    """Those that do not run, or were started again, for an error."""

    missing: int = 0
    """How many pods of its present counts are not there, or have ended."""

    seen: tuple[object, ...] | None = None
    """The job, its pods and what else was looked at when its pods were last taken in."""

    def update(
        self, pods: Sequence[Pod], job: Job, node_kinds: Mapping[str, str], at: float
    ) -> None:
        """Take in the job's pods. Of a hundred thousand few have changed since the last tick."""
        self.run = run_of(pods, job.counts, node_kinds)
        starts = (pod.container.started_at for pod in (self.run.pods if self.run else ()))
        self.run_started_at = min((start for start in starts if start is not None), default=None)
        self.is_ending = any(pod.has_trained for pod in pods)
        staying = [pod for pod in pods if not pod.leaving and not pod.finished]
        bound = [pod.node is not None for pod in staying]
        is_half_bound = any(bound) and not all(bound)
        self.half_bound_since = (self.half_bound_since or at) if is_half_bound else None
        self.waits = not all(bound)
        size = sum(job.counts) + sum(role.count for role in job.fixed)
        self.uids = tuple(pod.uid for pod in staying)
        self.missing = max(size - len(staying), 0)
        self.is_whole = all(bound) and not self.missing
        self.here = tuple(pod for pod in pods if pod.finished or (pod.node and not pod.leaving))
        self.is_placed = len(self.here) >= size
        self.failing = tuple(pod for pod in pods if pod.has_failed)

    def note_changed_counts(
        self, pods: Sequence[Pod], job: TrainingJob, before: Counts, *, is_rescaled: bool
    ) -> None:
        """Note counts other than the job's, with which it has pods although it is not suspended.

        Its pods list them, unless the operator has failed the job and removed them by now."""
        self.changed_from = None
        if job.suspended or is_rescaled or job.job is None:
            return
        if job.outcome is None:
            self.changed_from = other_gang(pods, job.job.counts)
        elif job.outcome == "Failed" and job.job.counts != before:
            self.changed_from = before

    def workers_by_kind(self, node_kinds: Mapping[str, str]) -> dict[str, int]:
        """Return how many workers are on each kind of nodes."""
        found = dict[str, int]()
        for pod in self.here:
            if pod.replica is not None and pod.replica.role is Role.WORKER:
                kind = node_kinds.get(pod.node or "", "")
                found[kind] = found.get(kind, 0) + 1
        return found


def other_gang(pods: Sequence[Pod], counts: Counts) -> Counts | None:
    """The counts that some pod was made for, where they are not these; ``None`` if there is none.

    A pod's own TF_CONFIG or MX_CONFIG lists the job as it was when the pod was made."""
    right: object = None  # one mapping for all pods of a gang
    for pod in pods:
        if pod.gang is None or pod.gang is right or pod.leaving or pod.finished:
            continue
        made_for = Counts(pod.gang.get(Role.PS, 0), pod.gang.get(Role.WORKER, 0))
        if made_for != counts:
            return made_for
        right = pod.gang
    return None
