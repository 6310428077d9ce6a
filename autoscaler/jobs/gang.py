"""Observes a job's pods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autoscaler.logs.poller import JobRun, run_of
from optimus.jobs import Counts, Job, Role
from optimus.kube.pods import Pod, other_gang
from optimus.kube.training_jobs import TrainingJob

_MEET_SECONDS: Final = 30.0
"""How long after a restart the processes of a job without PSs may take to find one another.
Default: the quiet time after which a rescale counts as successful."""


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

    lacks_master: bool = False
    """Whether it has pods, and not the Master that leads them."""

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
        roles = {pod.replica.role for pod in staying if pod.replica is not None}
        is_led = any(role.role is Role.MASTER for role in job.fixed)
        self.lacks_master = bool(roles) and is_led and Role.MASTER not in roles

    def why_unsettled(self, at: float) -> str:
        """Why the processes of a job that has trained are about to meet anew; empty where they are
        not. Of pods made for other counts than its own nothing is said: they never meet."""
        if self.changed_from is not None or self.is_ending:
            return ""
        if self.lacks_master:
            return "its Master is gone: it is not moved before there is another"
        for pod in self.failing:
            since = pod.container.restarted_at
            if pod.container.error and (since is None or at - since < _MEET_SECONDS):
                why = f"{pod.name} restarts after {pod.container.error}"
                return f"{why}: it is not moved before its processes have met again"
        return ""

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
