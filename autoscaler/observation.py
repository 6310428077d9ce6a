"""Observe: what the caches hold at one instant, frozen.

The caches of jobs and of pods are separate copies that may be of slightly different ages; whatever
decides on an observation must not rely on them agreeing. What must be certain (that no pod of a job
is left) is asked of the API server directly, by the rescale.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from optimus.kube.nodes import ClusterNode
from optimus.kube.pods import Pod
from optimus.kube.profiles import TrainingProfile
from optimus.kube.training_jobs import TrainingJob
from optimus.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class Observation:
    """The cluster as seen at ``at``, seconds since the epoch, UTC; ``pods`` and ``profiles`` are by
    job UID.

    ``node_kinds`` are by a node's name; a node without the label of kinds has none.
    """

    at: float
    snapshot: ClusterSnapshot
    jobs: Mapping[str, TrainingJob]
    pods: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    profiles: Mapping[str, TrainingProfile] = field(default_factory=dict)
    node_kinds: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        at: float,
        jobs: Sequence[TrainingJob],
        nodes: Sequence[ClusterNode],
        pods: Sequence[Pod],
        profiles: Sequence[TrainingProfile],
        node_kind_label: str = "",
    ) -> "Observation":
        """One frozen view of what the caches hold."""
        snapshot = ClusterSnapshot.of(
            at,
            (job.active for job in jobs if job.active is not None),
            (node.node for node in nodes),
            (bound for pod in pods if (bound := pod.bound()) is not None),
        )
        by_job: dict[str, list[Pod]] = {}
        for pod in sorted(pods, key=lambda pod: pod.name):
            if pod.owner is not None:
                by_job.setdefault(pod.owner.uid, []).append(pod)
        by_uid = {job.uid: job for job in sorted(jobs, key=lambda job: job.uid)}
        return cls(
            at,
            snapshot,
            by_uid,
            {uid: tuple(found) for uid, found in by_job.items()},
            {
                profile.job.uid: profile
                for profile in profiles
                if _is_about(profile, by_uid.get(profile.job.uid))
            },
            {node.name: kind for node in nodes if (kind := node.node.labels.get(node_kind_label))},
        )


def _is_about(profile: TrainingProfile, job: TrainingJob | None) -> bool:
    """Whether a profile is the job's own: a name and UID in its spec alone are anybody's to
    write."""
    if job is None:
        return False
    return (profile.namespace, profile.name, profile.job.kind) == (
        job.namespace,
        job.name,
        job.kind,
    )


class Observer(Protocol):
    """Where observations come from."""

    def observe(self, at: float) -> Observation:
        """The cluster as it is known now."""
        ...
