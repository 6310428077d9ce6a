"""The command line of the local cluster: `python -m localcluster up | down | status`."""

import argparse
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from localcluster.cluster import LocalCluster
from localcluster.errors import ClusterError, LocalClusterError
from localcluster.paths import ClusterPaths
from localcluster.progress import PlainProgress
from localcluster.specs import Backend, numbered_nodes, parse_capacity
from localcluster.storage import locked, state_root
from localcluster.supervisor import control
from localcluster.supervisor.status import ClusterStatus, read_status

_SHOWN_EVENTS = 8
_NAME = re.compile(r"[a-z0-9][-a-z0-9]*")
_NOT_RUNNING = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; errors are one line on stderr and exit status 1, bad usage is 2."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options, _paths(options)))
    except LocalClusterError as error:
        print(f"localcluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("localcluster: interrupted", file=sys.stderr)
        return 130
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"localcluster: {where}{error.strerror or error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m localcluster",
        description="A Kubernetes control plane on this machine; pods are local processes.",
    )
    commands = parser.add_subparsers(title="commands", required=True)
    up = commands.add_parser("up", help="start a cluster and leave it running")
    up.add_argument("--nodes", type=_count, default=3, metavar="N", help="default: %(default)s")
    capacity = "of each node, as in cpu=4,memory=8Gi,nvidia.com/gpu=2"
    up.add_argument("--node", type=_capacity, default={}, metavar="CAPACITY", help=capacity)
    stand_ins = "stand-ins in Python instead of the real programs: up in a second, no rights"
    up.add_argument("--embedded", action="store_true", help=stand_ins)
    up.set_defaults(run=_up)
    down = commands.add_parser("down", help="stop a cluster and remove its files")
    down.set_defaults(run=_down)
    status = commands.add_parser("status", help="show what runs; exit status 3 when nothing does")
    status.set_defaults(run=_status)
    for command in (up, down, status):
        name, state = "which cluster (default: %(default)s)", "its state folder (default: by name)"
        command.add_argument("--name", type=_name, default="local", help=name)
        command.add_argument("--state", type=Path, metavar="DIR", help=state)
    return parser


def _up(options: argparse.Namespace, paths: ClusterPaths) -> int:
    with locked(paths.root.with_name(f"{paths.root.name}.lock"), PlainProgress()):
        control.refuse_if_running(paths)
        backend = Backend.EMBEDDED if options.embedded else Backend.REAL
        nodes = numbered_nodes(options.nodes, options.node)
        cluster = LocalCluster(options.name, nodes, state_dir=paths.root, backend=backend)
        try:
            cluster.start(owned=False)
        except ClusterError as error:
            raise ClusterError(f"{error}\nlogs: {paths.logs}") from error
    print(f"kubeconfig: {paths.kubeconfig}\nlogs:       {paths.logs}")
    print("use it:     export KUBECONFIG=" + shlex.quote(str(paths.kubeconfig)))
    if shutil.which("kubectl") is None and options.embedded:
        print("            (there is no kubectl on this machine; one of the last years will do)")
    elif shutil.which("kubectl") is None:
        programs = shlex.quote(str(cluster.binaries["kubectl"].parent))
        print(f"            export PATH=$PATH:{programs}")
    return 0


def _down(options: argparse.Namespace, paths: ClusterPaths) -> int:
    del options
    status = read_status(paths)
    if status is None and not paths.plan.exists():
        print(f"no cluster in {paths.root}")
        return 0
    with PlainProgress().step(f"stopping the cluster in {paths.root}"):
        control.stop(paths, status.supervisor if status else None)
        shutil.rmtree(paths.root, ignore_errors=True)
    return 0


def _status(options: argparse.Namespace, paths: ClusterPaths) -> int:
    del options
    status = read_status(paths)
    if status is None:
        print(f"no cluster in {paths.root}; `python -m localcluster up` starts one")
        return _NOT_RUNNING
    _print_status(paths, status)
    return 0 if status.phase == "running" and status.supervised else _NOT_RUNNING


def _print_status(paths: ClusterPaths, status: ClusterStatus) -> None:
    lost = status.phase in {"starting", "running", "stopping"} and not status.supervised
    hint = ", but its supervisor is gone: run `down`, then `up`" if lost else ""
    print(f"cluster:    {status.phase}{hint}{': ' if status.reason else ''}{status.reason}")
    print(f"kubeconfig: {paths.kubeconfig}")
    print(f"{'COMPONENT':<26}{'PHASE':<14}{'PID':<10}{'RESTARTS':<10}LAST EXIT")
    for name, each in status.components.items():
        pid = each.process.pid if each.process else "-"
        print(f"{name:<26}{each.phase:<14}{pid!s:<10}{each.restarts:<10}{each.last_exit or '-'}")
    print(f"last events:\n{control.tail(paths.log('supervisor'), _SHOWN_EVENTS)}")


def _paths(options: argparse.Namespace) -> ClusterPaths:
    folder: Path = options.state or state_root() / options.name
    return ClusterPaths(Path(os.path.abspath(folder)))  # noqa: PTH100 - resolve() would follow a link that is the user's


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no name: lower-case letters, digits and '-' are"
        )
    return text


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) > 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of nodes between 0 and 100")
    return int(text)


def _capacity(text: str) -> dict[str, str]:
    try:
        return parse_capacity(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


if __name__ == "__main__":
    sys.exit(main())
