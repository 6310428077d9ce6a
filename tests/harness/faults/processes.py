"""The autoscaler and the extender as processes of this test, each behind a proxy of its own, and
their scheduler."""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from localcluster.cluster import LocalCluster
from localcluster.faults.cluster import proxy_for
from localcluster.faults.proxy import FaultProxy
from localcluster.node.launcher import tied
from localcluster.ports import pick_ports
from localcluster.testing.backends import scheduler_command
from optimus.runtime.settings import flag
from tests.harness.api import CORE, Api, in_namespace
from tests.harness.faults.restarted_process import Process, RestartedProcess, end
from tests.harness.http_answers import body_of
from tests.harness.optimus_cluster import QUICK_TUNING, REPOSITORY, SYSTEM_NAMESPACE, Tuning

AUTOSCALER, EXTENDER, SCHEDULER = "autoscaler", "extender", "scheduler"
TUNING = Tuning(
    {
        **QUICK_TUNING.autoscaler,
        "early_interval_seconds": "1",
        "tick_seconds": "0.25",
        "report_seconds": "0.5",
        "rescale_cost_seconds": "1",
    },
    {**QUICK_TUNING.extender, "leader_lease": ""},
)
_ACCOUNTS = {AUTOSCALER: "optimus-autoscaler", EXTENDER: "optimus-scheduler"}
_READY_SECONDS = 180.0


@dataclass(frozen=True)
class OptimusProcesses:
    """The running processes by name, the proxies before the API server that they talk to, and their
    scheduler."""

    processes: dict[str, Process]
    scheduler: RestartedProcess
    proxies: Mapping[str, FaultProxy]
    folder: Path
    commands: Mapping[str, Sequence[str]]

    def start_again(self, name: str) -> None:
        """Start a process again that has ended, as a kubelet does."""
        end(self.processes[name])
        self.processes[name] = _started(name, self.folder, self.commands[name])

    def kill(self, name: str) -> None:
        """End a process with SIGKILL."""
        self.processes[name].kill()
        self.processes[name].wait()

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def defects(self, name: str) -> list[str]:
        """Lines with which the process reported an error of its own; that it is there no more is
        one."""
        lines = [
            each
            for each in self.log(name).splitlines()
            if " ERROR " in each or each.startswith("Traceback")
        ]
        ended = self.processes[name].poll()
        return lines if ended is None else [*lines, f"{name} has ended with {ended}"]


def program_of(name: str) -> str:
    """Return the program that a process runs; a second autoscaler is `autoscaler-2`."""
    return name.partition("-")[0]


@contextmanager
def product(
    cluster: LocalCluster,
    api: Api,
    folder: Path,
    names: Sequence[str] = (EXTENDER, AUTOSCALER),
    tuning: Tuning = TUNING,
) -> Iterator[OptimusProcesses]:
    """Run all of it; it ends with the block. Each of the two programs is the ServiceAccount that
    the manifests grant it."""
    with ExitStack() as stack:
        accounts = {
            name: _account(cluster, api, _ACCOUNTS[program_of(name)], folder) for name in names
        }
        proxies = {
            name: stack.enter_context(proxy_for(cluster, path)) for name, path in accounts.items()
        }
        for name, proxy in proxies.items():
            proxy.write_kubeconfig(_kubeconfig(folder, name))
        ports = dict(zip(names, pick_ports(len(names)), strict=True))
        commands = {name: _process(name, folder, ports, tuning) for name in names}
        scheduler = RestartedProcess(
            partial(_started, SCHEDULER, folder, _scheduler(cluster, folder, ports[EXTENDER]))
        )
        stack.callback(scheduler.stop)
        started: dict[str, Process] = {}
        stack.callback(_end_all, started)
        for name, command in commands.items():
            started[name] = _started(name, folder, command)
        for name, port in ports.items():
            _wait_ready(name, started[name], port, folder)
        yield OptimusProcesses(started, scheduler, proxies, folder, commands)


def _account(cluster: LocalCluster, api: Api, account: str, folder: Path) -> Path:
    """Write a kubeconfig that leads to the API server itself, with a token of the account."""
    path = in_namespace(CORE, SYSTEM_NAMESPACE, "serviceaccounts", account)
    token = api.create(f"{path}/token", {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    for user in document["users"]:
        user["user"] = {"token": token}
    written = folder / f"{account}-{secrets.token_hex(4)}.account"
    written.write_text(yaml.safe_dump(document))
    return written


def _process(name: str, folder: Path, ports: Mapping[str, int], tuning: Tuning) -> Sequence[str]:
    program = program_of(name)
    config = folder / f"{name}.yaml"
    config.write_text(tuning.config)
    own = {
        "config": str(config),
        "kubeconfig": str(_kubeconfig(folder, name)),
        "listen": f"127.0.0.1:{ports[name]}",
    }
    settings = {**tuning.flags(program), **own}
    flags = [f"{flag(setting)}={value}" for setting, value in settings.items()]
    return (sys.executable, "-m", program, *flags)


def _scheduler(cluster: LocalCluster, folder: Path, port: int) -> Sequence[str]:
    """The cluster's kind of scheduler with the shipped configuration; it talks to the API server
    itself."""
    document = yaml.safe_load(
        (REPOSITORY / "scheduler-config" / "kube-scheduler-config.yaml").read_text()
    )
    document["leaderElection"] = {"leaderElect": False}
    document["clientConnection"] = {"kubeconfig": str(cluster.kubeconfig)}
    document["extenders"][0]["urlPrefix"] = f"http://127.0.0.1:{port}"
    path = folder / "kube-scheduler.yaml"
    path.write_text(yaml.safe_dump(document))
    return (*scheduler_command(cluster), f"--config={path}")


def _started(name: str, folder: Path, command: Sequence[str]) -> Process:
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    with (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen(tied(command, REPOSITORY), stdout=log, stderr=log, env=environ)


def _end_all(processes: Mapping[str, Process]) -> None:
    for process in processes.values():
        end(process)


def _wait_ready(name: str, process: Process, port: int, folder: Path) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while body_of(port, "/readyz") is None:
        log = (folder / f"{name}.log").read_text()
        assert process.poll() is None, f"{name} has ended:\n{log}"
        assert time.monotonic() < deadline, f"{name} is not ready in time:\n{log}"
        time.sleep(0.2)


def _kubeconfig(folder: Path, name: str) -> Path:
    return folder / f"{name}.kubeconfig"
