"""The supervising process of one cluster: `supervisor.main --state DIR [--owner-fd N]`.

It reads `cluster.json` from the state folder, cleans up what an earlier run may have left, starts
everything, and stays until it is told to stop or its owner ends. It is started by
`localcluster.cluster`, not by hand."""

import argparse
import fcntl
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from localcluster import bootstrap, components
from localcluster.binaries.locate import Binaries
from localcluster.components import Ports, Recipe
from localcluster.embedded import backend
from localcluster.errors import ClusterError
from localcluster.identities import write_identities
from localcluster.paths import REPOSITORY, ClusterPaths
from localcluster.ports import pick_ports
from localcluster.processes import ProcessId, alive, identify, send
from localcluster.specs import Backend
from localcluster.storage import read_json
from localcluster.supervisor.interrupts import Interrupts
from localcluster.supervisor.runner import PortTakenError, Stage, Supervisor
from localcluster.supervisor.status import Records, read_status

_PORT_TRIES = 4
_LEFTOVER_SECONDS = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one cluster to its end; the exit status is 0 when it was asked to stop."""
    parser = argparse.ArgumentParser(
        prog="python -m localcluster.supervisor.main", description=__doc__
    )
    parser.add_argument(
        "--state", type=Path, required=True, help="state folder, with cluster.json in it"
    )
    parser.add_argument(
        "--owner-fd", type=int, help="read end of a pipe; its end of file is the owner's death"
    )
    options = parser.parse_args(arguments)
    paths = ClusterPaths(options.state.resolve())
    interrupts = Interrupts(options.owner_fd)
    try:
        with _locked(paths), interrupts.installed():
            return _supervise(paths, interrupts)
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1


def _supervise(paths: ClusterPaths, interrupts: Interrupts) -> int:
    plan = read_json(paths.plan)
    if plan is None:
        raise ClusterError(f"{paths.plan} is missing or broken")
    clean_leftovers(paths)
    records = Records(paths, identify(os.getpid()))
    try:
        reason = _run(paths, plan, records, interrupts)
        records.cluster("stopped", reason)
        return 0
    except Exception as error:  # noqa: BLE001 - whatever it is, the owner waits for this line and must get it
        records.cluster("failed", str(error) or repr(error))
        return 1
    finally:
        for folder in (paths.data, paths.pki):
            shutil.rmtree(folder, ignore_errors=True)
        if plan.get("ephemeral") and interrupts.owner_ended:
            shutil.rmtree(paths.root, ignore_errors=True)  # nobody is left to do it


def _run(
    paths: ClusterPaths, plan: Mapping[str, Any], records: Records, interrupts: Interrupts
) -> str:
    def attempt() -> str:
        return _attempt(paths, plan, Supervisor(paths, records, interrupts))

    return with_other_ports(
        attempt, lambda why: records.event("cluster", "starting again with other ports", why)
    )


def with_other_ports(attempt: Callable[[], str], report: Callable[[str], None]) -> str:
    """Return what `attempt` returns, trying it again where it lost a port; the last try's error is
    passed on."""
    for _ in range(_PORT_TRIES - 1):
        try:
            return attempt()
        except PortTakenError as error:
            report(str(error))
    return attempt()


def _attempt(paths: ClusterPaths, plan: Mapping[str, Any], supervisor: Supervisor) -> str:
    shutil.rmtree(paths.data, ignore_errors=True)
    paths.data.mkdir(mode=0o700)
    config = components.agent_config(paths, plan["nodes"], plan.get("agent", {}))
    components.agent_config_path(paths).write_text(config)
    embedded = plan.get("backend") == Backend.EMBEDDED
    return supervisor.run(backend.stages(paths, plan) if embedded else _real_stages(paths, plan))


def _real_stages(paths: ClusterPaths, plan: Mapping[str, Any]) -> list[Stage]:
    binaries = Binaries(
        {name: Path(path) for name, path in plan["programs"].items()}, Path(plan["manifests"])
    )
    ports = Ports(*pick_ports(6, random.Random()))
    write_identities(paths, ports.api)
    return _stages(Recipe(paths, binaries, ports), bool(plan["nodes"]))


def _stages(recipe: Recipe, with_nodes: bool) -> list[Stage]:
    paths = recipe.paths

    def prepare() -> None:
        bootstrap.prepare(paths, recipe.ports.api, recipe.binaries.manifests)

    agent = [components.node_agent(paths, REPOSITORY)] if with_nodes else []
    return [
        Stage([components.etcd(recipe)]),
        Stage([components.api_server(recipe)], prepare),
        Stage(
            [
                components.controller_manager(recipe),
                components.stock_scheduler(recipe),
                components.training_operator(recipe),
                *agent,
            ]
        ),
    ]


def clean_leftovers(paths: ClusterPaths) -> None:
    """End what a run that was killed may have left behind: exactly the recorded processes, nothing
    by name."""
    status = read_status(paths)
    processes = list(status.processes()) if status else []
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            send(process, number)
        if _wait_gone(processes):
            return


def _wait_gone(processes: Sequence[ProcessId]) -> bool:
    deadline = time.monotonic() + _LEFTOVER_SECONDS
    while any(alive(process) for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@contextmanager
def _locked(paths: ClusterPaths) -> Iterator[None]:
    with paths.lock.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterError(f"another supervisor runs on {paths.root}") from None
        yield


if __name__ == "__main__":
    sys.exit(main())
