"""Training jobs whose kubelet is the test: it says of each pod that it runs, has ended, or is
gone."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.conformance.api_calls import KUBEFLOW, MERGE, ApiCalls, Json

LABELS: Final = "training.kubeflow.org"
_PLURALS = {"TFJob": "tfjobs", "MXJob": "mxjobs"}
_SPECS = {"TFJob": "tfReplicaSpecs", "MXJob": "mxReplicaSpecs"}
_CONTAINERS = {"TFJob": "tensorflow", "MXJob": "mxnet"}


def replicas(kind: str, count: int | None, restart: str | None = None, **spec: Any) -> Json:
    """One entry of a job's replica specs; `spec` are further fields of the pod's."""
    container = {"name": _CONTAINERS[kind], "image": "image:1"}
    template = {"spec": {"schedulerName": "nobody", "containers": [container], **spec}}
    found: Json = {"template": template}
    return (
        found
        | ({} if count is None else {"replicas": count})
        | ({} if restart is None else {"restartPolicy": restart})
    )


@dataclass
class Job:
    """One job on the cluster."""

    api: ApiCalls
    namespace: str
    kind: str
    name: str
    phases: dict[str, str] = field(default_factory=dict)

    # --- the object

    def create(
        self, specs: Mapping[str, Json], run_policy: Json | None = None, **rest: Any
    ) -> None:
        spec = {
            _SPECS[self.kind]: dict(specs),
            **({"runPolicy": run_policy} if run_policy else {}),
            **rest,
        }
        if self.kind == "MXJob":
            spec = {"jobMode": "MXTrain", **spec}
        body = {
            "apiVersion": "kubeflow.org/v1",
            "kind": self.kind,
            "metadata": {"name": self.name},
            "spec": spec,
        }
        self.api.custom.create_namespaced_custom_object(
            *KUBEFLOW, self.namespace, self.plural, body
        )

    @property
    def plural(self) -> str:
        return _PLURALS[self.kind]

    def read(self) -> Json:
        found: Json = self.api.custom.get_namespaced_custom_object(
            *KUBEFLOW, self.namespace, self.plural, self.name
        )
        return found

    def patch(self, spec: Json) -> None:
        self.api.custom.patch_namespaced_custom_object(
            *KUBEFLOW, self.namespace, self.plural, self.name, {"spec": spec}, _content_type=MERGE
        )

    def resize(self, **counts: int) -> None:
        self.patch(
            {_SPECS[self.kind]: {role: {"replicas": count} for role, count in counts.items()}}
        )

    def suspend(self, value: bool = True) -> None:
        self.patch({"runPolicy": {"suspend": value}})

    def delete(self) -> None:
        self.api.custom.delete_namespaced_custom_object(
            *KUBEFLOW, self.namespace, self.plural, self.name
        )

    # --- what the operator says of it

    def status(self) -> Json:
        found: Json = self.read().get("status") or {}
        return found

    def condition(self, kind: str) -> tuple[str, str, str] | None:
        """A condition's status, reason and message."""
        for each in self.status().get("conditions") or ():
            if each["type"] == kind:
                return each["status"], each["reason"], each["message"]
        return None

    def wait_condition(self, kind: str, status: str = "True") -> tuple[str, str]:
        """Wait until a condition has a status; return its reason and message."""

        def found() -> tuple[str, str, str] | None:
            condition = self.condition(kind)
            return condition if condition and condition[0] == status else None

        try:
            condition = self.api.wait_until(found, f"{self.name} is {kind}={status}")
        except AssertionError as error:
            error.add_note(f"its status is {self.status()}")
            raise
        assert condition is not None
        return condition[1], condition[2]

    def counts(self, role: str) -> Json:
        """What `replicaStatuses` says of a role."""
        found: Json = (self.status().get("replicaStatuses") or {}).get(role, {})
        return found

    def events(self) -> list[tuple[str, str, str]]:
        """Type, reason and message of the Events about the job."""
        selector = f"involvedObject.name={self.name},involvedObject.kind={self.kind}"
        found = self.api.core.list_namespaced_event(self.namespace, field_selector=selector).items
        return [(each.type, each.reason, each.message) for each in found]

    # --- its pods and services

    def pods(self) -> dict[str, Any]:
        """The job's pods by the part of their names that comes after the job's."""
        selector = f"{LABELS}/job-name={self.name}"
        found = self.api.core.list_namespaced_pod(self.namespace, label_selector=selector).items
        return {each.metadata.name.removeprefix(f"{self.name}-"): each for each in found}

    def services(self) -> dict[str, Any]:
        found = self.api.core.list_namespaced_service(
            self.namespace, label_selector=f"{LABELS}/job-name={self.name}"
        )
        return {each.metadata.name.removeprefix(f"{self.name}-"): each for each in found.items}

    def wait_pods(self, *names: str) -> dict[str, Any]:
        """Wait until the job has exactly these pods, each with its service."""
        self.api.wait_until(
            lambda: set(self.pods()) == set(names) and set(self.services()) == set(names),
            f"{self.name} has the pods {names}",
        )
        return self.pods()

    def wait_made_again(self, pod: str, uid: str) -> None:
        """Wait until a pod of the name is there with another uid."""
        self.api.wait_until(
            lambda: (found := self.pods().get(pod)) and found.metadata.uid != uid,
            f"{pod} is made again",
        )

    def environment(self, pod: str, container: int = 0) -> dict[str, str]:
        found = self.pods()[pod].spec.containers[container].env or []
        return {each.name: each.value for each in found}

    def cluster(self, pod: str) -> Json:
        """The cluster in a pod's environment."""
        variable = "TF_CONFIG" if self.kind == "TFJob" else "MX_CONFIG"
        found: Json = json.loads(self.environment(pod)[variable])["cluster"]
        return found

    # --- being the kubelet

    def run(self, *pods: str) -> None:
        """Say of pods that they run, on a node; from now on their deletion takes two steps."""
        for name in pods:
            if not self.pods()[name].spec.node_name:
                self.api.bind(f"{self.name}-{name}", self.namespace, self.namespace)
            self._write_status(name, "Running", {"running": {}})

    def end(self, pod: str, exit_code: int = 0) -> None:
        """Say of a pod that its container has ended."""
        phase = "Failed" if exit_code else "Succeeded"
        self._write_status(
            pod,
            phase,
            {
                "terminated": {
                    "exitCode": exit_code,
                    "reason": "Error" if exit_code else "Completed",
                }
            },
        )

    def restarted(self, pod: str, count: int) -> None:
        """Say of a running pod how often its container was restarted."""
        self._write_status(pod, "Running", {"running": {}}, count)

    def _write_status(self, pod: str, phase: str, state: Json, restarts: int = 0) -> None:
        container = {
            "name": _CONTAINERS[self.kind],
            "image": "image:1",
            "imageID": "",
            "ready": phase == "Running",
            "restartCount": restarts,
            "state": state,
        }
        status = {"phase": phase, "containerStatuses": [container]}
        self.api.core.patch_namespaced_pod_status(
            f"{self.name}-{pod}", self.namespace, {"status": status}
        )

    def leaving(self, pod: str) -> bool:
        """Whether a pod is being deleted and still there."""
        found = self.pods().get(pod)
        return found is not None and found.metadata.deletion_timestamp is not None

    def wait_leaving(self, pod: str) -> None:
        """Wait until a pod is being deleted."""
        self.api.wait_until(lambda: self.leaving(pod), f"{pod} is being deleted")

    def gone(self, *pods: str) -> None:
        """Say of pods that are being deleted that nothing of them is left."""
        for name in pods:
            self.wait_leaving(name)
            self.api.core.delete_namespaced_pod(
                f"{self.name}-{name}", self.namespace, grace_period_seconds=0
            )


def mxnet(servers: int, workers: int, restart: str | None = None) -> dict[str, Json]:
    """The replica specs of an MXJob."""
    counts = {"Scheduler": 1, "Server": servers, "Worker": workers}
    return {role: replicas("MXJob", count, restart) for role, count in counts.items()}
