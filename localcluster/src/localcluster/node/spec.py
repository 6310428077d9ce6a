"""A pod as the agent runs it: the few fields of its JSON that steer a lifecycle, parsed once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

Json = Mapping[str, Any]


class Kind(Enum):
    """What a container is to its pod: run once before, run beside from the start on, or the pod's
    work."""

    INIT = "init"
    SIDECAR = "sidecar"
    MAIN = "main"


@dataclass(frozen=True)
class ProbePlan:
    """One probe of a container: what it does (`handler`, as in the pod) and its figures, in seconds
    or counts."""

    handler: Json
    initial_delay_seconds: float
    period_seconds: float
    timeout_seconds: float
    success_threshold: int
    failure_threshold: int
    grace_seconds: float | None


@dataclass(frozen=True)
class ContainerPlan:
    """One container of a pod. `raw` is its JSON, from which command, environment and mounts are
    read at start."""

    name: str
    image: str
    kind: Kind
    restart_policy: str
    startup: ProbePlan | None = None
    readiness: ProbePlan | None = None
    liveness: ProbePlan | None = None
    pre_stop: Json | None = None
    raw: Json = field(default_factory=dict)


@dataclass(frozen=True)
class PodPlan:
    """What is fixed in a bound pod. `init` holds init containers and sidecars in their order."""

    namespace: str
    name: str
    uid: str
    node: str
    restart_policy: str
    grace_seconds: float
    deadline_seconds: float | None
    init: tuple[ContainerPlan, ...]
    main: tuple[ContainerPlan, ...]
    raw: Json = field(default_factory=dict)

    @property
    def containers(self) -> tuple[ContainerPlan, ...]:
        """All containers, init containers first."""
        return self.init + self.main

    def container(self, name: str) -> ContainerPlan | None:
        """Find a container by its name."""
        return next((each for each in self.containers if each.name == name), None)


def parse_pod(pod: Json) -> PodPlan:
    """Read a bound pod from its API JSON, with the API server's defaults for what a test leaves
    out."""
    meta, spec = pod["metadata"], pod["spec"]
    policy = spec.get("restartPolicy") or "Always"
    grace = spec.get("terminationGracePeriodSeconds")
    return PodPlan(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        node=spec.get("nodeName") or "",
        restart_policy=policy,
        grace_seconds=30.0 if grace is None else float(grace),
        deadline_seconds=spec.get("activeDeadlineSeconds"),
        init=tuple(_init_container(each, policy) for each in spec.get("initContainers") or ()),
        main=tuple(_container(each, Kind.MAIN, policy) for each in spec.get("containers") or ()),
        raw=pod,
    )


def owner(pod: Json) -> Json | None:
    """Return the reference to the object that controls a pod, if one does."""
    references = pod["metadata"].get("ownerReferences") or ()
    return next((each for each in references if each.get("controller")), None)


def is_training_replica(pod: Json) -> bool:
    """Tell whether a pod is a replica of a TFJob or MXJob, whose peers find each other by host
    names."""
    controller = owner(pod)
    return controller is not None and controller.get("kind") in {"TFJob", "MXJob"}


def declared_ports(pod: Json) -> Iterator[tuple[int, str]]:
    """List (number, name) of the container ports that a pod declares, sidecars' included; a name
    may be ""."""
    spec = pod["spec"]
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        for port in container.get("ports") or ():
            yield int(port["containerPort"]), str(port.get("name") or "")


def _init_container(raw: Json, pod_policy: str) -> ContainerPlan:
    if raw.get("restartPolicy") == "Always":
        return _container(raw, Kind.SIDECAR, "Always")
    # An init container is run again after a failure unless the pod is never restarted; never after
    # a success.
    return _container(raw, Kind.INIT, "Never" if pod_policy == "Never" else "OnFailure")


def _container(raw: Json, kind: Kind, policy: str) -> ContainerPlan:
    lifecycle = raw.get("lifecycle") or {}
    return ContainerPlan(
        name=raw["name"],
        image=raw.get("image") or "",
        kind=kind,
        restart_policy=policy,
        startup=_probe(raw.get("startupProbe")),
        readiness=_probe(raw.get("readinessProbe")),
        liveness=_probe(raw.get("livenessProbe")),
        pre_stop=lifecycle.get("preStop"),
        raw=raw,
    )


def _probe(raw: Json | None) -> ProbePlan | None:
    if not raw:
        return None
    return ProbePlan(
        handler=raw,
        initial_delay_seconds=float(raw.get("initialDelaySeconds") or 0),
        period_seconds=float(raw.get("periodSeconds") or 10),
        timeout_seconds=float(raw.get("timeoutSeconds") or 1),
        success_threshold=int(raw.get("successThreshold") or 1),
        failure_threshold=int(raw.get("failureThreshold") or 3),
        grace_seconds=raw.get("terminationGracePeriodSeconds"),
    )
