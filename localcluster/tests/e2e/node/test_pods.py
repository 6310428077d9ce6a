"""Pods on process nodes: what users see of them through the API server."""

import json
from pathlib import Path
from typing import Any

from tests.e2e.node.pods import Namespace, container, pod


def test_a_pod_runs_and_its_log_is_read_through_the_api_server(space: Namespace) -> None:
    space.make(pod("plain", container("echo one; echo two >&2; exit 3")))
    found = space.wait("plain", ".status.phase=Failed")
    terminated = found["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (3, "Error")
    assert found["status"]["podIP"] == "127.0.0.1"
    assert sorted(space.kubectl("logs", "plain").split()) == ["one", "two"]
    stamp, _, text = (
        space.kubectl("logs", "plain", "--timestamps", "--tail=1").strip().partition(" ")
    )
    assert text in {"one", "two"}
    assert stamp.endswith("Z")


def claim(name: str, path: Path) -> list[dict[str, Any]]:
    """Return a claim and the hostPath volume that it is bound to."""
    size = {"storage": "1Gi"}
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {**common, "capacity": size, "hostPath": {"path": str(path)}},
    }
    wanted = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "claim"},
        "spec": {**common, "resources": {"requests": size}, "volumeName": name},
    }
    return [volume, wanted]


ASK = """
import json, ssl, sys, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount"
config = json.load(open(folder + "/kubeconfig"))
server = config["clusters"][0]["cluster"]["server"]
token = open(config["users"][0]["user"]["tokenFile"]).read()
context = ssl.create_default_context(cafile=folder + "/ca.crt")
for what in ("pods", "secrets"):
    url = f"{server}/api/v1/namespaces/{sys.argv[1]}/{what}"
    request = urllib.request.Request(url, headers={"Authorization": "Bearer " + token})
    try:
        print(what, urllib.request.urlopen(request, context=context, timeout=20).status)
    except urllib.error.HTTPError as error:
        print(what, error.code)
"""


def test_the_token_of_a_service_account_may_do_what_its_role_grants_and_no_more(
    space: Namespace,
) -> None:
    space.kubectl("create", "serviceaccount", "reader")
    space.kubectl("create", "role", "reader", "--verb=list", "--resource=pods")
    space.kubectl(
        "create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={space.name}:reader"
    )
    main = {
        "name": "main",
        "image": "optimus-on-kubernetes:test",
        "command": ["python", "-c", ASK, space.name],
    }
    space.make(pod("ask", main, serviceAccountName="reader"))
    assert space.ended("ask") == "pods 200\nsecrets 403\n"


def test_a_deployment_rolls_out_and_is_replaced_pod_by_pod(space: Namespace) -> None:
    labels = {"app": "web"}
    server = {
        "name": "main",
        "image": "optimus-on-kubernetes",
        "command": ["python", "-m", "http.server", "8080", "--bind", "127.0.0.1"],
        "ports": [{"containerPort": 8080, "name": "http"}],
        "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1},
    }
    template = {
        "metadata": {"labels": labels},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [server]},
    }
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    space.make(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    )
    space.kubectl("rollout", "status", "deployment/web", "--timeout=180s")
    pods = space.cluster.get("-n", space.name, "pods")["items"]
    ports = [
        json.loads(each["metadata"]["annotations"]["localcluster/ports"])["8080"] for each in pods
    ]
    assert len(set(ports)) == 2
    space.kubectl("set", "env", "deployment/web", "X=1")
    space.kubectl("rollout", "status", "deployment/web", "--timeout=180s")
