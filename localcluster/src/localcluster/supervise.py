"""The supervising process of one cluster: `python -m localcluster.supervise --state DIR [--owner-fd
N]`.

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
from localcluster.interrupts import Interrupts
from localcluster.layout import Layout
from localcluster.ports import pick_ports
from localcluster.processes import ProcessId, alive, identify, send
from localcluster.records import Records, read_status
from localcluster.specs import Backend
from localcluster.storage import read_json
from localcluster.supervisor import PortTakenError, Stage, Supervisor

REPOSITORY = Path(__file__).resolve().parents[3]
SOURCES = os.pathsep.join((str(REPOSITORY), str(REPOSITORY / "localcluster" / "src")))
"""What PYTHONPATH is for programs of this checkout: the product, and this distribution."""
_PORT_TRIES = 4
_LEFTOVER_SECONDS = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one cluster to its end; the exit status is 0 when it was asked to stop."""
    parser = argparse.ArgumentParser(prog="python -m localcluster.supervise", description=__doc__)
    parser.add_argument(
        "--state", type=Path, required=True, help="state folder, with cluster.json in it"
    )
    parser.add_argument(
        "--owner-fd", type=int, help="read end of a pipe; its end of file is the owner's death"
    )
    options = parser.parse_args(arguments)
    layout = Layout(options.state.resolve())
    interrupts = Interrupts(options.owner_fd)
    try:
        with _locked(layout), interrupts.installed():
            return _supervise(layout, interrupts)
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1


def _supervise(layout: Layout, interrupts: Interrupts) -> int:
    plan = read_json(layout.plan)
    if plan is None:
        raise ClusterError(f"{layout.plan} is missing or broken")
    clean_leftovers(layout)
    records = Records(layout, identify(os.getpid()))
    try:
        reason = _run(layout, plan, records, interrupts)
        records.cluster("stopped", reason)
        return 0
    except Exception as error:  # noqa: BLE001 - whatever it is, the owner waits for this line and must get it
        records.cluster("failed", str(error) or repr(error))
        return 1
    finally:
        for folder in (layout.data, layout.pki):
            shutil.rmtree(folder, ignore_errors=True)
        if plan.get("ephemeral") and interrupts.owner_ended:
            shutil.rmtree(layout.root, ignore_errors=True)  # nobody is left to do it


def _run(layout: Layout, plan: Mapping[str, Any], records: Records, interrupts: Interrupts) -> str:
    def attempt() -> str:
        return _attempt(layout, plan, Supervisor(layout, records, interrupts))

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


def _attempt(layout: Layout, plan: Mapping[str, Any], supervisor: Supervisor) -> str:
    shutil.rmtree(layout.data, ignore_errors=True)
    layout.data.mkdir(mode=0o700)
    config = components.agent_config(layout, plan["nodes"], plan.get("agent", {}))
    components.agent_config_path(layout).write_text(config)
    embedded = plan.get("backend") == Backend.EMBEDDED
    return supervisor.run(backend.stages(layout, plan) if embedded else _real_stages(layout, plan))


def _real_stages(layout: Layout, plan: Mapping[str, Any]) -> list[Stage]:
    binaries = Binaries(
        {name: Path(path) for name, path in plan["programs"].items()}, Path(plan["manifests"])
    )
    ports = Ports(*pick_ports(6, random.Random()))
    write_identities(layout, ports.api)
    return _stages(Recipe(layout, binaries, ports), bool(plan["nodes"]))


def _stages(recipe: Recipe, with_nodes: bool) -> list[Stage]:
    layout = recipe.layout

    def prepare() -> None:
        bootstrap.prepare(layout, recipe.ports.api, recipe.binaries.manifests)

    agent = [components.node_agent(layout, REPOSITORY)] if with_nodes else []
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


def clean_leftovers(layout: Layout) -> None:
    """End what a run that was killed may have left behind: exactly the recorded processes, nothing
    by name."""
    status = read_status(layout)
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
def _locked(layout: Layout) -> Iterator[None]:
    with layout.lock.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterError(f"another supervisor runs on {layout.root}") from None
        yield


if __name__ == "__main__":
    sys.exit(main())
