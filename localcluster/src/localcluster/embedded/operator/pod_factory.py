"""The pods and services of a job: names, labels, owner, and the gang variable.

A pod's variable lists the gang as of the pod's creation: an edit of the counts never reaches it."""

import copy
import json
from collections.abc import Callable, Mapping
from typing import Final

from localcluster.embedded.operator.jobs import MXJOB, PYTORCHJOB, TFJOB, Job, Role
from localcluster.embedded.raw_objects import Json

LABELS: Final = "training.kubeflow.org"


def child_name(job: Job, role: Role, index: int) -> str:
    """Return the name of a replica's pod, and of its service."""
    return f"{job.name}-{role.label}-{index}"


def selecting_labels(job: Job, role: Role, index: int) -> dict[str, str]:
    """Return the labels that find a replica's pod."""
    return {
        f"{LABELS}/operator-name": job.kind.controller,
        f"{LABELS}/job-name": job.name,
        f"{LABELS}/replica-type": role.label,
        f"{LABELS}/replica-index": str(index),
    }


def make_pod(job: Job, role: Role, index: int) -> Json:
    """Return the pod of a replica."""
    template = copy.deepcopy(role.template)
    metadata, spec = template.get("metadata") or {}, template["spec"]
    labels = {**(metadata.get("labels") or {}), **selecting_labels(job, role, index)}
    if _is_master(job, role, index):
        labels[f"{LABELS}/job-role"] = "master"
    spec["restartPolicy"] = role.restart_policy
    variables = _VARIABLES[job.kind.kind.name](job, role, index)
    added = [{"name": name, "value": value} for name, value in variables.items()]
    for container in spec["containers"]:
        if job.kind is not TFJOB or container.get("name") == job.kind.kind.container:
            container["env"] = [*(container.get("env") or []), *added]
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        _quote_amounts(container.get("resources") or {})
    kept = {key: metadata[key] for key in ("annotations", "finalizers") if metadata.get(key)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **kept,
            "name": child_name(job, role, index),
            "labels": labels,
            "ownerReferences": [_owner(job)],
        },
        "spec": spec,
    }


def _quote_amounts(resources: Json) -> None:
    """Turn amounts that a user wrote as numbers into strings, as the real operator's types do."""
    for which in ("requests", "limits"):
        if resources.get(which):
            resources[which] = {name: str(amount) for name, amount in resources[which].items()}


def make_service(job: Job, role: Role, index: int) -> Json:
    """Return the headless service of a replica."""
    labels = selecting_labels(job, role, index)
    ports = [
        {"name": port.get("name", ""), "port": port["containerPort"]} for port in _ports(job, role)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": child_name(job, role, index),
            "labels": labels,
            "ownerReferences": [_owner(job)],
        },
        "spec": {"clusterIP": "None", "selector": labels, "ports": ports},
    }


def _owner(job: Job) -> Json:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": job.kind.kind.name,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _is_master(job: Job, role: Role, index: int) -> bool:
    if job.kind is MXJOB:
        return role.name == "Server"
    if job.kind is PYTORCHJOB or job.has_chief():
        return role.name in ("Chief", "Master")
    return role.name == "Worker" and index == 0


def _ports(job: Job, role: Role) -> list[Json]:
    containers = role.template["spec"]["containers"]
    ports: list[Json] = next(
        each for each in containers if each["name"] == job.kind.kind.container
    )["ports"]
    return ports


def _port(job: Job, role: Role) -> int:
    return int(
        next(port for port in _ports(job, role) if port.get("name") == job.kind.port_name)[
            "containerPort"
        ]
    )


def _compact(value: Json) -> str:
    return json.dumps(value, separators=(",", ":"))


# --- TensorFlow


def _tensorflow(job: Job, role: Role, index: int) -> dict[str, str]:
    if sum(each.replicas for each in job.roles.values()) == 1:
        return {}
    roles = sorted(job.roles.values(), key=lambda each: each.label)
    cluster = {each.label: _addresses(job, each) for each in roles}
    task = {"type": role.label, "index": index}
    config = {"cluster": cluster, "task": task, "environment": "cloud"}
    return {"TF_CONFIG": _compact(config)}


def _addresses(job: Job, role: Role) -> list[str]:
    domain, port = f"{job.namespace}.svc", _port(job, role)
    return [f"{child_name(job, role, index)}.{domain}:{port}" for index in range(role.replicas)]


# --- MXNet


def _mxnet(job: Job, role: Role, index: int) -> dict[str, str]:
    roles = sorted(job.roles.values(), key=lambda each: each.label)
    cluster = {
        each.label: [
            {"url": child_name(job, each, number), "port": _port(job, each)}
            for number in range(each.replicas)
        ]
        for each in roles
    }
    labels = {each.label: "" for each in roles}  # only tuning jobs, which are not run, have any
    config = {"cluster": cluster, "labels": labels, "task": {"type": role.label, "index": index}}
    root = (cluster.get("scheduler") or [{"url": "", "port": 0}])[0]
    return {
        "MX_CONFIG": _compact(config),
        "DMLC_PS_ROOT_PORT": str(root["port"]),
        "DMLC_PS_ROOT_URI": str(root["url"]),
        "DMLC_NUM_SERVER": str(len(cluster.get("server", ()))),
        "DMLC_NUM_WORKER": str(len(cluster.get("worker", ()))),
        "DMLC_ROLE": role.label,
        "DMLC_USE_KUBERNETES": "1",
        **({"DMLC_WORKER_ID": str(index)} if role.name == "Worker" else {}),
    }


# --- PyTorch


def _pytorch(job: Job, role: Role, index: int) -> dict[str, str]:
    """Return what the real operator sets for a job without an elastic policy."""
    spec, replicas = job.body["spec"], sum(each.replicas for each in job.roles.values())
    processes = str(spec.get("nprocPerNode") or "auto")
    variables = {"PYTHONUNBUFFERED": "1", "PET_NNODES": str(replicas)}
    if master := job.roles.get("Master"):
        address, port = child_name(job, master, 0), str(_port(job, master))
        rank = str(index + (role.name == "Worker"))
        world = replicas * (int(processes) if processes.isdecimal() else 1)
        variables |= {"MASTER_PORT": port, "PET_MASTER_PORT": port, "MASTER_ADDR": address}
        variables |= {"PET_MASTER_ADDR": address, "WORLD_SIZE": str(world), "RANK": rank}
        variables |= {"PET_NPROC_PER_NODE": processes, "PET_NODE_RANK": rank}
    return variables


_VARIABLES: Final[Mapping[str, Callable[[Job, Role, int], dict[str, str]]]] = {
    "TFJob": _tensorflow,
    "MXJob": _mxnet,
    "PyTorchJob": _pytorch,
}
