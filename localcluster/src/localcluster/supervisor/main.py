"""The supervising process of one cluster: `supervisor.main --state DIR [--owner-fd N]`.

It reads `cluster.json` from the state folder, ends what an earlier run may have left, starts
everything, and stays until it is asked to stop or its owner ends. `localcluster.cluster` starts it;
it is not run by hand."""

import argparse
import fcntl
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from localcluster import bootstrap, components, webhook
from localcluster.binaries.locate import Binaries
from localcluster.components import Component, Ports, Recipe
from localcluster.embedded import backend
from localcluster.errors import ClusterError
from localcluster.identities import write_identities
from localcluster.paths import ClusterPaths
from localcluster.ports import pick_ports
from localcluster.processes import identify
from localcluster.supervisor.control import ClusterSpec, read_spec
from localcluster.supervisor.runner import PortTakenError, Stage, Supervisor
from localcluster.supervisor.status import StatusWriter, end_recorded

_PORT_TRIES = 4


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
    try:
        with _locked(paths):
            return _supervise(paths, options.owner_fd)
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1


def _supervise(paths: ClusterPaths, owner_fd: int | None) -> int:
    spec = read_spec(paths)
    if spec is None:
        raise ClusterError(f"{paths.plan} is missing or broken")
    end_recorded(paths)
    status = StatusWriter(paths, identify(os.getpid()))
    supervisor = Supervisor(paths, status, owner_fd)
    supervisor.install_handlers()
    has_webhook = spec.binaries is not None and webhook.is_in(spec.binaries.manifests)
    try:
        with webhook.announced() if has_webhook else nullcontext():
            for _ in range(_PORT_TRIES):
                try:
                    status.cluster("stopped", _attempt(paths, spec, supervisor))
                    return 0
                except PortTakenError as error:
                    status.event("cluster", "starting again with other ports", str(error))
        raise ClusterError("other programs took the ports, again and again")
    except Exception as error:  # noqa: BLE001 - whatever it is, the owner waits for this line and must get it
        status.cluster("failed", str(error) or repr(error))
        return 1
    finally:
        for folder in (paths.data, paths.pki):
            shutil.rmtree(folder, ignore_errors=True)
        if spec.ephemeral and supervisor.owner_ended:
            shutil.rmtree(paths.root, ignore_errors=True)  # its owner cannot do it


def _attempt(paths: ClusterPaths, spec: ClusterSpec, supervisor: Supervisor) -> str:
    shutil.rmtree(paths.data, ignore_errors=True)
    paths.data.mkdir(mode=0o700)
    config = components.agent_config(paths, spec.nodes, spec.agent)
    components.agent_config_path(paths).write_text(config)
    agent = [components.node_agent(paths)] if spec.nodes else []
    if spec.binaries is None:
        return supervisor.run(backend.stages(paths, agent))
    stages = _real_stages(paths, spec.binaries, agent, audit=spec.audit)
    return supervisor.run([_with_flags(stage, spec.flags) for stage in stages])


def _real_stages(
    paths: ClusterPaths, binaries: Binaries, agent: Sequence[Component], *, audit: bool
) -> list[Stage]:
    ports = Ports(*pick_ports(7))
    write_identities(paths, ports.api)
    if webhook.is_in(binaries.manifests):
        webhook.write_certificate(paths.pki)
    recipe = Recipe(paths, binaries, ports, audit)
    paths.audit_policy.write_text(components.AUDIT_POLICY)
    return [
        Stage([components.etcd(recipe)]),
        Stage(
            [components.api_server(recipe)],
            lambda: bootstrap.prepare(paths, binaries.manifests, ports.webhook),
        ),
        Stage(
            [
                components.controller_manager(recipe),
                components.stock_scheduler(recipe),
                components.training_operator(recipe),
                *agent,
            ]
        ),
    ]


def _with_flags(stage: Stage, flags: Mapping[str, Sequence[str]]) -> Stage:
    components = [
        replace(each, command=(*each.command, *flags.get(each.name, ())))
        for each in stage.components
    ]
    return replace(stage, components=components)


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
