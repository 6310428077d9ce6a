"""The status of a pod as a kubelet writes it: phase, conditions and container states, computed from
records.

The rules follow `getPhase` of the kubelet (kubernetes `pkg/kubelet/kubelet_pods.go`) and its pod
conditions (`pkg/kubelet/status/generate.go`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from localcluster.node.lifecycle import Record, Running, StatusJson, Terminated, Waiting
from localcluster.node.recovery import parse_time
from localcluster.node.spec import Kind, PodPlan

HOST_IP = "127.0.0.1"


@dataclass(frozen=True)
class Failure:
    """Why a pod as a whole failed, where the containers do not tell (admission, deadline)."""

    reason: str
    message: str
    at_admission: bool = False

    @staticmethod
    def read(status: StatusJson) -> "Failure | None":
        """Read it back from a written status."""
        reason = status.get("reason")
        refused = not status.get("startTime")
        return Failure(str(reason), str(status.get("message") or ""), refused) if reason else None


@dataclass(frozen=True)
class _Condition:
    status: bool
    reason: str
    message: str
    since: datetime


@dataclass
class Conditions:
    """A pod's conditions; each keeps the instant at which its status last changed."""

    _by_type: dict[str, _Condition] = field(default_factory=dict)

    @staticmethod
    def read(status: StatusJson) -> "Conditions":
        """Read back the conditions that an earlier agent wrote."""
        found: dict[str, _Condition] = {}
        for each in status.get("conditions") or ():
            since = parse_time(each.get("lastTransitionTime")) or datetime.now(UTC)
            if each["type"] in _TYPES:
                found[each["type"]] = _Condition(
                    each["status"] == "True", each.get("reason") or "", "", since
                )
        return Conditions(found)

    def update(
        self,
        init: Sequence[Record],
        main: Sequence[Record],
        phase: str,
        *,
        prepared: bool,
        now: datetime,
    ) -> None:
        """Set all conditions from the containers' states."""
        ended = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase)
        missing = [each.plan.name for each in init if not _initialized(each)]
        unready = [each.plan.name for each in [*_sidecars(init), *main] if not each.ready]
        ready_reason, ready_message = (
            "ContainersNotReady",
            f"containers with unready status: [{' '.join(unready)}]",
        )
        if ended:
            ready_reason, ready_message = ended, ""
        ready = not unready and ended is None and bool(main)
        done = phase == "Succeeded"
        message = f"containers with incomplete status: [{' '.join(missing)}]"
        self._set("PodReadyToStartContainers", prepared and ended is None, "", "", now)
        self._set(
            "Initialized",
            done or (prepared and not missing),
            "ContainersNotInitialized",
            message,
            now,
        )
        self._set("Ready", ready, ready_reason, ready_message, now)
        self._set("ContainersReady", ready, ready_reason, ready_message, now)

    def _set(self, kind: str, status: bool, reason: str, message: str, now: datetime) -> None:
        if status:
            reason = message = ""
        before = self._by_type.get(kind)
        since = before.since if before is not None and before.status == status else now
        self._by_type[kind] = _Condition(status, reason, message, since)

    def to_json(self) -> list[dict[str, Any]]:
        """Write the conditions as the API has them."""
        return [
            {
                "type": kind,
                "status": "True" if each.status else "False",
                "reason": each.reason or None,
                "message": each.message or None,
                "lastTransitionTime": format_time(each.since),
            }
            for kind, each in self._by_type.items()
        ]


_TYPES = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


class Writable(Protocol):
    """What `write_status` reads of a pod machine."""

    plan: PodPlan
    init: list[Record]
    main: list[Record]

    @property
    def started_at(self) -> datetime:
        """When the pod was taken on."""
        ...


def phase_of(init: Sequence[Record], main: Sequence[Record], restart_policy: str) -> str:
    """Compute the phase of a pod that is being run: Pending, Running, Succeeded or Failed."""
    if any(each.plan.kind is Kind.INIT and each.over and not each.succeeded for each in init):
        return "Failed"
    if not all(_initialized(each) for each in init):
        return "Pending"
    states = [_effective(each) for each in main]
    if any(isinstance(state, Waiting) for state in states):
        return "Pending"
    if any(isinstance(state, Running) for state in states) or restart_policy == "Always":
        return "Running"
    # Sidecars are still to be ended: the pod is not over, whatever its main containers returned.
    if not all(each.over for each in main) or any(each.alive for each in init):
        return "Running"
    return terminal_phase(init, main)


def terminal_phase(init: Sequence[Record], main: Sequence[Record]) -> str:
    """Compute the last phase of a pod of which nothing runs any more. A sidecar's exit code does
    not count."""
    initialized = all(each.succeeded for each in init if each.plan.kind is Kind.INIT)
    return (
        "Succeeded" if initialized and main and all(each.succeeded for each in main) else "Failed"
    )


def write_status(
    pod: Writable, phase: str, conditions: Conditions, failure: Failure | None
) -> dict[str, Any]:
    """Write the whole status as the body of a patch of `pods/status`."""
    if failure is not None and failure.at_admission:
        return {"phase": phase, "reason": failure.reason, "message": failure.message}
    status: dict[str, Any] = {
        "phase": phase,
        "startTime": format_time(pod.started_at),
        "hostIP": HOST_IP,
        "hostIPs": [{"ip": HOST_IP}],
        "podIP": HOST_IP,
        "podIPs": [{"ip": HOST_IP}],
        "conditions": conditions.to_json(),
        "initContainerStatuses": [_container_status(pod.plan, each) for each in pod.init],
        "containerStatuses": [_container_status(pod.plan, each) for each in pod.main],
    }
    if failure is not None:
        status["reason"], status["message"] = failure.reason, failure.message
    return status


def format_time(instant: datetime) -> str:
    """Write an instant as the API does for status fields: RFC 3339 in UTC, whole seconds."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def container_id(pod_uid: str, container: str, attempt: int) -> str:
    """Name one run of a container."""
    return f"process://{pod_uid}/{container}/{attempt}"


def _sidecars(init: Sequence[Record]) -> list[Record]:
    return [each for each in init if each.plan.kind is Kind.SIDECAR]


def _initialized(record: Record) -> bool:
    return record.started_once if record.plan.kind is Kind.SIDECAR else record.succeeded


def _effective(record: Record) -> Waiting | Running | Terminated:
    """See a container in back-off as the ended run that it waits to repeat, as the kubelet's phase
    does."""
    if isinstance(record.state, Waiting) and record.last is not None:
        return record.last
    return record.state


def _container_status(plan: PodPlan, record: Record) -> dict[str, Any]:
    running = isinstance(record.state, Running)
    status: dict[str, Any] = {
        "name": record.plan.name,
        "image": record.plan.image,
        "imageID": record.plan.image if record.launched else "",
        "ready": record.ready,
        "restartCount": record.attempt,
        "state": _state(plan, record, record.state),
        "lastState": _state(plan, record, record.last) if record.last else {},
    }
    if record.plan.kind is not Kind.INIT or running:
        status["started"] = running and record.started
    if record.launched:
        status["containerID"] = container_id(plan.uid, record.plan.name, record.attempt)
    return status


def _state(
    plan: PodPlan, record: Record, state: Waiting | Running | Terminated
) -> Mapping[str, Any]:
    match state:
        case Waiting():
            return {"waiting": {"reason": state.reason, "message": state.message or None}}
        case Running():
            return {"running": {"startedAt": format_time(state.since.wall)}}
        case Terminated():
            started = format_time(state.started_at) if state.started_at else None
            return {
                "terminated": {
                    "exitCode": state.exit_code,
                    "reason": state.reason,
                    "message": state.message or None,
                    "startedAt": started,
                    "finishedAt": format_time(state.finished_at),
                    "containerID": container_id(plan.uid, record.plan.name, state.attempt),
                }
            }
