"""Training jobs, their pods and services as JSON, and a cluster that does at once whatever is
decided."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from localcluster.embedded.operator.jobs import MXJOB, TFJOB, Job, OperatorKind, read_job
from localcluster.embedded.operator.reconcile import (
    Action,
    Create,
    Delete,
    EmitEvent,
    WriteStatus,
    reconcile,
)
from localcluster.embedded.raw_objects import Json

NOW = "2026-01-01T00:00:00Z"


def replicas(kind: OperatorKind, count: int | None, restart: str = "Never") -> Json:
    container = {"name": kind.kind.container, "image": "image:1"}
    spec: Json = {"template": {"spec": {"containers": [container]}}, "restartPolicy": restart}
    return spec | ({} if count is None else {"replicas": count})


def body_of(
    kind: OperatorKind, counts: Mapping[str, int | None], restart: str = "Never", **spec: Any
) -> Json:
    specs = {role: replicas(kind, count, restart) for role, count in counts.items()}
    metadata = {"name": "j", "namespace": "ns", "uid": "job-uid"}
    return {
        "kind": kind.kind.name,
        "metadata": metadata,
        "spec": {kind.kind.replica_specs: specs, **spec},
    }


def tfjob(counts: Mapping[str, int | None], restart: str = "Never", **spec: Any) -> Json:
    return body_of(TFJOB, counts, restart, **spec)


def mxjob(counts: Mapping[str, int | None], restart: str = "Never", **spec: Any) -> Json:
    return body_of(MXJOB, counts, restart, **spec)


def job_of(kind: OperatorKind, body: Json) -> Job:
    job = read_job(kind, body)
    assert isinstance(job, Job), job
    return job


@dataclass
class OperatorHarness:
    """A job with the pods and services that follow from what is decided of it."""

    kind: OperatorKind
    body: Json
    pods: dict[str, Json] = field(default_factory=dict)
    services: dict[str, Json] = field(default_factory=dict)
    events: list[tuple[str, str, str]] = field(default_factory=list)
    made: int = 0

    @property
    def status(self) -> Json:
        found: Json = self.body.get("status") or {}
        return found

    def look(self, now: str = NOW) -> Sequence[Action]:
        """Decide once and do it."""
        actions = reconcile(
            job_of(self.kind, self.body),
            list(self.pods.values()),
            list(self.services.values()),
            now,
        )
        for action in actions:
            self._do(action)
        return actions

    def settle(self, now: str = NOW) -> None:
        """Decide until nothing is left to do.

        A slot below a pod that is leaving beyond the count is filled and emptied in turn until that
        pod is gone: a fault of the real operator's, which is kept.
        """
        for round_number in range(20):
            if not self.look(now):
                return
            if round_number == 10:
                self.gone()
        raise AssertionError("it never comes to rest")

    def _do(self, action: Action) -> None:
        match action:
            case Create(body) if body["kind"] == "Pod":
                self.made += 1
                name = body["metadata"]["name"]
                assert name not in self.pods, f"{name} is made while it is there"
                self.pods[name] = copy.deepcopy(body)
                self.pods[name]["metadata"]["uid"] = f"pod-{self.made}"
                self.pods[name]["status"] = {"phase": "Pending"}
            case Create(body):
                self.services[body["metadata"]["name"]] = body
            case Delete("Pod", name, uid):
                assert self.pods[name]["metadata"]["uid"] == uid
                self._delete(name)
            case Delete(_, name):
                del self.services[name]
            case WriteStatus(status):
                self.body["status"] = status
            case EmitEvent(kind, reason, message):
                self.events.append((kind, reason, message))

    def _delete(self, name: str) -> None:
        """As the API server does: a pod that runs is marked as deleted first."""
        if self.pods[name]["status"]["phase"] == "Running":
            self.pods[name]["metadata"]["deletionTimestamp"] = NOW
        else:
            del self.pods[name]

    def run(self, *names: str) -> None:
        for name in names or tuple(self.pods):
            self.pods[name]["status"] = {"phase": "Running"}

    def end(self, name: str, exit_code: int = 0) -> None:
        state = {"terminated": {"exitCode": exit_code}}
        container = {"name": self.kind.kind.container, "state": state, "restartCount": 0}
        phase = "Failed" if exit_code else "Succeeded"
        self.pods[name]["status"] = {"phase": phase, "containerStatuses": [container]}

    def gone(self) -> None:
        """Remove the pods that are being deleted."""
        for name in [
            name for name, pod in self.pods.items() if "deletionTimestamp" in pod["metadata"]
        ]:
            del self.pods[name]

    def conditions(self) -> dict[str, str]:
        return {each["type"]: each["status"] for each in self.status.get("conditions") or ()}


def running(body: Json, kind: OperatorKind = TFJOB) -> OperatorHarness:
    """A job of which every pod runs."""
    harness = OperatorHarness(kind, body)
    harness.settle()
    harness.run()
    harness.settle()
    return harness
