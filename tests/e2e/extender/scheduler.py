"""A test's own kube-scheduler and extender, as administrator, on a running local cluster."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import urllib3
import yaml
from kubernetes.client.exceptions import ApiException

from benchmarks.scheduler_throughput import tree_of
from localcluster.cluster import LocalCluster
from localcluster.node.launcher import tied
from localcluster.ports import pick_ports
from localcluster.processes import send
from localcluster.testing.backends import scheduler_command
from optimus.kube.job_kinds import JOB_NAME
from tests.harness.api import Api, in_namespace
from tests.harness.http_answers import body_of
from tests.harness.waiting import LONG_SECONDS, wait_until

REPOSITORY = Path(__file__).parents[3]
_LOG_CHARACTERS = 20_000
_LEASE = in_namespace("/apis/coordination.k8s.io/v1", "kube-system", "leases", "optimus-scheduler")


def free_port() -> int:
    """A loopback port that nothing listens on now."""
    return pick_ports(1)[0]


@dataclass
class SchedulerProcesses:
    """An extender and a kube-scheduler, each started and killed on its own."""

    cluster: LocalCluster
    folder: Path
    configuration: str = "kube-scheduler-config.yaml"
    extender_flags: Sequence[str] = ()
    port: int = field(default_factory=free_port)
    kubeconfig: Path | None = None
    """The extender's, where it is not the cluster's: a proxy's, or that of another user."""

    adjust: Callable[[dict[str, Any]], None] = lambda _: None
    """Changes kube-scheduler's configuration in place."""

    environment: Mapping[str, str] = field(default_factory=dict)
    """The extender's, beside that of the test."""

    config: Mapping[str, object] = field(default_factory=dict)
    """Values of the extender's file of `--config`: name of the setting to value."""

    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self) -> None:
        """Start the extender, wait until it is ready, start kube-scheduler: as the native sidecar
        does."""
        self.start_extender()
        self.start_scheduler()

    def start_extender(self) -> None:
        values = {name.replace("_", "-"): value for name, value in self.config.items()}
        file = self.folder / "optimus.yaml"
        file.write_text(yaml.safe_dump({"extender": {"check-invariants": True, **values}}))
        flags = [
            f"--config={file}",
            f"--listen=127.0.0.1:{self.port}",
            f"--kubeconfig={self.kubeconfig or self.cluster.kubeconfig}",
        ]
        self._run("extender", [sys.executable, "-m", "extender", *flags, *self.extender_flags])
        wait_until("the extender is ready", lambda: self.get("/readyz") == "ok\n")

    def start_autoscaler(self, *flags: str) -> None:
        """Start an autoscaler beside them; it is ready once it holds its Lease."""
        port = free_port()
        own = [
            f"--kubeconfig={self.cluster.kubeconfig}",
            f"--listen=127.0.0.1:{port}",
            "--leader-lease=default/optimus-autoscaler",
        ]
        self._run("autoscaler", [sys.executable, "-m", "autoscaler", *own, *flags])
        wait_until(
            "the autoscaler acts",
            lambda: "optimus_autoscaler_leads 1.0" in (body_of(port, "/metrics") or ""),
        )

    def start_scheduler(self) -> None:
        wait_until("the Lease of the one before may be taken", self._shorten_lease)
        path = self.folder / "kube-scheduler.yaml"
        path.write_text(self._configuration_text())
        flags = [f"--config={path}", f"--secure-port={free_port()}", "--v=2"]
        self._run("kube-scheduler", [*scheduler_command(self.cluster), *flags])

    def _shorten_lease(self) -> bool:
        """Let the Lease that a killed kube-scheduler left end after a second; whether the API
        server answered."""
        try:
            with self.cluster.api_client() as client:
                api = Api(client)
                if api.find(_LEASE) is not None:
                    api.patch(_LEASE, {"spec": {"leaseDurationSeconds": 1}})
        except (ApiException, urllib3.exceptions.HTTPError):
            return False
        return True

    def _configuration_text(self) -> str:
        document = yaml.safe_load(
            (REPOSITORY / "scheduler-config" / self.configuration).read_text()
        )
        document["clientConnection"] = {
            "kubeconfig": str(self.cluster.kubeconfig),
            "qps": 500,
            "burst": 500,
        }
        # The cluster has a default scheduler already.
        document["profiles"][0]["schedulerName"] = "optimus-scheduler"
        document["leaderElection"]["resourceName"] = "optimus-scheduler"
        # A busy machine may renew it late. What a killed kube-scheduler leaves is shortened.
        document["leaderElection"] |= {
            "leaseDuration": "90s",
            "renewDeadline": "60s",
            "retryPeriod": "1s",
        }
        document["extenders"][0]["urlPrefix"] = f"http://127.0.0.1:{self.port}"
        self.adjust(document)
        return yaml.safe_dump(document)

    def _run(self, name: str, command: list[str]) -> None:
        environment = {**os.environ, **(self.environment if name == "extender" else {})}
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                tied(command, REPOSITORY), stdout=log, stderr=log, env=environment
            )

    def kill(self, name: str) -> None:
        """End one process with SIGKILL; gunicorn's worker ends by itself when its parent is
        gone."""
        process = self._processes.pop(name)
        process.kill()
        process.wait(LONG_SECONDS)

    def kill_with_children(self, name: str) -> None:
        """End one process and its children at once, as the end of a container does."""
        for pid in tree_of(self._processes[name].pid):
            os.kill(pid, signal.SIGKILL)
        self._processes.pop(name).wait(LONG_SECONDS)

    def stop(self) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.wait(LONG_SECONDS)  # gunicorn itself lets a worker finish for 30 s
        self._processes.clear()

    def get(self, path: str) -> str:
        """The body of a GET to the extender; "" while it does not answer with 200."""
        return body_of(self.port, path) or ""

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()


@contextmanager
def scheduler_processes(
    cluster: LocalCluster,
    folder: Path,
    configuration: str = "kube-scheduler-config.yaml",
    *flags: str,
    **options: Any,
) -> Iterator[SchedulerProcesses]:
    """Both processes, running; they end with the block. `options`: fields of them."""
    running = SchedulerProcesses(cluster, folder, configuration, flags, **options)
    try:
        running.start()
        yield running
    finally:
        running.stop()
        print(running.log("extender")[-_LOG_CHARACTERS:])  # pytest shows it of a test that fails


@contextmanager
def unharmed(
    cluster: LocalCluster, folder: Path, *flags: str, **options: Any
) -> Iterator[SchedulerProcesses]:
    """Both processes; at the end neither has erred, and nothing stays reserved."""
    with scheduler_processes(
        cluster, folder, "kube-scheduler-config.yaml", *flags, **options
    ) as running:
        yield running
        wait_until("nothing is reserved", lambda: reservations(running) == 0)
        log = running.log("extender")
        assert "invariant broken" not in log
        assert "Traceback" not in log


def reservations(running: SchedulerProcesses) -> int:
    """How many replicas have a reservation; -1: not shown."""
    found = re.search(
        r"^optimus_extender_reservations (\S+)$", running.get("/metrics"), re.MULTILINE
    )
    return int(float(found[1])) if found else -1


@contextmanager
def frozen(cluster: LocalCluster, *components: str) -> Iterator[None]:
    """These processes do not run meanwhile."""
    processes = [cluster.components[name].process for name in components]
    for process in processes:
        send(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            send(process, signal.SIGCONT)


def single_pod(name: str, cpu: str, **spec: object) -> dict[str, object]:
    """A pod of no training job that sleeps. `spec`: further fields of its spec."""
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sleep", "3600"],
        "resources": {"requests": {"cpu": cpu}},
    }
    fields = {
        "schedulerName": "optimus-scheduler",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    metadata = {"name": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**fields, **spec}}


def tfjob(
    name: str, ps: int, workers: int, *, ps_cpu: str = "1", worker_cpu: str = "1", **spec: str
) -> str:
    """A TFJob whose replicas sleep: where they go is all that matters.

    `spec`: further fields of the pods; of the workers alone where the name begins so.
    """
    every = {key: value for key, value in spec.items() if not key.startswith("worker_")}
    workers_only = {
        key.removeprefix("worker_"): value for key, value in spec.items() if key not in every
    }
    return json.dumps(
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "metadata": {"name": name},
            "spec": {
                "tfReplicaSpecs": {
                    "PS": _replicas(ps, ps_cpu, every),
                    "Worker": _replicas(workers, worker_cpu, every | workers_only),
                }
            },
        }
    )


def _replicas(count: int, cpu: str, fields: Mapping[str, str]) -> dict[str, object]:
    container = {
        "name": "tensorflow",
        "image": "busybox",
        "command": ["sleep", "3600"],
        "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
    }
    spec = {
        "schedulerName": "optimus-scheduler",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        **fields,
    }
    return {"replicas": count, "template": {"spec": spec}}


def nodes_of(
    cluster: LocalCluster, namespace: str, job: str, label: str = JOB_NAME
) -> dict[str, str | None]:
    """Node by pod, of the pods of one job."""
    found = cluster.get("pods", "-n", namespace, "-l", f"{label}={job}")["items"]
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in found}


class TrainingJobs:
    """Training jobs in the default namespace. At the end of the block they are deleted, and no pod
    is left there: what a test that failed leaves would fail the next."""

    def __init__(self, cluster: LocalCluster, kinds: str = "tfjob", label: str = JOB_NAME) -> None:
        """``label`` is that of their pods with the job's name."""
        self._cluster, self._kinds, self._label = cluster, kinds, label
        self._names: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.delete(*self._names)
        self._cluster.kubectl("delete", "pods", "--all", "-n", "default", "--wait=false")
        wait_until(
            "all pods are gone", lambda: not self._cluster.get("pods", "-n", "default")["items"]
        )

    def create(self, name: str, ps: int, workers: int, **spec: str) -> None:
        """Create a job of so many replicas; ``spec`` as for ``tfjob``."""
        self.submit(name, tfjob(name, ps, workers, **spec))

    def submit(self, name: str, manifest: str) -> None:
        """Create the job of this name."""
        self._cluster.kubectl("create", "-f", "-", stdin=manifest)
        self._names.append(name)

    def delete(self, *names: str) -> None:
        for name in names:
            self._cluster.kubectl("delete", self._kinds, name, "--ignore-not-found")

    def nodes(self, name: str) -> dict[str, str]:
        """Node by pod, of the pods that are bound."""
        return {
            pod: node
            for pod, node in nodes_of(self._cluster, "default", name, self._label).items()
            if node is not None
        }

    def wait_bound(self, name: str, pods: int, seconds: float = 400) -> dict[str, str]:
        """On a busy machine a gang may pause for two minutes, as it was not bound in time."""
        wait_until(f"all pods of {name} are bound", lambda: len(self.nodes(name)) == pods, seconds)
        return self.nodes(name)

    def wait_refused(self, name: str, pods: int, sentence: str) -> None:
        """Wait until every pod of a job says so; none is bound."""

        def messages() -> list[str]:
            label = f"{self._label}={name}"
            found = self._cluster.get("pods", "-n", "default", "-l", label)["items"]
            return [json.dumps(pod["status"].get("conditions", [])) for pod in found]

        def event_shown() -> bool:
            found = messages()
            return len(found) == pods and all(sentence in each for each in found)

        wait_until(f"all pods of {name} say {sentence!r}", event_shown)
        assert not self.nodes(name)
