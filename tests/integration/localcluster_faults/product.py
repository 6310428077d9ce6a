"""The autoscaler and the extender as processes of this test, each behind a proxy of its own, and their scheduler."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from localcluster.cluster import LocalCluster
from localcluster.faults.cluster import before
from localcluster.faults.proxy import FaultProxy
from tests.e2e.harness.stack import QUICK_TUNING, REPOSITORY, Tuning

AUTOSCALER, EXTENDER = "autoscaler", "extender"
TUNING = Tuning(
    {**QUICK_TUNING.autoscaler, "rescale_cost_seconds": "1", "report_seconds": "1"},
    {**QUICK_TUNING.extender, "leader_lease": ""},
)
_READY_SECONDS = 60.0


@dataclass(frozen=True)
class Product:
    """The running processes by name, and the proxies before the API server that they talk to."""

    processes: Mapping[str, "subprocess.Popen[bytes]"]
    proxies: Mapping[str, FaultProxy]
    folder: Path

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def defects(self, name: str) -> list[str]:
        """Lines with which the process reported an error of its own; that it is there no more is one."""
        lines = [each for each in self.log(name).splitlines() if " ERROR " in each or each.startswith("Traceback")]
        ended = self.processes[name].poll()
        return lines if ended is None else [*lines, f"{name} has ended with {ended}"]


@contextmanager
def product(cluster: LocalCluster, folder: Path) -> Iterator[Product]:
    """Run all of it; it ends with the block."""
    with ExitStack() as stack:
        proxies = {name: stack.enter_context(before(cluster)) for name in (AUTOSCALER, EXTENDER)}
        for name, proxy in proxies.items():
            proxy.write_kubeconfig(_kubeconfig(folder, name))
        ports = {name: _free_port() for name in (AUTOSCALER, EXTENDER)}
        commands = {
            EXTENDER: _process(EXTENDER, folder, ports, TUNING.extender),
            AUTOSCALER: _process(AUTOSCALER, folder, ports, TUNING.autoscaler),
            "scheduler": _scheduler(cluster, folder, ports[EXTENDER]),
        }
        started = {name: stack.enter_context(_running(name, folder, each)) for name, each in commands.items()}
        for name, port in ports.items():
            _wait_ready(name, port, folder)
        yield Product(started, proxies, folder)


def _process(name: str, folder: Path, ports: Mapping[str, int], settings: Mapping[str, str]) -> Sequence[str]:
    own = {"kubeconfig": str(_kubeconfig(folder, name)), "listen": f"127.0.0.1:{ports[name]}"}
    flags = [_flag(setting, value) for setting, value in {**settings, **own}.items()]
    return (sys.executable, "-m", name, *flags)


def _flag(setting: str, value: str) -> str:
    flag = "--" + setting.replace("_", "-")
    return flag if value == "true" else f"{flag}={value}"


def _scheduler(cluster: LocalCluster, folder: Path, port: int) -> Sequence[str]:
    """The embedded scheduler with the shipped configuration; it talks to the API server itself."""
    document = yaml.safe_load((REPOSITORY / "scheduler-config" / "kube-scheduler-config.yaml").read_text())
    document["leaderElection"] = {"leaderElect": False}
    document["extenders"][0]["urlPrefix"] = f"http://127.0.0.1:{port}"
    path = folder / "kube-scheduler.yaml"
    path.write_text(yaml.safe_dump(document))
    own = ("--config", str(path), "--kubeconfig", str(cluster.kubeconfig))
    return (sys.executable, "-m", "localcluster.embedded.scheduler", *own)


@contextmanager
def _running(name: str, folder: Path, command: Sequence[str]) -> Iterator["subprocess.Popen[bytes]"]:
    with (folder / f"{name}.log").open("wb") as log:
        environ = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=REPOSITORY, env=environ)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_ready(name: str, port: int, folder: Path) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not _is_ready(port):
        said = (folder / f"{name}.log").read_text()
        assert time.monotonic() < deadline, f"{name} is not ready after {_READY_SECONDS:.0f} s:\n{said}"
        time.sleep(0.2)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
            return True
    except OSError:
        return False


def _kubeconfig(folder: Path, name: str) -> Path:
    return folder / f"{name}.kubeconfig"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
