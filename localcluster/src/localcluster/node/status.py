"""The status of a pod as a kubelet writes it,.

The rules follow `getPhase` (kubernetes `pkg/kubelet/kubelet_pods.go`) and the pod conditions of
`pkg/kubelet/status/generate.go`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from localcluster.node.lifecycle import (
    ContainerRecord,
    Running,
    Terminated,
    Waiting,
)
from localcluster.node.pod_spec import HOST_IP
from optimus.kube.times import format_second


@dataclass
class Conditions:
    """A pod's conditions by type; each keeps the instant at which its status last changed."""

    by_type: dict[str, dict[str, Any]] = field(default_factory=dict)

    def update(
        self,
        sidecars: Sequence[ContainerRecord],
        main: Sequence[ContainerRecord],
        phase: str,
        *,
        prepared: bool,
        now: float,
    ) -> None:
        """Set all conditions from the containers' states."""
        ended = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase)
        missing = " ".join(each.spec.name for each in sidecars if not each.started_once)
        unready = [each.spec.name for each in [*sidecars, *main] if not each.ready]
        self._set("PodReadyToStartContainers", prepared and ended is None, ("", ""), now)
        incomplete = f"containers with incomplete status: [{missing}]"
        initialized = phase == "Succeeded" or (prepared and not missing)
        self._set("Initialized", initialized, ("ContainersNotInitialized", incomplete), now)
        ready = not unready and ended is None and bool(main)
        message = f"containers with unready status: [{' '.join(unready)}]"
        why = (ended, "") if ended else ("ContainersNotReady", message)
        self._set("Ready", ready, why, now)
        self._set("ContainersReady", ready, why, now)

    def _set(self, kind: str, holds: bool, why: tuple[str, str], now: float) -> None:
        status = "True" if holds else "False"
        reason, message = ("", "") if holds else why
        before = self.by_type.get(kind, {})
        same = before.get("status") == status
        self.by_type[kind] = {
            "type": kind,
            "status": status,
            "reason": reason or None,
            "message": message or None,
            "lastTransitionTime": before["lastTransitionTime"] if same else format_second(now),
        }


def phase_of(
    sidecars: Sequence[ContainerRecord], main: Sequence[ContainerRecord], restart_policy: str
) -> str:
    """Return the phase of a pod that is being run: Pending, Running, Succeeded or Failed."""
    # A container in back-off counts as the ended run that it waits to repeat, as in a kubelet.
    waits = any(isinstance(each.state, Waiting) and each.last is None for each in main)
    if waits or not all(each.started_once for each in sidecars):
        return "Pending"
    # Sidecars are still to be ended: the pod is not over, whatever its main containers returned.
    over = restart_policy != "Always" and all(each.over for each in main)
    if not over or any(each.alive for each in sidecars):
        return "Running"
    return terminal_phase(main)


def terminal_phase(main: Sequence[ContainerRecord]) -> str:
    """The last phase of a pod of which nothing runs; a sidecar's exit code does not count."""
    return "Succeeded" if main and all(each.succeeded for each in main) else "Failed"


def pod_status(
    uid: str, started_at: float, containers: Sequence[ContainerRecord], phase: str
) -> dict[str, Any]:
    """Return the whole status but its conditions, as the body of a patch of `pods/status`."""
    written = {
        sidecar: [
            _container_status(uid, each) for each in containers if each.spec.sidecar is sidecar
        ]
        for sidecar in (True, False)
    }
    return {
        "phase": phase,
        "startTime": format_second(started_at),
        "hostIP": HOST_IP,
        "hostIPs": [{"ip": HOST_IP}],
        "podIP": HOST_IP,
        "podIPs": [{"ip": HOST_IP}],
        "initContainerStatuses": written[True],
        "containerStatuses": written[False],
    }


def _container_id(pod_uid: str, record: ContainerRecord, attempt: int) -> str:
    return f"process://{pod_uid}/{record.spec.name}/{attempt}"


def _container_status(uid: str, record: ContainerRecord) -> dict[str, Any]:
    status: dict[str, Any] = {
        "name": record.spec.name,
        "image": record.spec.image,
        "imageID": record.spec.image if record.launched else "",
        "ready": record.ready,
        "restartCount": record.attempt,
        "state": _state(uid, record, record.state),
        "lastState": _state(uid, record, record.last) if record.last else {},
        "started": isinstance(record.state, Running) and record.started,
    }
    if record.launched:
        status["containerID"] = _container_id(uid, record, record.attempt)
    return status


def _state(
    uid: str, record: ContainerRecord, state: Waiting | Running | Terminated
) -> Mapping[str, Any]:
    match state:
        case Waiting():
            return {"waiting": {"reason": state.reason, "message": state.message or None}}
        case Running():
            return {"running": {"startedAt": format_second(state.since.wall)}}
        case Terminated():
            began = None if state.started_at is None else format_second(state.started_at)
            terminated = {
                "exitCode": state.exit_code,
                "reason": state.reason,
                "message": state.message or None,
                "startedAt": began,
                "finishedAt": format_second(state.finished_at),
                "containerID": _container_id(uid, record, state.attempt),
            }
            return {"terminated": terminated}
