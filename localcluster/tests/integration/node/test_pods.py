"""Whole pods on one machine: volumes, ports, probes, restarts, deletion, and an agent that comes
back."""

import json
import os
import stat
from pathlib import Path
from typing import Any

from localcluster.node import lifecycle as life
from localcluster.node.pod_processes import PORTS_ANNOTATION
from tests.integration.node.machine import NodeHarness
from tests.unit.node.pods import container, pod

SLEEP = "while true; do sleep 0.05; done"
CONFIG = "/api/v1/namespaces/ns/configmaps/c"


def script(text: str, name: str = "main", **fields: Any) -> dict[str, Any]:
    """Return a container that runs a shell script."""
    return container(name, command=["sh", "-c", text], **fields)


def test_a_pod_succeeds_and_its_log_can_be_read(node_harness: NodeHarness) -> None:
    raw = pod(
        script('echo "$(GREETING) $0 from $HOSTNAME"', env=[{"name": "GREETING", "value": "hello"}])
    )
    running = node_harness.run(
        {**raw, "spec": {**raw["spec"], "restartPolicy": "Never"}}
    ).wait_phase("Succeeded")
    assert "hello sh from p" in running.wait_log("hello")
    terminated = running.container()["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (0, "Completed")


def test_restarts_are_counted_and_the_previous_log_is_kept(node_harness: NodeHarness) -> None:
    running = node_harness.run(pod(script("echo run; exit 1"), restartPolicy="Always"))
    node_harness.api.wait(lambda: running.container().get("restartCount", 0) >= 3)
    # It goes on from there: what was seen a moment ago need not be so any more.
    node_harness.api.wait(
        lambda: "CrashLoopBackOff" in str(running.container()["state"].get("waiting"))
    )
    node_harness.api.wait(lambda: "BackOff" in node_harness.recorder.reasons)
    previous = running.runner.log("main", previous=True)
    assert not isinstance(previous, str)
    assert "run" in previous[0].read_text()


def test_sigterm_grace_and_sigkill_of_a_deleted_pod(node_harness: NodeHarness) -> None:
    running = node_harness.run(pod(script(f"trap 'echo asked' TERM; echo up; {SLEEP}")))
    running.wait_log("up")
    running.delete(3)
    running.wait_log("asked")
    node_harness.api.wait(lambda: bool(node_harness.api.of("delete")))
    path, options = node_harness.api.of("delete")[0]
    assert path == running.path
    assert options == {"gracePeriodSeconds": 0, "preconditions": {"uid": "u1"}}
    running.runner.post(life.Vanished())
    assert node_harness.forgotten.wait(180)
    assert not (node_harness.folder / "pods" / "u1").exists()


def test_volumes_are_folders_and_mount_paths_lead_to_them(
    node_harness: NodeHarness, tmp_path: Path
) -> None:
    node_harness.api.objects[CONFIG] = {"data": {"a.txt": "see /work/x\n", "b": "2"}}
    node_harness.api.objects["/api/v1/namespaces/ns/persistentvolumeclaims/claim"] = {
        "spec": {"volumeName": "pv"},
        "status": {"phase": "Bound"},
    }
    node_harness.api.objects["/api/v1/persistentvolumes/pv"] = {
        "metadata": {"name": "pv"},
        "spec": {"hostPath": {"path": str(tmp_path / "kept")}},
    }
    namespace = [{"path": "ns", "fieldRef": {"fieldPath": "metadata.namespace"}}]
    raw = pod(
        script(
            "cat /etc/c/a.txt /etc/c/only /down/ns; echo x >/work/x; echo $WHERE; "
            "echo saved >/claim/result; echo done",
            env=[{"name": "WHERE", "value": "/work/x"}],
            volumeMounts=[
                {"name": "work", "mountPath": "/work"},
                {"name": "config", "mountPath": "/etc/c"},
                {"name": "claim", "mountPath": "/claim"},
                {"name": "down", "mountPath": "/down"},
            ],
        ),
        restartPolicy="Never",
        volumes=[
            {"name": "work", "emptyDir": {}},
            {
                "name": "config",
                "configMap": {
                    "name": "c",
                    "items": [{"key": "a.txt", "path": "a.txt"}, {"key": "b", "path": "only"}],
                },
            },
            {"name": "claim", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "down", "projected": {"sources": [{"downwardAPI": {"items": namespace}}]}},
        ],
    )
    log = node_harness.run(raw).wait_phase("Succeeded", "Failed").wait_log("done")
    work = node_harness.folder / "pods" / "u1" / "volumes" / "work"
    assert f"see {work}/x" in log
    assert "2ns" in log
    assert log.count(str(work / "x")) == 2
    assert (work / "x").read_text() == "x\n"
    assert (tmp_path / "kept" / "result").read_text() == "saved\n"


def test_a_pod_waits_for_its_config_map_and_follows_changes(node_harness: NodeHarness) -> None:
    mounts = [{"name": "c", "mountPath": "/c"}]
    raw = pod(
        script(f"cat /c/k; {SLEEP}", volumeMounts=mounts),
        volumes=[{"name": "c", "configMap": {"name": "c"}}],
    )
    running = node_harness.run(raw).wait_container("waiting")
    node_harness.api.wait(lambda: "not found" in str(running.container()["state"]))
    node_harness.api.objects[CONFIG] = {"data": {"k": "first\n", "old": "x"}}
    running.wait_log("first")
    file = node_harness.folder / "pods" / "u1" / "volumes" / "c" / "k"
    node_harness.api.objects[CONFIG] = {"data": {"k": "second\n"}}
    running.runner.refresh()
    assert file.read_text() == "second\n"
    assert not file.with_name("old").exists()


def test_the_service_account_has_a_token_and_a_kubeconfig_beside_it(
    node_harness: NodeHarness,
) -> None:
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}
    raw = pod(
        script(
            "cat /var/run/secrets/sa/token; cat $KUBECONFIG; echo; echo done",
            env=[{"name": "KUBECONFIG", "value": "/var/run/secrets/sa/kubeconfig"}],
            volumeMounts=[{"name": "sa", "mountPath": "/var/run/secrets/sa"}],
        ),
        serviceAccountName="me",
        restartPolicy="Never",
        volumes=[{"name": "sa", "projected": {"sources": [token]}}],
    )
    log = node_harness.run(raw).wait_phase("Succeeded").wait_log("done")
    assert "token-1" in log
    path, body = node_harness.api.of("create")[0]
    assert path == "/api/v1/namespaces/ns/serviceaccounts/me/token"
    assert body["spec"]["boundObjectRef"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "p",
        "uid": "u1",
    }
    folder = node_harness.folder / "pods" / "u1" / "volumes" / "sa"
    assert json.loads((folder / "kubeconfig").read_text())["users"][0]["user"]["tokenFile"] == str(
        folder / "token"
    )
    assert stat.S_IMODE((folder / "token").stat().st_mode) == 0o600


SERVER = (
    "import http.server,sys;"
    "h=http.server.HTTPServer(('127.0.0.1',int(sys.argv[1])),http.server.SimpleHTTPRequestHandler);"
    "print('serving',flush=True);h.serve_forever()"
)


def test_a_declared_port_becomes_a_port_of_its_own_for_program_probe_and_reader(
    node_harness: NodeHarness,
) -> None:
    python = os.path.realpath("/proc/self/exe")
    probe = {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1}
    server = container(
        command=[python, "-c", SERVER, "8080"],
        ports=[{"containerPort": 8080, "name": "http"}],
        readinessProbe=probe,
    )
    running = node_harness.run(pod(server))
    node_harness.api.wait(lambda: bool(running.container().get("ready")))
    told = json.loads(
        node_harness.api.objects[running.path]["metadata"]["annotations"][PORTS_ANNOTATION]
    )
    assert list(told) == ["8080"]
    assert told["8080"] != 8080


def test_a_pod_beyond_the_nodes_capacity_fails_and_others_go_on(node_harness: NodeHarness) -> None:
    resources = {"requests": {"cpu": "3"}}
    first = node_harness.run(pod(script(SLEEP, resources=resources), name="a", uid="a")).wait_phase(
        "Running"
    )
    second = node_harness.run(
        pod(script(SLEEP, resources=resources), name="b", uid="b")
    ).wait_phase("Failed")
    assert second.status["reason"] == "OutOfcpu"
    assert first.status["phase"] == "Running"


SIDECAR = """
import http.server, signal, sys
def note(text):
    with open(sys.argv[1], "a") as events:
        print(text, file=events)
def end(*_):
    note("side-ends")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
server = http.server.HTTPServer(
    ("127.0.0.1", int(sys.argv[2])), http.server.SimpleHTTPRequestHandler
)
note("side-up")
server.serve_forever()
"""


def test_sidecars_start_before_and_end_after_the_main_container(node_harness: NodeHarness) -> None:
    mounts = [{"name": "out", "mountPath": "/out"}]
    side = container(
        "side",
        command=[os.path.realpath("/proc/self/exe"), "-c", SIDECAR, "/out/events", "8080"],
        restartPolicy="Always",
        ports=[{"containerPort": 8080}],
        startupProbe={"httpGet": {"port": 8080}, "periodSeconds": 1},
        volumeMounts=mounts,
    )
    main = script("echo main >>/out/events", volumeMounts=mounts)
    volumes = [{"name": "out", "emptyDir": {}}]
    running = node_harness.run(
        pod(main, init=(side,), restartPolicy="Never", volumes=volumes)
    ).wait_phase("Succeeded")
    events = (
        (node_harness.folder / "pods" / "u1" / "volumes" / "out" / "events").read_text().split()
    )
    assert events == ["side-up", "main", "side-ends"]
    assert running.container("side")["state"]["terminated"]["exitCode"] == 0
