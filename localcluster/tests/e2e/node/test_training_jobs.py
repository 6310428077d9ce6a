"""Training jobs of the real operator on process nodes: their addresses, run by run."""

import json
from typing import Any

from localcluster.errors import KubectlError
from localcluster.testing.waiting import wait_until
from tests.e2e.node.pods import Namespace

TELL = (
    "import os, sys, time; print(os.environ[sys.argv[1]], flush=True); "
    "time.sleep(float(sys.argv[2]))"
)


def replicas(count: int, container: str, *arguments: str) -> dict[str, Any]:
    """Return a replica spec whose container tells one of its variables."""
    main = {
        "name": container,
        "image": "optimus-examples",
        "command": ["python", "-c", TELL, *arguments],
    }
    template = {"spec": {"containers": [main], "terminationGracePeriodSeconds": 1}}
    return {"replicas": count, "restartPolicy": "Never", "template": template}


def tfjob(name: str) -> dict[str, Any]:
    """Return a job of one PS and two workers."""
    told = ("tensorflow", "TF_CONFIG", "1000")
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": {"tfReplicaSpecs": {"PS": replicas(1, *told), "Worker": replicas(2, *told)}},
    }


def addresses(space: Namespace, *pods: str) -> list[list[str]]:
    """Wait until the pods run and return what each is told of the whole cluster."""
    found = []
    for name in pods:
        space.kubectl("wait", f"pod/{name}", "--for=create", "--timeout=180s")
        space.wait(name, ".status.phase=Running")
        cluster = json.loads(_log(space, name))["cluster"]
        found.append([address for role in sorted(cluster) for address in cluster[role]])
    return found


def _log(space: Namespace, name: str) -> str:
    """Return a pod's log once it has a line."""

    def whole_lines() -> str:
        try:
            text = space.kubectl("logs", name)
        except KubectlError:  # its container has not started yet
            return ""
        return text if text.endswith("\n") else ""

    return wait_until(whole_lines, f"{name} logs a line", 180)


def test_a_resumed_job_gets_new_ports(space: Namespace) -> None:
    space.make(tfjob("j"))
    pods = ("j-ps-0", "j-worker-0", "j-worker-1")
    first = addresses(space, *pods)
    assert first[0] == first[1] == first[2]
    assert len(set(first[0])) == 3
    assert all(each.startswith("127.0.0.1:") for each in first[0])
    suspend = '{"spec":{"runPolicy":{"suspend":%s}}}'
    space.kubectl("patch", "tfjob", "j", "--type=merge", "-p", suspend % "true")
    space.kubectl("wait", *(f"pod/{each}" for each in pods), "--for=delete", "--timeout=180s")
    space.kubectl("patch", "tfjob", "j", "--type=merge", "-p", suspend % "false")
    second = addresses(space, *pods)
    assert second[0] == second[1] == second[2]
    assert not set(first[0]) & set(second[0])


def test_an_mxjob_gets_its_scheduler_in_both_forms_and_succeeds_with_it(
    space: Namespace,
) -> None:
    told = ("mxnet", "MX_CONFIG")
    specs = {
        "Scheduler": replicas(1, *told, "0"),
        "Server": replicas(1, "mxnet", "DMLC_PS_ROOT_PORT", "1000"),
        "Worker": replicas(1, "mxnet", "DMLC_NODE_HOST", "0"),
    }
    policy = {"cleanPodPolicy": "None"}
    spec = {"jobMode": "MXTrain", "runPolicy": policy, "mxReplicaSpecs": specs}
    space.make(
        {"apiVersion": "kubeflow.org/v1", "kind": "MXJob", "metadata": {"name": "m"}, "spec": spec}
    )
    space.kubectl("wait", "mxjob/m", "--for=condition=Succeeded", "--timeout=180s")
    root = json.loads(_log(space, "m-scheduler-0"))["cluster"]["scheduler"][0]
    assert root["url"] == "127.0.0.1"
    assert root["port"] == int(_log(space, "m-server-0"))
    assert _log(space, "m-worker-0") == "127.0.0.1\n"
