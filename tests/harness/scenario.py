"""One scenario: a namespace with a checkpoint volume, what is done and observed in it."""

import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from kubernetes.client.exceptions import ApiException

from localcluster.testing.waiting import holds_for, wait_until
from tests.harness.api import CORE, KUBEFLOW, OPTIMUS, PLURALS, Json, in_namespace
from tests.harness.brute_force import Observed
from tests.harness.description import describe
from tests.harness.free_resources import free_resources
from tests.harness.light_jobs import CLAIM, LightJob
from tests.harness.optimus_cluster import AUTOSCALER, SCHEDULER, OptimusCluster
from tests.harness.pod_history import PodHistory
from tests.harness.training_log import Step, parse_log
from tests.harness.waiting import LONG_SECONDS

T = TypeVar("T")

_LABELS = "training.kubeflow.org"
_ROLES = {"server": "ps"}


class Scenario:
    """What a scenario does and sees in its namespace."""

    def __init__(self, optimus: OptimusCluster, namespace: str) -> None:
        self.optimus, self.api, self.namespace = optimus, optimus.api, namespace
        self.notes: list[str] = []

    # --- doing

    def submit(self, *jobs: LightJob) -> None:
        """Create jobs, in this order, without a pause."""
        for job in jobs:
            self.create(KUBEFLOW, PLURALS[job.kind], job.manifest(self.namespace))

    def create(self, root: str, plural: str, body: Json) -> Json:
        """Create any object of this namespace."""
        return self.api.create(in_namespace(root, self.namespace, plural), body)

    def delete(self, job: LightJob) -> None:
        """Delete a job; its pods go with it, a little later."""
        self.api.delete(self.path(job))

    def touch_node(self, name: str) -> None:
        """Change an annotation of a node, which makes kube-scheduler try refused pods again."""
        body = {"metadata": {"annotations": {"tests/touched": secrets.token_hex(4)}}}
        self.api.patch(f"{CORE}/nodes/{name}", body)

    def delete_pod(self, name: str) -> None:
        """Delete a pod."""
        self.api.delete(in_namespace(CORE, self.namespace, "pods", name))

    def path(self, job: LightJob) -> str:
        """Return the path of a job on the API server."""
        return in_namespace(KUBEFLOW, self.namespace, PLURALS[job.kind], job.name)

    # --- seeing

    def history(self, on_change: Callable[[Json], None] = lambda _: None) -> PodHistory:
        """Return a recorder of all that happens to this namespace's pods."""
        return PodHistory(self.api, self.namespace, on_change)

    def pods(self, job: LightJob | None = None) -> list[Json]:
        """Return the pods of a job, or all of the namespace."""
        selector = {} if job is None else {"labelSelector": f"{_LABELS}/job-name={job.name}"}
        return self.api.items(in_namespace(CORE, self.namespace, "pods"), **selector)

    def pod(self, name: str) -> Json:
        """Return one pod. Raises ApiException."""
        return self.api.get(in_namespace(CORE, self.namespace, "pods", name))

    def bound(self, job: LightJob) -> list[Json]:
        """Return the job's pods that have a node."""
        return [pod for pod in self.pods(job) if pod["spec"].get("nodeName")]

    def placement(self, job: LightJob) -> Observed:
        """Return node by node how many bound pods of each role are there; MXNet's `server` is
        called `ps`."""
        found: dict[str, Counter[str]] = {}
        for pod in self.bound(job):
            role = pod["metadata"]["labels"][f"{_LABELS}/replica-type"]
            found.setdefault(pod["spec"]["nodeName"], Counter())[_ROLES.get(role, role)] += 1
        return found

    def stored(self, job: LightJob) -> Json:
        """Return the job as it is stored. Raises ApiException."""
        return self.api.get(self.path(job))

    def conditions(self, job: LightJob) -> set[str]:
        """Return the types of the job's conditions that are true."""
        found = (self.stored(job).get("status") or {}).get("conditions") or ()
        return {each["type"] for each in found if each["status"] == "True"}

    def profile(self, job: LightJob) -> Json | None:
        """Return the job's TrainingProfile, if there is one."""
        return self.api.find(in_namespace(OPTIMUS, self.namespace, "trainingprofiles", job.name))

    def events(self, name: str) -> list[Json]:
        """Return the Events about an object of this name."""
        path = in_namespace(CORE, self.namespace, "events")
        return self.api.items(path, fieldSelector=f"involvedObject.name={name}")

    def events_of_type(self, name: str, kind: str) -> list[Json]:
        """Return the Events of a type (`Normal`, `Warning`) about an object of this name."""
        return [event for event in self.events(name) if event["type"] == kind]

    def restarts(self, deployment: str, container: str) -> int:
        """Return how often a container of one of the two processes was started again."""
        status = self.optimus.pod_of(deployment)["status"]
        states = [
            *(status.get("initContainerStatuses") or ()),
            *(status.get("containerStatuses") or ()),
        ]
        (found,) = [int(each["restartCount"]) for each in states if each["name"] == container]
        return found

    def unscheduled_reasons(self, job: LightJob) -> set[str]:
        """Return what kube-scheduler wrote on the job's pods that have no node."""
        conditions = [
            each for pod in self.pods(job) for each in pod["status"].get("conditions") or ()
        ]
        return {
            each["message"]
            for each in conditions
            if each["type"] == "PodScheduled" and each["status"] == "False"
        }

    def free_resources(self, job: LightJob) -> dict[str, dict[str, int]]:
        """Return the room that is free now on every node that the job may go to."""
        return free_resources(
            self.api.items(f"{CORE}/nodes"),
            self.api.items(f"{CORE}/pods"),
            job.templates()["Worker"],
        )

    def free_resources_without(self, job: LightJob) -> dict[str, dict[str, int]]:
        """Return the room that would be free if the job were not there."""
        own = {pod["metadata"]["uid"] for pod in self.pods(job)}
        pods = [pod for pod in self.api.items(f"{CORE}/pods") if pod["metadata"]["uid"] not in own]
        return free_resources(self.api.items(f"{CORE}/nodes"), pods, job.templates()["Worker"])

    def log(self, pod: str) -> str:
        """Return a pod's log; empty while the pod or its container does not exist yet."""
        try:
            return self.api.text(f"{in_namespace(CORE, self.namespace, 'pods', pod)}/log")
        except ApiException as error:
            if error.status in (400, 404):
                return ""
            raise

    def training_log(self, pod: str) -> tuple[Step, ...]:
        """Return a trainer's log as records."""
        return parse_log(self.log(pod))

    # --- waiting

    def wait(self, condition: Callable[[], T], sentence: str, seconds: float = LONG_SECONDS) -> T:
        """Wait until `condition` is true; describe the namespace where it never is."""
        return wait_until(condition, sentence, seconds, self.describe)

    def holds(self, true: Callable[[], bool], sentence: str, seconds: float) -> None:
        """Make sure that something stays true."""
        holds_for(true, sentence, seconds, self.describe)

    def wait_bound(self, job: LightJob, seconds: float = LONG_SECONDS) -> Observed:
        """Wait until every pod of the job has a node; return the placement."""
        self.wait(
            lambda: len(self.bound(job)) == job.pods,
            f"all {job.pods} pods of {job.name} are bound",
            seconds,
        )
        return self.placement(job)

    def wait_events(self, name: str, *reasons: str) -> dict[str, list[str]]:
        """Wait until there are Events of all these reasons about an object; return the messages of
        each reason. What an Event tells is mostly seen elsewhere a moment before."""

        def found_all() -> dict[str, list[str]] | None:
            found: dict[str, list[str]] = {reason: [] for reason in reasons}
            for event in self.events(name):
                if event["reason"] in found:
                    found[event["reason"]].append(event["message"])
            return found if all(found.values()) else None

        messages = self.wait(found_all, f"Events {', '.join(reasons)} about {name}")
        assert messages is not None
        return messages

    def wait_until_older(self, job: LightJob) -> None:
        """Wait until a job that is made now is younger: creation times are whole seconds."""
        made = datetime.fromisoformat(self.stored(job)["metadata"]["creationTimestamp"])
        self.wait(
            lambda: datetime.now(UTC) >= made + timedelta(seconds=1), f"{job.name} is 1 s old"
        )

    def wait_refused(self, job: LightJob, part: str, seconds: float = LONG_SECONDS) -> None:
        """Wait until all pods of the job exist, none has a node, and one says why with a sentence
        that holds this part.

        Not every pod gets that sentence: the extender is not called for a pod that fits on no
        node by itself."""

        def is_refused() -> bool:
            reasons = self.unscheduled_reasons(job)
            return (
                len(self.pods(job)) == job.pods
                and not self.bound(job)
                and any(part in each for each in reasons)
            )

        self.wait(is_refused, f"a pod of {job.name} says {part!r}", seconds)

    def describe(self) -> str:
        """Return what a reader of a failed scenario wants to see."""
        tails = [
            f"--- {container}\n{self._tail(name, container)}" for name, container in _PROCESSES
        ]
        return "\n".join([describe(self.api, self.namespace), *tails])

    def _tail(self, deployment: str, container: str) -> str:
        try:
            return self.optimus.log(deployment, container, 120)
        except Exception as error:  # noqa: BLE001 -- a report of a failure must not hide it behind another
            return f"(no log: {error})"


_PROCESSES: Sequence[tuple[str, str]] = (
    (SCHEDULER, "extender"),
    (SCHEDULER, "kube-scheduler"),
    (AUTOSCALER, "autoscaler"),
)


@contextmanager
def scenario_namespace(optimus: OptimusCluster, namespace: str, folder: Path) -> Iterator[Scenario]:
    """Set up a namespace whose checkpoints are in `folder`; afterwards empty it, so that the nodes
    are free again."""
    api = optimus.api
    api.create(f"{CORE}/namespaces", {"metadata": {"name": namespace}})
    api.create(f"{CORE}/persistentvolumes", _volume(namespace, folder))
    api.create(in_namespace(CORE, namespace, "persistentvolumeclaims"), _claim(namespace))
    scenario = Scenario(optimus, namespace)
    scenario.wait(lambda: _claim_bound(scenario), "the checkpoint volume is bound")
    scenario.wait(
        lambda: api.find(in_namespace(CORE, namespace, "serviceaccounts", "default")),
        "the account exists",
    )
    try:
        yield scenario
    finally:
        _clear(scenario)


def _clear(scenario: Scenario) -> None:
    api, namespace = scenario.api, scenario.namespace
    for plural in scenario.optimus.plurals.values():
        api.delete_all(in_namespace(KUBEFLOW, namespace, plural))
    scenario.wait(
        lambda: not [pod for pod in scenario.pods() if pod["metadata"].get("ownerReferences")],
        "jobs are gone",
    )
    api.delete_all(in_namespace(CORE, namespace, "pods"))
    scenario.wait(lambda: not scenario.pods(), "no pod is left in the namespace")
    api.delete(f"{CORE}/namespaces/{namespace}")
    api.delete(f"{CORE}/persistentvolumes/{namespace}")


def _claim_bound(scenario: Scenario) -> bool:
    claim = scenario.api.get(
        in_namespace(CORE, scenario.namespace, "persistentvolumeclaims", CLAIM)
    )
    return bool(claim.get("status", {}).get("phase") == "Bound")


def _volume(namespace: str, folder: Path) -> Json:
    return {
        "metadata": {"name": namespace},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "hostPath": {"path": str(folder), "type": "DirectoryOrCreate"},
            "claimRef": {"namespace": namespace, "name": CLAIM},
        },
    }


def _claim(namespace: str) -> Json:
    return {
        "metadata": {"name": CLAIM, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": namespace,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
