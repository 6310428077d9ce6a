"""A cluster under Optimus: the control plane, a system node, training nodes, and both Deployments
from `manifests`.

The two processes run as pods, with the rights that the manifests grant them. What is changed for
tests is only what an operator may change: settings through the environment and the file of
`--config`, and which of the two scheduler configurations is used."""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes.client.exceptions import ApiException

import autoscaler.settings
import extender.settings
from localcluster.bootstrap import served_kinds
from localcluster.cluster import LocalCluster
from localcluster.specs import Backend, NodeSpec, Taint
from localcluster.testing.waiting import wait_until
from optimus.runtime.settings import flag_fields
from tests.harness.api import CORE, PLURALS, Api, Json, in_namespace
from tests.harness.light_jobs import POOL

REPOSITORY: Final = Path(__file__).resolve().parents[2]
SYSTEM_NAMESPACE: Final = "optimus-system"
SCHEDULER: Final = "optimus-scheduler"
AUTOSCALER: Final = "optimus-autoscaler"
_KUBECONFIG: Final = "/var/run/secrets/kubernetes.io/serviceaccount/kubeconfig"
_AVAILABLE_SECONDS: Final = 300
_FLAGS: Final = {
    "autoscaler": {each.name for each in flag_fields(autoscaler.settings.Settings)},
    "extender": {each.name for each in flag_fields(extender.settings.Settings)},
}
_TAINT = Taint("optimus.dl/training", "true", "NoSchedule")


def training_nodes(
    *cpus: str, memory: str = "8Gi", gpus: Sequence[int] = ()
) -> tuple[NodeSpec, ...]:
    """Return training nodes `train-1`, `train-2`, ... with so many CPUs each, labelled and tainted
    as such.

    `gpus` says how many GPUs each of the first ones has.
    """
    named = [{"cpu": cpu, "memory": memory} for cpu in cpus]
    for capacity, count in zip(named, gpus, strict=False):
        capacity["nvidia.com/gpu"] = str(count)
    return tuple(
        NodeSpec(f"train-{number}", capacity, POOL, (_TAINT,))
        for number, capacity in enumerate(named, start=1)
    )


@dataclass(frozen=True)
class Tuning:
    """Settings of the two processes that differ from their defaults: name of the setting to
    value, whether it is a flag or a value of the file of `--config`."""

    autoscaler: Mapping[str, str] = field(default_factory=dict)
    extender: Mapping[str, str] = field(default_factory=dict)

    def flags(self, program: str) -> dict[str, str]:
        """Return the settings of a process that are flags or variables."""
        return {name: text for name, text in self._of(program).items() if name in _FLAGS[program]}

    @property
    def config(self) -> str:
        """The text of the file with all other settings."""
        return yaml.safe_dump(
            {
                program: {
                    name.replace("_", "-"): yaml.safe_load(text)
                    for name, text in self._of(program).items()
                    if name not in _FLAGS[program]
                }
                for program in _FLAGS
            }
        )

    def _of(self, program: str) -> Mapping[str, str]:
        return {"autoscaler": self.autoscaler, "extender": self.extender}[program]


QUICK_TUNING: Final = Tuning(
    autoscaler={
        "interval_seconds": "5",
        "early_interval_seconds": "2",
        "tick_seconds": "0.5",
        "log_poll_seconds": "1",
        "profiling_seconds": "4",
        "rescale_cost_seconds": "2",
        "rescale_spacing_seconds": "5",
        "resume_grace_after_break_seconds": "3",
        "node_selector": "optimus.dl/pool=training",
        "log_level": "info",
    },
    extender={
        "node_selector": "optimus.dl/pool=training",
        "reservation_seconds": "30",  # longer than another kube-scheduler waits for a dead leader
        "check_invariants": "true",
        "log_level": "info",
    },
)


class OptimusCluster:
    """Both processes on a running cluster."""

    def __init__(self, cluster: LocalCluster, api: Api, tuning: Tuning) -> None:
        self.cluster, self.api, self.tuning = cluster, api, tuning

    @property
    def plurals(self) -> Mapping[str, str]:
        """The kinds of jobs that the cluster's operator runs, with their plurals."""
        if self.cluster.backend is Backend.EMBEDDED:
            return PLURALS
        served = {kind.name for kind in served_kinds(self.cluster.binaries.manifests)}
        return {kind: plural for kind, plural in PLURALS.items() if kind in served}

    def deploy(self, *components: str, scheduler_config: str = "") -> None:
        """Apply the manifests with these components, and another configuration of kube-scheduler
        where its text is given, and wait until both processes serve.

        Applied again with others, it replaces the scheduler's pod, as on any cluster."""
        with tempfile.TemporaryDirectory(prefix="optimus-overlay-") as folder:
            kustomization = _kustomization(Path(folder), self.tuning)
            kustomization["components"] = [
                os.path.relpath(REPOSITORY / "manifests" / each, Path(folder).resolve())
                for each in components
            ]
            if scheduler_config:
                kustomization["patches"].append(_config_patch(scheduler_config))
            (Path(folder) / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
            self.cluster.apply(Path(folder))
        for name in (SCHEDULER, AUTOSCALER):
            self.wait_rolled_out(name)

    def wait_rolled_out(self, deployment: str) -> None:
        """Wait until the Deployment's newest pods are available, and no other is left."""
        path = f"/apis/apps/v1/namespaces/{SYSTEM_NAMESPACE}/deployments/{deployment}"
        wait_until(
            lambda: is_rolled_out(self.api.get(path)),
            f"{deployment} is rolled out",
            _AVAILABLE_SECONDS,
            lambda: self.describe(deployment),
        )

    def describe(self, deployment: str) -> str:
        """Return the states of a Deployment's containers and the last lines of each."""
        return "\n".join(line for pod in self.pods_of(deployment) for line in self._lines(pod))

    def _lines(self, pod: Json) -> Iterator[str]:
        name, status = pod["metadata"]["name"], pod["status"]
        yield f"--- {name}: {status.get('phase')} {status.get('message', '')}"
        for each in (
            *status.get("initContainerStatuses", ()),
            *status.get("containerStatuses", ()),
        ):
            yield (
                f"--- {name}/{each['name']}: {each.get('state')}\n{self._tail(name, each['name'])}"
            )

    def _tail(self, pod: str, container: str) -> str:
        try:
            return self.api.text(f"{_pods_path()}/{pod}/log", container=container, tailLines="30")
        except ApiException as error:
            return str(error)

    def pods_of(self, deployment: str) -> list[Json]:
        """Return the pods of a Deployment, those that are being deleted too."""
        return self.api.items(_pods_path(), labelSelector=f"app.kubernetes.io/name={deployment}")

    def pod_of(self, deployment: str) -> Json:
        """Return the one pod of a Deployment that is not being deleted."""
        (pod,) = [
            each
            for each in self.pods_of(deployment)
            if not each["metadata"].get("deletionTimestamp")
        ]
        return pod

    def defects(self, since: str) -> list[str]:
        """Return the lines with which either process reported an error of its own since that
        instant (RFC 3339).

        Neither reports anything so for what users or the cluster do; the extender also watches its
        own books."""
        found: list[str] = []
        for deployment, container in ((SCHEDULER, "extender"), (AUTOSCALER, "autoscaler")):
            name = self.pod_of(deployment)["metadata"]["name"]
            log = self.api.text(f"{_pods_path()}/{name}/log", container=container, sinceTime=since)
            found += [
                line
                for line in log.splitlines()
                if " ERROR " in line or line.startswith("Traceback")
            ]
        return found

    def log(self, deployment: str, container: str, lines: int = 200) -> str:
        """Return the last lines of one of the processes."""
        name = self.pod_of(deployment)["metadata"]["name"]
        return self.api.text(
            f"{_pods_path()}/{name}/log", container=container, tailLines=str(lines)
        )


def is_rolled_out(deployment: Json) -> bool:
    """Whether a Deployment's newest pods are available and no other is left, as `kubectl rollout
    status` sees it."""
    status, wanted = deployment.get("status") or {}, deployment["spec"]["replicas"]
    counts = [status.get(key, 0) for key in ("replicas", "updatedReplicas", "availableReplicas")]
    return (
        status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
        and counts == [wanted] * 3
    )


def _pods_path() -> str:
    return in_namespace(CORE, SYSTEM_NAMESPACE, "pods")


@contextmanager
def optimus_cluster(
    name: str, training: Sequence[NodeSpec], tuning: Tuning = QUICK_TUNING, **how: Any
) -> Iterator[OptimusCluster]:
    """Run a cluster under Optimus: one system node for the two processes, and these training nodes.

    `how` are further arguments of `LocalCluster`: images, settings of the node agent, the back end.
    """
    nodes = (NodeSpec("system", {"cpu": "4", "memory": "8Gi"}), *training)
    with LocalCluster(name, nodes, **how) as cluster, cluster.api_client() as client:
        yield OptimusCluster(cluster, Api(client), tuning)


def _kustomization(folder: Path, tuning: Tuning) -> Json:
    overlay = os.path.relpath(REPOSITORY / "localcluster" / "overlay", folder.resolve())
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [overlay],
        "patches": [
            _environment(AUTOSCALER, "containers", "OPTIMUS_", tuning.flags("autoscaler")),
            _environment(
                SCHEDULER, "initContainers", "OPTIMUS_EXTENDER_", tuning.flags("extender")
            ),
            _text_patch("optimus-config", "config.yaml", tuning.config),
        ],
    }


def _environment(
    deployment: str, containers: str, prefix: str, settings: Mapping[str, str]
) -> Json:
    path = f"/spec/template/spec/{containers}/0/env/-"
    added = [
        {"op": "add", "path": path, "value": {"name": prefix + name.upper(), "value": value}}
        for name, value in settings.items()
    ]
    return {"target": {"kind": "Deployment", "name": deployment}, "patch": yaml.safe_dump(added)}


def _config_patch(text: str) -> Json:
    """A patch that makes a text kube-scheduler's configuration, with the kubeconfig that process
    nodes need. Patches come last: components may bring a configuration of their own."""
    config: Json = yaml.safe_load(text)
    config["clientConnection"] = {**config.get("clientConnection", {}), "kubeconfig": _KUBECONFIG}
    return _text_patch(
        "optimus-scheduler-config", "kube-scheduler-config.yaml", yaml.safe_dump(config)
    )


def _text_patch(name: str, key: str, text: str) -> Json:
    """Return a patch that replaces a text of a ConfigMap."""
    change = {"op": "replace", "path": f"/data/{key}", "value": text}
    return {
        "target": {"kind": "ConfigMap", "name": name},
        "patch": yaml.safe_dump([change]),
    }
