"""A training job's life: pods with their variables, suspension, new counts, the end."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from localcluster.api_calls import STRATEGIC_PATCH
from tests.conformance.conftest import Api, eventually

LABELS = "training.kubeflow.org"


@dataclass(frozen=True)
class Job:
    """One job of a kind: its field of roles, its container, and the roles that it is made with."""

    api: Api
    kind: str
    specs: str
    container: str
    roles: tuple[str, ...]

    @property
    def plural(self) -> str:
        return f"kubeflow.org/v1/{self.kind.lower()}s"

    def create(self) -> None:
        container = {"name": self.container, "image": "image:1"}
        template = {"spec": {"schedulerName": "nobody", "containers": [container]}}
        role = {"replicas": 1, "restartPolicy": "Never", "template": template}
        spec = {self.specs: dict.fromkeys(self.roles, role)}
        mode = {"jobMode": "MXTrain"} if self.kind == "MXJob" else {}
        head = {"apiVersion": "kubeflow.org/v1", "kind": self.kind, "metadata": {"name": "j"}}
        self.api.create(self.plural, {**head, "spec": {**spec, **mode}})
        self.wait_pods(*(f"j-{role.lower()}-0" for role in self.roles))

    def patch(self, spec: dict[str, Any]) -> None:
        self.api.calls.patch(self.api.path(self.plural, "j"), {"spec": spec})

    def pods(self) -> dict[str, dict[str, Any]]:
        return {each["metadata"]["name"]: each for each in self.api.items("pods")}

    def wait_pods(self, *names: str) -> None:
        eventually(lambda: sorted(self.pods()) == sorted(names), f"the pods are {names}")

    def wait_condition(self, kind: str) -> None:
        def holds() -> bool:
            status = self.api.get(self.plural, "j").get("status") or {}
            conditions = status.get("conditions") or ()
            return any((each["type"], each["status"]) == (kind, "True") for each in conditions)

        eventually(holds, f"the job is {kind}")

    def variables(self, name: str) -> dict[str, str]:
        (container,) = self.pods()[name]["spec"]["containers"]
        return {each["name"]: each["value"] for each in container["env"]}

    def report(self, name: str, phase: str, exit_code: int | None = None) -> None:
        """Write a pod's status as its kubelet would."""
        status: dict[str, Any] = {"phase": phase}
        if exit_code is not None:
            ended = {"state": {"terminated": {"exitCode": exit_code}}, "restartCount": 0}
            about = {"name": self.container, "image": "i", "imageID": "", "ready": False}
            status["containerStatuses"] = [{**about, **ended}]
        path = self.api.path("pods", name, "status")
        self.api.calls.patch(path, {"status": status}, STRATEGIC_PATCH)


KINDS = {
    "TFJob": ("tfReplicaSpecs", "tensorflow", ("PS", "Worker")),
    "MXJob": ("mxReplicaSpecs", "mxnet", ("Scheduler", "Server", "Worker")),
    "PyTorchJob": ("pytorchReplicaSpecs", "pytorch", ("Master", "Worker")),
}


@pytest.fixture(params=KINDS)
def job(api: Api, request: pytest.FixtureRequest) -> Job:
    job = Job(api, request.param, *KINDS[request.param])
    if not api.calls.get("/apis/kubeflow.org/v1")["resources"]:
        pytest.skip("the operator has no kinds")
    served = {each["kind"] for each in api.calls.get("/apis/kubeflow.org/v1")["resources"]}
    if job.kind not in served:
        pytest.skip(f"this operator has no {job.kind}s")
    job.create()
    return job


def world(job: Job, pod: str) -> Any:
    """What a pod is told of all replicas."""
    variables = job.variables(pod)
    if job.kind == "PyTorchJob":
        names = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "PET_NNODES", "PET_NPROC_PER_NODE")
        return {name: variables[name] for name in names}
    return json.loads(variables["TF_CONFIG" if job.kind == "TFJob" else "MX_CONFIG"])["cluster"]


def test_pods_have_their_names_labels_services_and_variables(job: Job) -> None:
    for role in job.roles:
        made = job.pods()[f"j-{role.lower()}-0"]
        labels = {
            f"{LABELS}/operator-name": f"{job.kind.lower()}-controller",
            f"{LABELS}/job-name": "j",
            f"{LABELS}/replica-type": role.lower(),
            f"{LABELS}/replica-index": "0",
        }
        assert labels.items() <= made["metadata"]["labels"].items()
        assert made["spec"]["restartPolicy"] == "Never"
    services = {each["metadata"]["name"] for each in job.api.items("services")}
    assert services == {f"j-{role.lower()}-0" for role in job.roles}
    namespace = job.api.namespace
    told = {
        "TFJob": {
            "ps": [f"j-ps-0.{namespace}.svc:2222"],
            "worker": [f"j-worker-0.{namespace}.svc:2222"],
        },
        "MXJob": {
            role.lower(): [{"url": f"j-{role.lower()}-0", "port": 9091}]
            for role in KINDS["MXJob"][2]
        },
        "PyTorchJob": {
            "MASTER_ADDR": "j-master-0",
            "MASTER_PORT": "23456",
            "WORLD_SIZE": "2",
            "PET_NNODES": "2",
            "PET_NPROC_PER_NODE": "auto",
        },
    }
    assert world(job, "j-worker-0") == told[job.kind]


def test_a_suspended_job_starts_again_with_other_counts(job: Job) -> None:
    job.patch({"runPolicy": {"suspend": True}})
    job.wait_pods()
    job.wait_condition("Suspended")
    job.patch({job.specs: {"Worker": {"replicas": 2}}, "runPolicy": {"suspend": False}})
    job.wait_pods(*(f"j-{role.lower()}-0" for role in job.roles), "j-worker-1")
    assert world(job, "j-worker-0") == world(job, "j-worker-1")


def test_a_job_runs_and_succeeds(job: Job) -> None:
    for name in job.pods():
        job.report(name, "Running")
    job.wait_condition("Running")
    decides = {"TFJob": "worker", "MXJob": "scheduler", "PyTorchJob": "master"}[job.kind]
    job.report(f"j-{decides}-0", "Succeeded", 0)
    job.wait_condition("Succeeded")


def test_a_replica_that_fails_fails_the_job(job: Job) -> None:
    job.report("j-worker-0", "Failed", 1)
    job.wait_condition("Failed")
