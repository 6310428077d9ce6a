"""The fields of a pod that steer its lifecycle here, and the fields that are not supported."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Json = Mapping[str, Any]

PROBES: Final = ("startupProbe", "readinessProbe", "livenessProbe")
VOLUME_TYPES: Final = (
    "emptyDir",
    "hostPath",
    "persistentVolumeClaim",
    "configMap",
    "secret",
    "projected",
    "downwardAPI",
)
HOST_IP: Final = "127.0.0.1"
_UNSUPPORTED_POD_FIELDS: Final = ("activeDeadlineSeconds", "readinessGates")
_UNSUPPORTED_CONTAINER_FIELDS: Final = ("lifecycle", "volumeDevices", "workingDir")


class Unresolved(Exception):
    """A variable or file refers to something that is not there now; may pass."""


@dataclass(frozen=True)
class ProbeSpec:
    """An HTTP probe of a container; seconds and counts as in the pod."""

    http_get: Json
    initial_delay_seconds: float
    period_seconds: float
    timeout_seconds: float
    success_threshold: int
    failure_threshold: int


@dataclass(frozen=True)
class ContainerSpec:
    """One container of a pod; command, environment and mounts are read from `raw` at its start."""

    name: str
    image: str
    restart_policy: str
    sidecar: bool = False
    """Whether it runs before and beside the main containers, not as the pod's work."""
    startup: ProbeSpec | None = None
    readiness: ProbeSpec | None = None
    liveness: ProbeSpec | None = None
    raw: Json = field(default_factory=dict)


@dataclass(frozen=True)
class PodSpec:
    """What is fixed in a bound pod."""

    namespace: str
    name: str
    uid: str
    node: str
    restart_policy: str
    grace_seconds: float
    sidecars: tuple[ContainerSpec, ...]
    main: tuple[ContainerSpec, ...]

    def container(self, name: str) -> ContainerSpec:
        """Return the container of this name."""
        return next(each for each in self.sidecars + self.main if each.name == name)


def parse_pod(pod: Json) -> PodSpec:
    """Read a bound pod, with the API server's defaults for what a test leaves out."""
    meta, spec = pod["metadata"], pod["spec"]
    policy = spec.get("restartPolicy") or "Always"
    grace = spec.get("terminationGracePeriodSeconds")
    return PodSpec(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        node=spec.get("nodeName") or "",
        restart_policy=policy,
        grace_seconds=30.0 if grace is None else float(grace),
        sidecars=tuple(
            _container(each, "Always", sidecar=True) for each in spec.get("initContainers") or ()
        ),
        main=tuple(_container(each, policy) for each in spec.get("containers") or ()),
    )


def containers_of(pod: Json) -> list[Json]:
    """Return all containers as written, sidecars first."""
    spec = pod["spec"]
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def owner(pod: Json) -> Json | None:
    """Return the reference to the object that controls a pod, if one does."""
    references = pod["metadata"].get("ownerReferences") or ()
    return next((each for each in references if each.get("controller")), None)


def declared_ports(pod: Json) -> Iterator[tuple[int, str]]:
    """(number, name) of the container ports that a pod declares; a name may be ""."""
    for container in containers_of(pod):
        for port in container.get("ports") or ():
            yield int(port["containerPort"]), str(port.get("name") or "")


def volume_type(volume: Json) -> str:
    """Return the key that says what a volume is; "emptyDir" when there is none."""
    return next((key for key in volume if key != "name"), "emptyDir")


def field_value(pod: Json, path: str) -> str:
    """Return the value of a `fieldRef`. Raises Unresolved for a field that is not known here."""
    metadata, spec = pod["metadata"], pod["spec"]
    values = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName") or "",
        "spec.serviceAccountName": spec.get("serviceAccountName") or "",
        "status.hostIP": HOST_IP,
        "status.podIP": HOST_IP,
    }
    for part in ("annotations", "labels"):
        key = path.removeprefix(f"metadata.{part}['").removesuffix("']")
        if path == f"metadata.{part}['{key}']":
            return str((metadata.get(part) or {}).get(key) or "")
    if path not in values:
        raise Unresolved(f'field "{path}" is not known to process nodes')
    return str(values[path])


def unsupported(pod: Json) -> str | None:
    """Return why a pod cannot be run on a process node; None when it can."""
    reasons = list(_unsupported(pod))
    return f"process nodes do not support {'; nor '.join(reasons)}" if reasons else None


def _unsupported(pod: Json) -> Iterator[str]:
    spec = pod["spec"]
    yield from (key for key in _UNSUPPORTED_POD_FIELDS if spec.get(key))
    for volume in spec.get("volumes") or ():
        kind = volume_type(volume)
        if kind not in VOLUME_TYPES:
            supported = ", ".join(VOLUME_TYPES)
            yield f'volumes of type {kind} (volume "{volume["name"]}"); these are: {supported}'
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") != "Always":
            yield f'init containers without restartPolicy: Always (container "{container["name"]}")'
    yield from _unsupported_in_containers(pod)


def _unsupported_in_containers(pod: Json) -> Iterator[str]:
    for container in containers_of(pod):
        where = f'(container "{container["name"]}")'
        yield from (f"{key} {where}" for key in _UNSUPPORTED_CONTAINER_FIELDS if container.get(key))
        for probe in PROBES:
            if container.get(probe) and "httpGet" not in container[probe]:
                yield f"a {probe} other than httpGet {where}"
        for mount in container.get("volumeMounts") or ():
            if mount.get("subPath") or mount.get("subPathExpr"):
                yield f"subPath {where}"
        if any("configMapRef" not in each for each in container.get("envFrom") or ()):
            yield f"an envFrom other than configMapRef {where}"
        for variable in container.get("env") or ():
            if variable.get("valueFrom") and "fieldRef" not in variable["valueFrom"]:
                yield f"a valueFrom other than fieldRef {where}"


def _container(raw: Json, policy: str, *, sidecar: bool = False) -> ContainerSpec:
    startup, readiness, liveness = (_probe(raw.get(key)) for key in PROBES)
    image = raw.get("image") or ""
    return ContainerSpec(raw["name"], image, policy, sidecar, startup, readiness, liveness, raw)


def _probe(raw: Json | None) -> ProbeSpec | None:
    if not raw:
        return None
    return ProbeSpec(
        http_get=raw.get("httpGet") or {},
        initial_delay_seconds=float(raw.get("initialDelaySeconds") or 0),
        period_seconds=float(raw.get("periodSeconds") or 10),
        timeout_seconds=float(raw.get("timeoutSeconds") or 1),
        success_threshold=int(raw.get("successThreshold") or 1),
        failure_threshold=int(raw.get("failureThreshold") or 3),
    )
