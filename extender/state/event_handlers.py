"""From the caches to the placer: what each kind of event means for it."""

import logging
from collections.abc import Mapping
from typing import TypeAlias

from extender.placer import Placer
from extender.state.cluster import Rescale
from optimus.jobs import Counts
from optimus.kube.contract import RESCALING, Phase
from optimus.kube.nodes import ClusterNode
from optimus.kube.pods import Pod
from optimus.kube.profiles import TrainingProfile
from optimus.kube.training_jobs import TrainingJob

_LOG = logging.getLogger(__name__)

_Name: TypeAlias = tuple[str, str, str]
"""Kind, namespace and name of a job."""

NO_COUNTS = Counts(0, 0)
"""The target of a job that is suspended for good."""


class EventHandlers:
    """Observers of the caches; each is called with an object before and after, ``None`` where it is
    not there."""

    def __init__(self, placer: Placer) -> None:
        self._placer = placer
        self._jobs: dict[_Name, str] = {}
        self._profiles: dict[_Name, TrainingProfile] = {}

    def node(self, before: ClusterNode | None, after: ClusterNode | None) -> None:
        """A node."""
        known = after or before
        assert known is not None
        if (
            after is not None
            and after.problem
            and (before is None or before.problem != after.problem)
        ):
            _LOG.warning("%s", after.problem)
        self._placer.node_changed(known.name, None if after is None else after.node)

    def pod(self, before: Pod | None, after: Pod | None) -> None:
        """A pod; one made anew under an old name is another pod."""
        if before is not None and after is not None and before.uid != after.uid:
            self._placer.pod_changed(before, None)
            before = None
        self._placer.pod_changed(before, after)

    def job(self, before: TrainingJob | None, after: TrainingJob | None) -> None:
        """A TFJob or MXJob."""
        if before is not None and (after is None or before.uid != after.uid):
            self._jobs.pop((before.kind, before.namespace, before.name), None)
            self._placer.rescale_changed(before.uid, None)
            self._placer.job_changed(before.uid, None)
        if after is None:
            return
        if after.outcome is not None or after.deleted:
            self._placer.job_changed(after.uid, None)
        else:
            self._placer.job_changed(after.uid, after.job, is_there=True)
        name = after.kind, after.namespace, after.name
        if self._jobs.get(name) != after.uid:
            self._jobs[name] = after.uid
            self._tell(name)

    def profile(self, before: TrainingProfile | None, after: TrainingProfile | None) -> None:
        """A TrainingProfile: whether its job is being rescaled, and to what.

        A UID in its spec is anybody's to write: it counts only where the job of that UID has the
        profile's name."""
        if (
            before is not None
            and self._profiles.pop(_name(before), None) is not None
            and _is_about(before, self._jobs)
        ):
            moved = after is None or (_name(before), before.job.uid) != (
                _name(after),
                after.job.uid,
            )
            if moved:
                self._placer.rescale_changed(before.job.uid, None)
        if after is not None:
            self._profiles[_name(after)] = after
            self._tell(_name(after))

    def _tell(self, name: _Name) -> None:
        profile = self._profiles.get(name)
        if profile is not None and _is_about(profile, self._jobs):
            self._placer.rescale_changed(
                profile.job.uid, rescale_of(profile), has_run=has_run(profile)
            )


def _name(profile: TrainingProfile) -> _Name:
    return profile.job.kind, profile.namespace, profile.name


def _is_about(profile: TrainingProfile, jobs: Mapping[_Name, str]) -> bool:
    return jobs.get(_name(profile)) == profile.job.uid


def rescale_of(profile: TrainingProfile) -> Rescale | None:
    """The rescale that room is held for; ``None`` where none is under way, or where the job is to
    stay suspended."""
    status = profile.status
    if status.phase not in RESCALING:
        return None
    record = status.rescale
    if status.target_ps is not None and status.target_workers is not None:
        target = Counts(status.target_ps, status.target_workers)
    elif record is not None:
        target = record.target
    else:
        return None
    if target == NO_COUNTS:
        return None
    name = status.interval_id if record is None else record.id
    return Rescale(profile.job.uid, name, target, status.phase is Phase.SUSPENDING)


def has_run(profile: TrainingProfile) -> bool:
    """Whether the job has trained before."""
    return profile.status.trained_seconds > 0 or profile.status.rescales > 0
