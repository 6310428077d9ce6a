"""Pods, reduced to what scheduling needs.

Decoded straight from the API server's JSON into the fields that are needed: fifty thousand pods
take seconds this way, against most of a minute and four gigabytes through the client library's
models."""

import sys
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from optimus.jobs import TRAINERS, Counts, Job, JobKey, NodeConstraints, Role
from optimus.kube.contract import Annotation
from optimus.kube.errors import decode
from optimus.kube.job_kinds import (
    JOB_KINDS,
    JOBSET,
    MOST_REPLICAS,
    PYTORCHJOB,
    replica_of,
    role_named,
)
from optimus.kube.jobsets import SetMember, SetShape, member_of
from optimus.kube.list_watch import ListWatch
from optimus.kube.metadata import ObjectMetadata, StatusCondition, UniqueMetadata, decoder_of
from optimus.kube.podspec import (
    MOST_ITEMS,
    Container,
    PodClaim,
    PodSpec,
    beyond_plan,
    constraints_of,
    environment_value,
    requests_of,
    rules_of,
)
from optimus.kube.times import created_at
from optimus.placement.rules import Labels, PodRules
from optimus.resources import NONE, Resources
from optimus.snapshot import BoundPod, ReplicaId


class Owner(NamedTuple):
    """The training job that controls a pod, or the JobSet that controls its Job."""

    kind: str
    name: str
    uid: str


CRASH_LOOP: Final = "CrashLoopBackOff"


class ContainerState(NamedTuple):
    """The container that trains, as the pod's status shows it."""

    started_at: float | None = None
    """The instant since which it has run, seconds since the epoch, UTC; where it was restarted,
    since when the pod has. ``None`` while it does not run."""
    restarts: int = 0
    error: str = ""
    """The error with which it last ended: ``exit code 137 (OOMKilled)``."""
    stopped: str = ""
    """Why the kubelet does not run it, or another container of its pod, in the kubelet's words:
    ``CrashLoopBackOff``, ``ImagePullBackOff: no such image``, ``Evicted: ...``."""
    message: str = ""
    """The message that it left for the kubelet when it last ended; by the pod's
    ``terminationMessagePolicy`` the last lines of its log."""
    restarted_at: float | None = None
    """The same of a container that was started again."""

    @property
    def crash_loops(self) -> bool:
        """The kubelet waits longer and longer before it starts it again."""
        return self.stopped == CRASH_LOOP


_NEW_CONTAINER = ContainerState()
_ORDINARY: Final = (None, "", "ContainerCreating", "PodInitializing")
"""Why a container waits that is about to run."""

_LONGEST_MESSAGE: Final = 300

FINISHED_PHASES: Final = frozenset({"Succeeded", "Failed"})
"""The phases of a pod that has ended: it takes no room any more."""


class Pod(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A pod, reduced to what decisions need.

    ``resources`` is what it takes of its node, ``pods`` = 1 included. ``leaving`` means that it is
    being deleted. ``gang`` counts the roles that the pod's own environment, such as TF_CONFIG,
    tells of (fixed when the pod was made); ``None`` where there is none, which is so for a single
    replica. ``nominated_node`` is kube-scheduler's ``status.nominatedNodeName``. ``created_at`` is
    in seconds since the epoch, UTC. ``rules`` are those that concern other pods, ports and volumes;
    ``beyond_plan`` means that it has further ones, which only kube-scheduler can answer.
    ``gates`` are the scheduling gates that it waits for.
    """

    uid: str
    namespace: str
    name: str
    created_at: float
    owner: Owner | None = None
    replica: ReplicaId | None = None
    node: str | None = None
    phase: str = "Pending"
    leaving: bool = False
    resources: Resources
    constraints: NodeConstraints
    scheduler_name: str = "default-scheduler"
    nominated_node: str | None = None
    gang: Mapping[Role, int] | None = None
    log_container: str = ""
    resource_version: str = ""
    labels: Labels = ()
    rules: PodRules | None = None
    beyond_plan: bool = False
    device_claims: tuple[PodClaim, ...] = ()
    """Its claims of devices (dynamic resource allocation)."""

    in_group: bool = False
    """kube-scheduler itself decides on it together with the others of its PodGroup."""

    gates: tuple[str, ...] = ()
    priority: int = 0
    """``spec.priority``, which the API server takes from the pod's PriorityClass."""

    priority_class: str = ""
    """The name of that class."""

    may_preempt: bool = True
    """``spec.preemptionPolicy``, of the same class, is not Never."""

    container: ContainerState = _NEW_CONTAINER
    goal_met: str = ""
    """The instant since which its job's goal has been met, by its annotation; empty: not
    annotated."""

    member: SetMember | None = None
    """Its place in its JobSet, which tells its replica and its gang (``in_set``)."""

    refused: bool = False
    """A scheduler has found no node for it, by its condition PodScheduled."""

    refusal: str = ""
    """The message of that condition while it is False."""

    @property
    def job_key(self) -> JobKey | None:
        """Namespace and name of the job that controls the pod."""
        return None if self.owner is None else JobKey(self.namespace, self.owner.name)

    @property
    def has_failed(self) -> bool:
        """It does not run, or was started again, for an error or for what the kubelet says."""
        state = self.container
        is_there = not self.leaving and self.phase != "Succeeded"
        return is_there and bool(state.stopped or state.error)

    @property
    def has_rules(self) -> bool:
        """More than resources and constraints decides where it may go."""
        return self.rules is not None or self.beyond_plan or bool(self.device_claims)

    @property
    def finished(self) -> bool:
        """It has ended, so that it takes no room any more."""
        return self.phase in FINISHED_PHASES

    @property
    def running(self) -> bool:
        """It runs and is not being deleted."""
        return self.phase == "Running" and not self.leaving

    def without(self, resources: Collection[str]) -> "Pod":
        """The pod without these resources."""
        left = self.resources.without(resources)
        return self if left is self.resources else msgspec.structs.replace(self, resources=left)

    def bound(self) -> BoundPod | None:
        """The pod as snapshots hold it; ``None`` without a node and once it has ended."""
        if self.node is None or self.finished:
            return None
        return BoundPod(self.uid, self.node, self.resources, self.replica, self.leaving)

    def ended(self) -> BoundPod | None:
        """A replica that has ended: it takes no room, and no other pod is to take its place."""
        if self.replica is None or self.node is None or self.leaving or not self.finished:
            return None
        return BoundPod(self.uid, self.node, NONE, self.replica, ended=True)

    @property
    def has_trained(self) -> bool:
        """It trained and has ended well: its job is about to end."""
        role = None if self.replica is None else self.replica.role
        return self.phase == "Succeeded" and not self.leaving and role in TRAINERS


class _Running(msgspec.Struct, gc=False, rename="camel"):
    started_at: str | None = None


class _Reason(msgspec.Struct, gc=False):
    reason: str | None = None
    message: str | None = None


class _Terminated(msgspec.Struct, gc=False, rename="camel"):
    exit_code: int = 0
    reason: str | None = None
    message: str | None = None


class _State(msgspec.Struct, gc=False):
    running: _Running | None = None
    waiting: _Reason | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    restart_count: int = 0
    state: _State | None = None
    last_state: _State | None = None


class _PodStatus(msgspec.Struct, gc=False, rename="camel"):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    start_time: str | None = None
    nominated_node_name: str | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None
    conditions: msgspec.Raw = msgspec.Raw()  # read of pods without a node alone


class _StoredPod(msgspec.Struct, gc=False):
    metadata: UniqueMetadata
    spec: PodSpec
    status: _PodStatus | None = None


_CONDITIONS: Final = msgspec.json.Decoder(list[StatusCondition])


def watched_pods(
    label_selector: str = "", ignored_resources: frozenset[str] = frozenset()
) -> ListWatch[Pod]:
    """Pods of every namespace, without the resources that another extender accounts for."""

    def decode_planned(raw: bytes | msgspec.Raw) -> Pod:
        return decode_pod(raw).without(ignored_resources)

    decoder = decode_planned if ignored_resources else decode_pod
    return ListWatch("pods", decoder, label_selector=label_selector)


def _pod(raw: _StoredPod) -> Pod:
    metadata, status = raw.metadata, raw.status or _PodStatus()
    member = _member(metadata)
    owner = _owner(metadata, member)
    containers = raw.spec.containers or []
    labels, container = _interned_labels(metadata.labels), log_container(containers)
    refused = None if raw.spec.node_name else _refused(status.conditions)
    return Pod(
        uid=metadata.uid,
        namespace=metadata.namespace,
        name=metadata.name,
        created_at=created_at(metadata.creation_timestamp),
        owner=owner,
        replica=_replica(owner, metadata.labels or {}, member),
        node=raw.spec.node_name or None,
        phase=status.phase or "Pending",
        leaving=metadata.deletion_timestamp is not None,
        resources=requests_of(raw.spec),
        constraints=constraints_of(raw.spec),
        scheduler_name=raw.spec.scheduler_name or "default-scheduler",
        nominated_node=status.nominated_node_name or None,
        gang=gang_of(containers, container) if owner and member is None else None,
        member=member,
        log_container=container,
        resource_version=metadata.resource_version,
        labels=labels,
        rules=rules_of(raw.spec, metadata.namespace, metadata.name, labels),
        beyond_plan=beyond_plan(raw.spec) or len(metadata.labels or ()) > MOST_ITEMS,
        device_claims=tuple(raw.spec.resource_claims or ()),
        in_group=raw.spec.scheduling_group is not None,
        gates=tuple(gate.name for gate in raw.spec.scheduling_gates or ()),
        priority=raw.spec.priority or 0,
        container=_container(status, container) if owner else _NEW_CONTAINER,
        priority_class=sys.intern(raw.spec.priority_class_name or ""),
        may_preempt=raw.spec.preemption_policy != "Never",
        goal_met=(metadata.annotations or {}).get(Annotation.GOAL_MET, ""),
        refused=bool(refused and refused.reason == "Unschedulable"),
        refusal=(refused and refused.message) or "",
    )


decode_pod = decoder_of(_StoredPod, "a pod", _pod)


def _refused(conditions: msgspec.Raw) -> StatusCondition | None:
    """The condition that says that kube-scheduler has found no node yet."""
    is_there = bytes(conditions) not in (b"", b"null")
    found = decode(_CONDITIONS, conditions, "a list of conditions") if is_there else ()
    refusals = (each for each in found if (each.type, each.status) == ("PodScheduled", "False"))
    return next(refusals, None)


def _container(status: _PodStatus, name: str) -> ContainerState:
    """The state of the container that trains; of a pod of no training job it is not needed."""
    found = next((each for each in status.container_statuses or () if each.name == name), None)
    stopped = _stopped(status)
    if found is None:
        return ContainerState(stopped=stopped) if stopped else _NEW_CONTAINER
    state, last = found.state or _State(), found.last_state or _State()
    started_at = restarted_at = None
    if state.running is not None:
        began = state.running.started_at
        started = status.start_time if found.restart_count else began
        started_at = created_at(started) or None
        restarted_at = created_at(began) or None if found.restart_count else None
    ended = state.terminated or last.terminated
    error, message = _error(ended), ended.message if ended is not None else None
    return ContainerState(
        started_at,
        found.restart_count,
        error,
        stopped,
        (message or "")[-_LONGEST_MESSAGE:] if error else "",
        restarted_at,
    )


def _stopped(status: _PodStatus) -> str:
    """Return why a container of the pod does not run, as the kubelet says."""
    if status.phase == "Failed":
        return _told(status.reason, status.message)
    for each in (*(status.container_statuses or ()), *(status.init_container_statuses or ())):
        waiting = None if each.state is None else each.state.waiting
        if waiting is not None and waiting.reason not in _ORDINARY:
            # Its message tells of the pause alone.
            message = None if waiting.reason == CRASH_LOOP else waiting.message
            return _told(waiting.reason, message)
    return ""


def _told(reason: str | None, message: str | None) -> str:
    # A pull that has failed is tried again after a pause: one state for whoever looks.
    known = "ImagePullBackOff" if reason == "ErrImagePull" else reason
    parts = (known, (message or "").strip()[:_LONGEST_MESSAGE])
    return ": ".join(filter(None, parts))


def _error(ended: _Terminated | None) -> str:
    if ended is None or ended.exit_code == 0:
        return ""
    reason = f" ({ended.reason})" if ended.reason and ended.reason != "Error" else ""
    return f"exit code {ended.exit_code}{reason}"


def _interned_labels(labels: Mapping[str, str] | None) -> Labels:
    """The first labels; they share their parts: fifty thousand pods have some thousand."""
    first = sorted(islice((labels or {}).items(), MOST_ITEMS))
    return tuple([_pair(key, value) for key, value in first])


@lru_cache(maxsize=65536)
def _pair(key: str, value: str) -> tuple[str, str]:
    return key, value


def _member(metadata: ObjectMetadata) -> SetMember | None:
    """The member of a JobSet that a pod of a Job is."""
    owners = metadata.controllers
    if not any((owner.kind, owner.api_version) == ("Job", "batch/v1") for owner in owners):
        return None
    return member_of(metadata.labels or {})


def _owner(metadata: ObjectMetadata, member: SetMember | None) -> Owner | None:
    if member is not None:
        return Owner(JOBSET.name, member.jobset, member.jobset_uid)
    for owner in metadata.controllers:
        kind = JOB_KINDS.get(owner.kind)
        if kind is not None and kind.group == owner.group:
            return Owner(owner.kind, owner.name, owner.uid)
    return None


def _replica(
    owner: Owner | None, pod_labels: Mapping[str, str], member: SetMember | None
) -> ReplicaId | None:
    if member is not None:
        return ReplicaId(member.jobset_uid, Role.WORKER, member.pod_index)
    replica = replica_of(pod_labels)
    return None if owner is None or replica is None else ReplicaId(owner.uid, *replica)


def in_set(pod: Pod, shape: SetShape | None) -> Pod:
    """A pod with its place in its gang where ``shape`` is that of its JobSet; any other as it is.

    Until its JobSet is known, its replica is its index within its Job, and its gang is not known.
    A pod that has failed is replaced by its Job, and one of an earlier attempt of the JobSet by
    another Job: neither is a replica any more."""
    member = pod.member
    if member is None or shape is None or member.jobset_uid != shape.uid:
        return pod
    place = shape.place(member)
    leaving = pod.leaving or pod.phase == "Failed" or member.attempt < shape.restarts
    if place is None:
        return msgspec.structs.replace(pod, replica=None, gang=None, leaving=leaving)
    replica = ReplicaId(place.gang.uid, Role.WORKER, place.number)
    gang = {Role.WORKER: place.gang.size}
    return msgspec.structs.replace(pod, replica=replica, gang=gang, leaving=leaving)


def log_container(containers: Sequence[Container]) -> str:
    """The container that trains, by the operator's name for it; else the first."""
    if len(containers) == 1:
        return containers[0].name
    names = [container.name for container in containers]
    return next((name for name in _CONTAINERS if name in names), names[0] if names else "")


class _ClusterField(msgspec.Struct):
    cluster: msgspec.Raw = msgspec.Raw(b"{}")


_CLUSTER_FIELD = msgspec.json.Decoder(_ClusterField)
# With enableDynamicWorker a pod is told of no whole gang: an object stands for the workers' list.
_CLUSTER = msgspec.json.Decoder(dict[str, list[object]])
_LONGEST_SHARED_CLUSTER = 16_384
_GANG_VARIABLES = [kind.gang_variable for kind in JOB_KINDS.values() if kind.gang_variable]
_CONTAINERS = [kind.container for kind in JOB_KINDS.values() if kind.container]


def gang_of(containers: Sequence[Container], first: str) -> Mapping[Role, int] | None:
    """Replicas by role in the pod's TF_CONFIG, MX_CONFIG or PET_NNODES, looked for in the container
    ``first``, then in the others; ``None`` without a whole gang."""
    if len(containers) > 1:
        containers = sorted(containers, key=lambda container: container.name != first)
    found = environment_value(containers, _GANG_VARIABLES)
    if found is None:
        return None
    if found[0] == PYTORCHJOB.gang_variable:
        return _torch_counts(found[1], environment_value(containers, ("RANK",)) is not None)
    try:
        cluster = bytes(_CLUSTER_FIELD.decode(found[1]).cluster)
        # The list is the same in every pod of a gang.
        counted = _counts if len(cluster) <= _LONGEST_SHARED_CLUSTER else _counts.__wrapped__
        return counted(cluster)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _torch_counts(nodes: str, has_master: bool) -> Mapping[Role, int] | None:
    """Replicas by role of a PyTorchJob, from the number of its pods: with a Master the operator
    gives each its RANK. An elastic job has a range, as in ``1:4``: no whole gang."""
    if not (nodes.isascii() and nodes.isdigit() and len(nodes) < 10):
        return None
    workers = int(nodes) - has_master
    if not 0 <= workers <= MOST_REPLICAS:
        return None
    counts = {Role.MASTER: int(has_master), Role.WORKER: workers}
    return {role: count for role, count in counts.items() if count} or None


@lru_cache(maxsize=1024)
def _counts(cluster: bytes) -> Mapping[Role, int] | None:
    """Replicas by role of a cluster's lists of addresses; ``None`` where it is no whole gang.

    Raises:
        MsgspecError: it is not JSON of that form.
    """
    counts: dict[Role, int] = {}
    for replica_type, members in _CLUSTER.decode(cluster).items():
        role = role_named(replica_type)
        if role is None:
            return None
        counts[role] = counts.get(role, 0) + len(members)
        if counts[role] > MOST_REPLICAS:
            return None
    return {role: count for role, count in counts.items() if count} or None


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


def why_never_meet(job: Job, pods: Sequence[Pod]) -> str:
    """Why the processes of a job without PSs wait for one another for ever: some of its pods were
    made for other counts than the rest. Empty where none was, or where it is about to stop."""
    stays = job.kind != PYTORCHJOB.name or job.suspended
    made_for = None if stays else other_gang(pods, job.counts)
    if made_for is None:
        return ""
    return (
        f"its replicas were changed from {made_for} to {job.counts} while it ran: its old and its"
        " new pods expect different numbers of each other and never meet; suspend the job, wait"
        " until its pods are gone, and resume it"
    )
