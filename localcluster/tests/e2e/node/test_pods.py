"""Pods on process nodes: what users see of them through the API server."""

import json
import subprocess
from pathlib import Path
from typing import Any

from localcluster.cluster import LocalCluster
from localcluster.testing.waiting import wait_until
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


def test_a_log_is_followed_while_the_container_runs(
    cluster: LocalCluster, space: Namespace, tmp_path: Path
) -> None:
    volume = {"name": "v", "hostPath": {"path": str(tmp_path)}}
    mounts = [{"name": "v", "mountPath": "/v"}]
    script = "echo first; while [ ! -e /v/go ]; do sleep 0.1; done; echo last"
    space.make(pod("follow", container(script, volumeMounts=mounts), volumes=[volume]))
    space.wait("follow", ".status.phase=Running")
    command = [
        str(cluster.binaries["kubectl"]),
        "--kubeconfig",
        str(cluster.kubeconfig),
        "-n",
        space.name,
    ]
    with subprocess.Popen(
        [*command, "logs", "-f", "follow"], stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "first\n"
        (tmp_path / "go").touch()
        assert reader.stdout.read() == "last\n"
        assert reader.wait(timeout=180) == 0


def test_a_container_that_fails_is_run_again_and_its_first_log_is_kept(space: Namespace) -> None:
    script = "if [ -e /v/again ]; then echo second; exit 0; fi; touch /v/again; echo first; exit 1"
    mounts = [{"name": "v", "mountPath": "/v"}]
    volumes = [{"name": "v", "emptyDir": {}}]
    space.make(
        pod(
            "again",
            container(script, volumeMounts=mounts),
            volumes=volumes,
            restartPolicy="OnFailure",
        )
    )
    assert space.ended("again") == "second\n"
    assert space.get("pod", "again")["status"]["containerStatuses"][0]["restartCount"] == 1
    assert space.kubectl("logs", "again", "--previous") == "first\n"


def test_a_deleted_pod_gets_its_grace_and_leaves_no_process(space: Namespace) -> None:
    space.make(
        pod(
            "stubborn",
            container("trap '' TERM; echo $$$$; while true; do sleep 0.1; done"),
            terminationGracePeriodSeconds=1,
        ),
        pod("kind", container("trap 'exit 0' TERM; echo $$$$; while true; do sleep 0.1; done")),
        pod("forced", container("trap '' TERM; echo $$$$; while true; do sleep 0.1; done")),
    )
    processes = []
    for name in ("stubborn", "kind", "forced"):
        space.wait(name, ".status.phase=Running")
        processes.append(int(_first_line(space, name)))
    assert all(Path(f"/proc/{each}").exists() for each in processes)
    space.kubectl("delete", "pod", "forced", "--grace-period=0", "--force", "--timeout=180s")
    space.kubectl("delete", "pod", "stubborn", "kind", "--timeout=180s")
    # The object of the forced one went before its process: the node ends that as soon as it hears
    # of it.
    wait_until(
        lambda: not any(Path(f"/proc/{each}").exists() for each in processes),
        "no process is left",
        180,
    )


def _first_line(space: Namespace, name: str) -> str:
    """Wait for a container's first line."""
    command = ["-n", space.name, "logs", "-f", name, "--limit-bytes=20"]
    cluster = space.cluster
    full = [str(cluster.binaries["kubectl"]), "--kubeconfig", str(cluster.kubeconfig), *command]
    with subprocess.Popen(full, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        line = reader.stdout.readline()
        reader.terminate()
    return line


def test_a_pod_over_the_nodes_room_is_failed_as_a_kubelet_fails_it(space: Namespace) -> None:
    resources = {"requests": {"cpu": "100"}}
    space.make(pod("big", container("true", resources=resources), nodeName="node-1"))
    found = space.wait("big", ".status.phase=Failed")
    assert found["status"]["reason"] == "OutOfcpu"
    assert "Node didn't have enough resource: cpu, requested: 100000" in found["status"]["message"]


def test_what_cannot_be_run_says_so(space: Namespace) -> None:
    space.make(
        pod("image", {"name": "main", "image": "nginx:1"}),
        pod(
            "volume",
            container("true"),
            volumes=[{"name": "v", "nfs": {"server": "s", "path": "/p"}}],
        ),
    )
    waiting = ".status.containerStatuses[0].state.waiting.reason"
    unknown = space.wait("image", f"{waiting}=ErrImagePull")
    assert (
        "known images: busybox"
        in unknown["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
    )
    refused = space.wait("volume", f"{waiting}=Unsupported")
    assert (
        "volumes of type nfs"
        in refused["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
    )


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


def test_volumes_hold_what_they_should(space: Namespace, tmp_path: Path) -> None:
    data = {"greeting": "hello", "app.conf": "root = /scratch\n"}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}
    script = (
        'echo "$WHO says $(cat /etc/app/greeting)" >/claim/out; grep -c "$SCRATCH" '
        "/etc/app/app.conf"
    )
    names = {"scratch": "/scratch", "config": "/etc/app", "claim": "/claim"}
    main = container(
        script,
        env=[
            {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "SCRATCH", "value": "/scratch"},
        ],
        volumeMounts=[{"name": name, "mountPath": path} for name, path in names.items()],
    )
    volumes: list[dict[str, Any]] = [
        {"name": "scratch", "emptyDir": {}},
        {"name": "config", "configMap": {"name": "c"}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "claim"}},
    ]
    space.make(config, *claim(space.name, tmp_path / "kept"), pod("volumes", main, volumes=volumes))
    assert space.ended("volumes") == "1\n"
    assert (tmp_path / "kept" / "out").read_text() == "volumes says hello\n"
    space.kubectl("delete", "pv", space.name, "--wait=false")


SIDECAR = """
import http.server, signal, sys
def note(text):
    with open(sys.argv[1], "a") as events:
        print(text, file=events)
def end(*_):
    note("side-ended")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
server = http.server.HTTPServer(
    ("127.0.0.1", int(sys.argv[2])), http.server.SimpleHTTPRequestHandler
)
note("side")
server.serve_forever()
"""


def test_a_sidecar_is_up_before_and_ends_after_the_main_container(
    space: Namespace, tmp_path: Path
) -> None:
    mounts = [{"name": "v", "mountPath": "/v"}]
    side = {
        "name": "side",
        "image": "optimus-on-kubernetes",
        "command": ["python", "-c", SIDECAR, "/v/events", "8080"],
        "restartPolicy": "Always",
        "ports": [{"containerPort": 8080}],
        "startupProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1},
        "volumeMounts": mounts,
    }
    main = container("echo main >>/v/events", volumeMounts=mounts)
    volume = {"name": "v", "hostPath": {"path": str(tmp_path)}}
    space.make(pod("side", main, initContainers=[side], volumes=[volume]))
    space.wait("side", ".status.phase=Succeeded")
    assert (tmp_path / "events").read_text().split() == ["side", "main", "side-ended"]


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
