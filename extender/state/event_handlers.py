"""Each event of the watches changes the planner's state."""

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias

import msgspec

from extender.state.cluster import (
    NO_PROFILE,
    ProfileFacts,
    ProfileForecast,
    ProfileRescale,
    is_waiting,
)
from extender.state.device_events import DeviceEvents
from extender.state.extender_state import ExtenderState
from extender.state.job_sets import JobSets
from extender.state.volumes import ClaimName
from optimus.jobs import Binding, Counts, Job
from optimus.kube.contract import RESCALING, Phase
from optimus.kube.errors import Malformed
from optimus.kube.job_kinds import MOST_REPLICAS
from optimus.kube.jobsets import SetShape
from optimus.kube.nodes import ClusterNode
from optimus.kube.pods import Pod
from optimus.kube.profiles import TrainingProfile
from optimus.kube.store import T
from optimus.kube.times import parse_instant
from optimus.kube.training_jobs import TrainingJob
from optimus.kube.volumes import Namespace, StorageClass, Volume, VolumeClaim
from optimus.nodes import Node
from optimus.rescale.purpose import RescalePurpose
from optimus.snapshot import ReplicaId

_LOG = logging.getLogger(__name__)

_JobName: TypeAlias = tuple[str, str, str]
"""Kind, namespace and name of a job."""

_USERS: Final = (RescalePurpose.RECOVERY, RescalePurpose.RESTART)
"""Why a job is rescaled that its user has suspended or changed."""

NO_COUNTS = Counts(0, 0)
"""The target of a job that is suspended for good."""


class EventHandlers:
    """Observers of the watches; each gets an object before and after, ``None`` where absent."""

    def __init__(self, state: ExtenderState) -> None:
        self._state = state
        self._job_uids: dict[_JobName, str] = {}
        self._profiles: dict[_JobName, TrainingProfile] = {}
        self._foreign: dict[str, Pod] = {}
        """Pods, by UID, that name a job as their owner which is not theirs."""
        self._members_lock = threading.Lock()  # between the pods' events and the jobs'
        self.job_sets = JobSets()
        self._gangs: dict[str, tuple[str, ...]] = {}
        """By UID of a job, those of its gangs where they are others."""
        self.device_events = DeviceEvents(state, self.set_node, self.pod)

    # --- nodes

    def node(self, before: ClusterNode | None, after: ClusterNode | None) -> None:
        """A node."""
        known = after or before
        assert known is not None
        if after is not None and after.problem and (not before or before.problem != after.problem):
            _LOG.warning("%s", after.problem)
        self.set_node(known.name, None if after is None else after.node)

    def set_node(self, name: str, node: Node | None) -> None:
        """A node was added, changed (``node`` is its state now) or removed (``None``)."""
        state = self._state
        with state.locked():
            if not state.cluster.set_node(name, state.devices.node(name, node)):
                return
            state.node_changed(name)
            state.fit_reservations(name)
        state.changes.notify()

    # --- pods

    def pod(self, before: Pod | None, after: Pod | None) -> None:
        """A pod; one created again under an old name is another pod."""
        with self._members_lock:
            self._replace_pod(*self.job_sets.record(before, after))

    def _replace_pod(self, before: Pod | None, after: Pod | None) -> None:
        before, after = self._with_devices(before, after)
        if before is not None:
            was_foreign = self._foreign.pop(before.uid, None) is not None
            before = _without_job(before) if was_foreign else before
            if after is None or before.uid != after.uid:
                self._set_pod(before, before, None)
                before = None
        if after is not None:
            self._add_pod(before, after)

    def _with_devices(self, before: Pod | None, after: Pod | None) -> tuple[Pod | None, Pod | None]:
        """A pod as it was recorded, and as it is now, with the devices that it takes."""
        if not any(pod is not None and pod.device_claims for pod in (before, after)):
            return before, after
        with self._state.lock:
            devices, was = self._state.devices, before
            if before is not None:
                was = devices.recorded(before)
                devices.forget(before)
            return was, None if after is None else devices.record(after)

    def _add_pod(self, before: Pod | None, after: Pod) -> None:
        with self._state.lock:
            foreign = after.replica is not None and not self._state.cluster.controls(after)
        if foreign:
            if before is None or before.replica is not None:
                _LOG.warning(
                    "pod %s/%s names %s as its owner, which is not its job: it is no member of"
                    " that gang",
                    after.namespace,
                    after.name,
                    after.owner,
                )
            self._foreign[after.uid], after = after, _without_job(after)
        if before is not None and before.replica != after.replica:
            self._set_pod(before, before, None)
            before = None
        self._set_pod(after, before, after)

    def _check_members(self, job_uid: str) -> None:
        """The job is known now, and so which pods are its own."""
        with self._state.lock:
            pods = tuple(self._state.cluster.pods_of(job_uid).values())
        for pod in pods:
            self._add_pod(pod, pod)
        for pod in tuple(self._foreign.values()):
            if pod.replica is not None and pod.replica.job_uid == job_uid:
                self._add_pod(_without_job(self._foreign.pop(pod.uid)), pod)

    def _set_pod(self, pod: Pod, before: Pod | None, after: Pod | None) -> None:
        state, replica = self._state, pod.replica
        with state.locked() as now:
            state.unseen.pod_changed(before, after, now.monotonic)
            if not state.leads and before is None and after is not None:
                self._may_be_passing(after, now.monotonic)
            state.cluster.set_pod(before, after, now.monotonic)
            if pod.device_claims:
                takes = after is not None and not after.finished
                state.settle_claims(state.devices.set_taker(pod, takes=takes))
            state.pod_changed(pod, now)
            if replica is not None:
                waited = before is not None and is_waiting(before)
                waits = after is not None and is_waiting(after)
                if waited != waits or not before or not after or _differ(before, after):
                    state.job_changed(replica.job_uid)
                if not waits:
                    state.no_longer_waits(pod, replica)
                if waited != waits:
                    state.observe_wait(replica.job_uid, now)
                if pod is after and pod.node is not None and (not before or before.node is None):
                    self._release_bound(pod, replica, now.monotonic)
                elif waited and not waits and not state.rescales.is_tracked(replica.job_uid):
                    state.reservations.release(replica)
            if after is not None and after.node is not None:
                state.fit_reservations(after.node)
        state.changes.notify()

    def _may_be_passing(self, pod: Pod, now: float) -> None:
        """kube-scheduler may be binding a pod of no job since before this process began."""
        ours = pod.replica is None and pod.scheduler_name in self._state.queue.schedulers
        if ours and is_waiting(pod) and (pod.has_rules or not pod.refused):
            self._state.unseen.perhaps_passed(pod, now, self._state.config.binding_seconds)

    def _release_bound(self, pod: Pod, replica: ReplicaId, now: float) -> None:
        state = self._state
        rescale = state.cluster.rescales.get(replica.job_uid)
        if pod.leaving or (rescale is not None and rescale.leaving):
            return  # a rescale deletes this pod: what is reserved is for its successor
        # Its room shows in the cluster now. The rest of its gang gets the time that it needs.
        state.reservations.release(replica)
        state.end_pause(replica.job_uid)
        until = now + state.config.reservation_seconds
        state.reservations.ledger.extend(replica.job_uid, until)

    # --- volumes and namespaces

    def claim(self, before: VolumeClaim | None, after: VolumeClaim | None) -> None:
        """A persistent volume claim."""
        self._set_volume(self._state.cluster.occupancy.volumes.set_claim, before, after)

    def volume(self, before: Volume | None, after: Volume | None) -> None:
        """A persistent volume."""
        self._set_volume(self._state.cluster.occupancy.volumes.set_volume, before, after)

    def storage_class(self, before: StorageClass | None, after: StorageClass | None) -> None:
        """A storage class."""
        self._set_volume(self._state.cluster.occupancy.volumes.set_class, before, after)

    def _set_volume(
        self,
        record: Callable[[T | None, T | None], set[ClaimName]],
        before: T | None,
        after: T | None,
    ) -> None:
        if before != after:
            with self._state.locked():
                self._claims_changed(record(before, after))

    def _claims_changed(self, claims: Collection[ClaimName]) -> None:
        """Only gangs that mount one of these claims are looked at again."""
        jobs = self._state.cluster.jobs_with_claims(claims)
        if not jobs:
            return
        self._state.cluster.occupancy.volumes_changed()
        for job_uid in jobs:
            self._state.end_pause(job_uid)
            self._state.job_changed(job_uid)
        self._state.changes.notify()

    def namespace(self, before: Namespace | None, after: Namespace | None) -> None:
        """A namespace."""
        known = after or before
        assert known is not None
        with self._state.locked():
            labels = None if after is None else after.labels
            self._state.cluster.occupancy.set_namespace(known.name, labels)
        self._state.changes.notify()

    # --- jobs and their profiles

    def job(self, before: TrainingJob | None, after: TrainingJob | None) -> None:
        """A job of any kind."""
        if before is not None and (after is None or before.uid != after.uid):
            self._job_uids.pop((before.kind, before.namespace, before.name), None)
            self.set_profile(before.uid, NO_PROFILE)
            self.set_rescale(before.uid, None)
            self._set_gangs(before, {})
            self._set_shape(before.uid, None)
        if after is None:
            return
        self._set_shape(after.uid, after.shape)
        is_over = after.outcome is not None or after.deleted
        self._set_gangs(after, {} if is_over else after.gangs())
        name = after.kind, after.namespace, after.name
        if self._job_uids.get(name) != after.uid:
            self._job_uids[name] = after.uid
            self._apply_profile(name)

    def _set_shape(self, uid: str, shape: SetShape | None) -> None:
        with self._members_lock:
            for was, now in self.job_sets.set_shape(uid, shape):
                self._replace_pod(was, now)

    def _set_gangs(self, job: TrainingJob, gangs: Mapping[str, Job | None]) -> None:
        """Record what each gang of a job is; none once it is gone or over."""
        for uid in self._gangs.pop(job.uid, (job.uid,)):
            if uid not in gangs:
                self.set_job(uid, None)
        for uid, found in gangs.items():
            self.set_job(uid, found, exists=True)
        if job.shape is not None and gangs:
            self._gangs[job.uid] = tuple(gangs)

    def set_job(self, uid: str, job: Job | None, *, exists: bool = False) -> None:
        """A job was added or changed; ``None``: it is gone, over, or ``exists`` unreadably."""
        state = self._state
        with self._members_lock:
            with state.locked():
                before = state.cluster.jobs.get(uid)
                if job is not None and before == job:
                    return
                state.cluster.set_job(uid, job, exists=exists)
                if job is None and not exists:
                    state.forget(uid)
                else:
                    state.job_spec_changed(uid)
            if job is not None and before is None:
                self._check_members(uid)
        state.changes.notify()

    def profile(self, before: TrainingProfile | None, after: TrainingProfile | None) -> None:
        """A TrainingProfile: whether its job is being rescaled, and to what.

        Anybody may write a UID into its spec: it counts only where the job of that UID has the
        profile's name."""
        if before is not None and self._profiles.pop(_job_name(before), None) is not None:
            moved = (
                after is None
                or _job_name(before) != _job_name(after)
                or before.job.uid != after.job.uid
            )
            if moved and self._job_uids.get(_job_name(before)) == before.job.uid:
                self.set_profile(before.job.uid, NO_PROFILE)
                self.set_rescale(before.job.uid, None)
        if after is not None:
            self._profiles[_job_name(after)] = after
            self._apply_profile(_job_name(after))

    def _apply_profile(self, name: _JobName) -> None:
        profile = self._profiles.get(name)
        if profile is not None and self._job_uids.get(name) == profile.job.uid:
            self.set_profile(profile.job.uid, facts_of(profile))
            self.set_rescale(profile.job.uid, rescale_of(profile), has_run=has_run(profile))

    def set_profile(self, job_uid: str, facts: ProfileFacts) -> None:
        """A job's profile has changed, or is gone."""
        state = self._state
        with state.locked():
            if state.cluster.set_profile(job_uid, facts):
                state.job_changed(job_uid)
        state.changes.notify()

    def set_rescale(
        self, job_uid: str, rescale: ProfileRescale | None, *, has_run: bool = False
    ) -> None:
        """A job's rescale began, went a step further, or ended (``None``)."""
        state = self._state
        with state.locked() as now:
            if has_run:
                state.cluster.have_run.add(job_uid)
            if state.cluster.rescales.get(job_uid) != rescale:
                state.queue.cached.pop(job_uid, None)  # its pods may list the new counts
            state.cluster.set_rescale(job_uid, rescale)
            state.rescales.follow(now.monotonic)
        state.reserve_for_rescales()
        state.changes.notify()


def _differ(before: Pod, after: Pod) -> bool:
    """Return whether the pod means something else to its gang."""
    return (before.leaving, before.gates, before.labels, before.resources, before.beyond_plan) != (
        after.leaving,
        after.gates,
        after.labels,
        after.resources,
        after.beyond_plan,
    )


def _without_job(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, replica=None, gang=None, owner=None)


def _job_name(profile: TrainingProfile) -> _JobName:
    return profile.job.kind, profile.namespace, profile.name


def rescale_of(profile: TrainingProfile) -> ProfileRescale | None:
    """The rescale that room is reserved for; ``None`` too where the job is to stay suspended."""
    status, record = profile.status, profile.status.rescale
    if status.phase not in RESCALING:
        return None
    if status.target_ps is not None and status.target_workers is not None:
        target = Counts(status.target_ps, status.target_workers)
    elif record is not None:
        target = record.target
    else:
        return None
    if target == NO_COUNTS or max(target) > MOST_REPLICAS:
        return None
    name, purpose = (status.interval_id, "") if record is None else (record.id, record.purpose)
    leaving, kept = status.phase is Phase.SUSPENDING, None
    if record is not None:
        had = record.origin
        kept = Counts(min(had.ps, target.ps), min(had.workers, target.workers))
    kept = None if kept == target else kept
    return ProfileRescale(profile.job.uid, name, target, leaving, kept, purpose in _USERS)


def pause_of(profile: TrainingProfile) -> str | None:
    """The id of the pause in progress, "" where the job is paused, ``None`` where neither is so."""
    record = profile.status.rescale
    if record is not None:
        return record.id if record.pause and record.target == NO_COUNTS else None
    return "" if profile.status.phase is Phase.PAUSED else None


def forecast_of(profile: TrainingProfile) -> ProfileForecast | None:
    """Return how long the job needs to its end, as of its last decision."""
    status = profile.status
    if status.remaining_seconds is None or not status.decided_at:
        return None
    try:
        decided_at = parse_instant(status.decided_at)
    except Malformed:
        return None
    return ProfileForecast(decided_at, float(status.remaining_seconds))


def avoided_of(profile: TrainingProfile) -> dict[str, float]:
    """The nodes that the job avoids, and until when (epoch, seconds)."""
    avoided: dict[str, float] = {}
    for each in profile.status.avoided_nodes:
        try:
            avoided[each.node] = parse_instant(each.until)
        except Malformed:
            continue
    return avoided


def facts_of(profile: TrainingProfile) -> ProfileFacts:
    """Return what a profile says beside the rescale."""
    kind = profile.status.node_kind
    return ProfileFacts(
        forecast_of(profile),
        pause_of(profile),
        avoided_of(profile),
        None if kind is None else Binding(kind.label, kind.value),
    )


def has_run(profile: TrainingProfile) -> bool:
    """Return whether the job has trained before."""
    return profile.status.trained_seconds > 0 or profile.status.rescales > 0
