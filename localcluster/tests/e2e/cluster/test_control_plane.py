"""The local control plane as a user meets it: it comes up, survives the death of its parts, and
leaves nothing."""

import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from localcluster.kubeconfig import read_kubeconfig, tls_context
from localcluster.paths import ClusterPaths
from localcluster.processes import alive
from localcluster.specs import NodeSpec, Taint
from localcluster.supervisor.status import read_status
from localcluster.testing.clusters import Shown
from localcluster.testing.waiting import wait_until

REPOSITORY = Path(__file__).resolve().parents[4]
CONTROL_PLANE = {
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "training-operator",
}


def eventually(what: str, true: Callable[[], bool]) -> None:
    wait_until(true, what, 180)


@pytest.fixture(scope="module")
def own(shown: Shown) -> Iterator[LocalCluster]:
    """A cluster that tests may break: two unlike nodes."""
    nodes = [
        NodeSpec("plain", {"cpu": "2"}),
        NodeSpec(
            "special",
            {"nvidia.com/gpu": "2"},
            {"pool": "training"},
            (Taint("optimus.dl/training", "yes"),),
        ),
    ]
    with LocalCluster("breakable", nodes) as cluster, shown(cluster):
        yield cluster


def listening(pid: int) -> list[str]:
    """Return the addresses, as /proc/net writes them, on which a process listens for TCP
    connections."""
    links = [str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()]
    sockets = {
        link.removeprefix("socket:[").rstrip("]") for link in links if link.startswith("socket:")
    }
    rows = [
        row.split()
        for name in ("tcp", "tcp6")
        for row in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()
    ]
    return [row[1].partition(":")[0] for row in rows if row[3] == "0A" and row[9] in sockets]


class TestACluster:
    def test_its_components_are_ready_and_its_nodes_become_ready(self, own: LocalCluster) -> None:
        assert set(own.components) == CONTROL_PLANE | {"node-agent"}
        assert all(component.ready for component in own.components.values())
        own.kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=180s")

    def test_a_node_is_as_it_was_specified(self, own: LocalCluster) -> None:
        node = own.get("node", "special")
        assert node["status"]["capacity"]["nvidia.com/gpu"] == "2"
        assert node["metadata"]["labels"]["pool"] == "training"
        taints = [
            (taint["key"], taint.get("value"), taint["effect"]) for taint in node["spec"]["taints"]
        ]
        assert ("optimus.dl/training", "yes", "NoSchedule") in taints

    def test_it_listens_on_loopback_alone(self, own: LocalCluster) -> None:
        addresses = [
            address for process in own.status.processes() for address in listening(process.pid)
        ]
        assert len(addresses) >= len(CONTROL_PLANE)
        assert set(addresses) == {"0100007F"}, "127.0.0.1, as /proc/net writes it"

    def test_a_client_without_a_certificate_may_do_nothing(self, own: LocalCluster) -> None:
        server = read_kubeconfig(own.kubeconfig)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(
                f"{server.server}/api/v1/pods", timeout=60, context=tls_context(server.ca_pem)
            )
        with refused.value:
            assert refused.value.code == 403


class TestAComponentThatDies:
    @pytest.mark.parametrize("component", ["kube-apiserver", "node-agent"])
    def test_it_is_started_again_and_reported(self, own: LocalCluster, component: str) -> None:
        before = own.components[component].restarts
        own.wait_restarted(component, own.kill(component))
        assert own.components[component].restarts == before + 1
        assert own.components[component].last_exit == "was killed by signal 9"

    def test_nodes_stay_ready_and_pods_are_scheduled_after_all_of_it(
        self, own: LocalCluster
    ) -> None:
        own.kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=180s")
        own.kubectl("run", "after", "--image=busybox", "--restart=Never", "--command", "--", "true")
        own.kubectl(
            "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/after", "--timeout=180s"
        )


class TestStop:
    def test_when_its_owner_is_killed_the_cluster_ends_and_its_folder_goes(
        self, tmp_path: Path
    ) -> None:
        script = (
            "import time\n"
            "from localcluster.cluster import LocalCluster\n"
            "with LocalCluster('orphan') as cluster:\n"
            "    print(cluster.paths.root, flush=True)\n"
            "    time.sleep(600)\n"
        )
        owner = subprocess.Popen(
            [sys.executable, "-c", script], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
        )
        assert owner.stdout is not None
        with owner.stdout:
            root = Path(owner.stdout.readline().strip())
        status = read_status(ClusterPaths(root))
        assert status is not None
        assert status.supervisor is not None
        everything = [*status.processes(), status.supervisor]
        assert len(everything) == len(CONTROL_PLANE) + 1
        owner.kill()
        owner.wait()
        eventually("every process ended", lambda: not any(alive(process) for process in everything))
        eventually("its folder is gone", lambda: not root.exists())

    def test_up_down_and_status_of_the_command_line(self, tmp_path: Path) -> None:
        state = tmp_path / "state"
        up = _command("up", "--state", str(state), "--nodes", "1", "--node", "cpu=2")
        assert up.returncode == 0, up.stderr
        assert f"export KUBECONFIG={state / 'kubeconfig'}" in up.stdout
        running = _command("status", "--state", str(state))
        assert running.returncode == 0
        assert "node-agent                ready" in running.stdout
        again = _command("up", "--state", str(state))
        assert again.returncode == 1
        assert "runs in" in again.stderr
        status = read_status(ClusterPaths(state))
        assert status is not None
        down = _command("down", "--state", str(state))
        assert down.returncode == 0, down.stderr
        assert not any(alive(process) for process in status.processes())
        assert not state.exists()
        assert _command("status", "--state", str(state)).returncode == 3


def _command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "localcluster", *arguments]
    return subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=300
    )
