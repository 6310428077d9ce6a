"""Light training jobs for scenarios: the manifests of `examples/light`, with other counts, flags
and annotations."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import yaml

from tests.harness.api import Json
from tests.harness.brute_force import Demand
from tests.harness.free_resources import requests_of

EXAMPLES: Final = Path(__file__).resolve().parents[2] / "examples" / "light"
CLAIM: Final = "light-checkpoints"
"""The PersistentVolumeClaim that the examples mount."""

POOL: Final = {"optimus.dl/pool": "training"}
"""The label of the nodes that training jobs go to."""

SLEEP: Final = "exec sleep 600"

Kind: TypeAlias = Literal["TFJob", "MXJob", "PyTorchJob"]
_FILES: Mapping[str, str] = {"TFJob": "tfjob.yaml", "MXJob": "mxjob.yaml"}
_SPECS: Mapping[str, str] = {
    "TFJob": "tfReplicaSpecs",
    "MXJob": "mxReplicaSpecs",
    "PyTorchJob": "pytorchReplicaSpecs",
}
_PS: Mapping[str, str] = {"TFJob": "PS", "MXJob": "Server", "PyTorchJob": "Master"}

QUICK: Final[Mapping[str, str]] = {
    "--example-seconds": "0.002",
    "--message-seconds": "0.001",
    "--log-seconds": "0.5",
    "--checkpoint-seconds": "1",
}
"""Stated costs that make a step take some 0.1 s, so that a scenario need not wait."""


@dataclass(frozen=True)
class LightJob:
    """A light job as a scenario wants it; whatever is not set is as in the example.

    Of a PyTorchJob, whose ranks are ``benchmarks.live_ranks``, `ps` is 1: its Master.

    `annotations` None: none at all. `requests` maps a role (`PS`, `Worker`, and `Scheduler` of an
    MXJob; `Server` is written `PS`) to its resource requests. `flags` replace or add flags of the
    trainer. `fixed` adds roles of a TFJob that are neither PS nor worker, such as a Chief, made
    like its workers. With `script` its pods run that shell script instead of training; `SLEEP` is
    for gangs that only have to be placed. `priority` names its PriorityClass. `clean_pod_policy`
    `None` keeps the pods, with their logs, of a job that has ended; the example's policy deletes
    those that still run at that instant."""

    kind: Kind
    name: str
    ps: int = 1
    workers: int = 2
    annotations: Mapping[str, str] | None = None
    requests: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
    scheduler: str = "optimus-scheduler"
    node_selector: Mapping[str, str] = field(default_factory=lambda: dict(POOL))
    fixed: Mapping[str, int] = field(default_factory=dict)
    script: str = ""
    priority: str = ""
    clean_pod_policy: str = ""

    def manifest(self, namespace: str) -> Json:
        """Return the object to create."""
        body: Json = copy.deepcopy(_example(self.kind))
        body["metadata"] = {
            "name": self.name,
            "namespace": namespace,
            "annotations": dict(self.annotations or {}),
        }
        if self.clean_pod_policy:
            body["spec"]["runPolicy"]["cleanPodPolicy"] = self.clean_pod_policy
        specs: Json = body["spec"][_SPECS[self.kind]]
        for role, count in self.fixed.items():
            specs[role] = {**copy.deepcopy(specs["Worker"]), "replicas": count}
        specs[_PS[self.kind]]["replicas"], specs["Worker"]["replicas"] = self.ps, self.workers
        for role, spec in specs.items():
            self._adapt("PS" if role == "Server" else role, spec["template"]["spec"])
        return body

    def demand(self) -> Demand:
        """Return what the job asks for, for the oracle."""
        templates = self.templates()
        fixed = {
            role.lower(): (self._n(role), requests_of(spec))
            for role, spec in templates.items()
            if role not in ("PS", "Worker")
        }
        return Demand(
            self.ps,
            self.workers,
            requests_of(templates["PS"]),
            requests_of(templates["Worker"]),
            fixed,
        )

    def templates(self) -> dict[str, Json]:
        """Return the pod spec of each role; `Server` is called `PS`."""
        specs: Json = self.manifest("any")["spec"][_SPECS[self.kind]]
        return {
            ("PS" if role == "Server" else role): spec["template"]["spec"]
            for role, spec in specs.items()
        }

    @property
    def pods(self) -> int:
        """How many pods the job has."""
        return sum(self._n(role) for role in self.templates())

    def _n(self, role: str) -> int:
        counts = {"PS": self.ps, "Worker": self.workers, "Scheduler": 1, **self.fixed}
        return counts[role]

    def _adapt(self, role: str, spec: Json) -> None:
        spec["schedulerName"] = self.scheduler
        if self.node_selector:
            spec["nodeSelector"] = dict(self.node_selector)
        if self.priority:
            spec["priorityClassName"] = self.priority
        container = spec["containers"][0]
        container["args"] = _with_flags(
            container["args"], {**QUICK, **self._checkpoints(), **self.flags}
        )
        if self.script:
            spec["terminationGracePeriodSeconds"] = 1
            container.update(image="busybox", command=["sh", "-c"], args=[self.script])
        if role in self.requests:
            container["resources"] = _resources(self.requests[role])

    def _checkpoints(self) -> Mapping[str, str]:
        return {"--checkpoint-dir": f"/checkpoints/{self.name}"}


def _resources(requests: Mapping[str, str]) -> Json:
    """Return requests, with limits for extended resources, which Kubernetes wants equal."""
    extended = {name: quantity for name, quantity in requests.items() if "/" in name}
    return {"requests": dict(requests)} | ({"limits": extended} if extended else {})


@cache
def _example(kind: Kind) -> Json:
    if kind == "PyTorchJob":
        return _pytorch_job(_example("TFJob"))
    body: Json = yaml.safe_load((EXAMPLES / _FILES[kind]).read_text())
    return body


def _pytorch_job(tfjob: Json) -> Json:
    body = copy.deepcopy(tfjob)
    worker = body["spec"].pop("tfReplicaSpecs")["Worker"]
    node = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    worker["template"]["spec"]["containers"][0].update(
        name="pytorch",
        command=["python", "-m", "benchmarks.live_ranks"],
        env=[node, {"name": "OMP_NUM_THREADS", "value": "1"}],
    )
    body["kind"] = "PyTorchJob"
    body["spec"]["pytorchReplicaSpecs"] = {"Master": worker, "Worker": copy.deepcopy(worker)}
    return body


def _with_flags(args: Sequence[str], flags: Mapping[str, str]) -> list[str]:
    """Return the arguments with these flags; a path is an argument of its own, as in the
    example."""
    merged = {**_read_flags(args), **flags}
    rendered: list[str] = []
    for flag, value in merged.items():
        rendered += [flag, value] if value.startswith("/") else [f"{flag}={value}"]
    return rendered


def _read_flags(args: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    waiting: str | None = None
    for each in args:
        if waiting is not None:
            found[waiting], waiting = each, None
        elif "=" in each:
            flag, _, value = each.partition("=")
            found[flag] = value
        else:
            waiting = each
    assert waiting is None, f"the flag {waiting} has no value"
    return found


def plain_pod(name: str, namespace: str, cpu: str, **spec: Any) -> Json:
    """Return a pod without an owner that sleeps; on the training nodes unless ``spec`` differs."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": dict(POOL),
            "tolerations": [{"key": "optimus.dl/training", "operator": "Exists"}],
            "containers": [
                {
                    "name": "main",
                    "image": "busybox",
                    "command": ["sleep", "600"],
                    "resources": {"requests": {"cpu": cpu, "memory": "32Mi"}},
                }
            ],
            **spec,
        },
    }
