"""The command line of the local cluster: `python -m localcluster up | down | status`."""

import argparse
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from localcluster.binaries.locate import KUBERNETES_VARIABLE
from localcluster.binaries.modules import (
    CONTROL_PLANES,
    DEFAULT_KUBERNETES,
    DEFAULT_OPERATOR,
    OPERATORS,
)
from localcluster.cluster import LocalCluster
from localcluster.environments import framework_environments
from localcluster.errors import ClusterError, LocalClusterError
from localcluster.paths import ClusterPaths
from localcluster.progress import PlainProgress
from localcluster.specs import Backend, NodeSpec, numbered_nodes, parse_capacity
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
        return int(options.run(options))
    except LocalClusterError as error:
        print(f"localcluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("localcluster: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader, `head` perhaps, has seen enough. Python would complain once more at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"localcluster: {where}{error.strerror or error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m localcluster",
        description=(
            "A Kubernetes control plane on this machine, whose nodes run pods as local processes."
        ),
    )
    commands = parser.add_subparsers(title="commands", required=True)
    up = commands.add_parser("up", help="start a cluster and leave it running")
    _add_up_options(up)
    up.set_defaults(run=_up)
    down = commands.add_parser("down", help="stop a cluster and remove its files")
    down.set_defaults(run=_down)
    status = commands.add_parser("status", help="show what runs; exit status 3 when nothing does")
    status.set_defaults(run=_status)
    for command in (up, down, status):
        command.add_argument(
            "--name", type=_name, default="local", help="which cluster (default: %(default)s)"
        )
        command.add_argument(
            "--state", type=Path, metavar="DIR", help="its state folder (default: by its name)"
        )
    return parser


def _add_up_options(up: argparse.ArgumentParser) -> None:
    node = "capacity of a node, as in cpu=4,memory=8Gi,nvidia.com/gpu=2: given once that of all "
    operator, release = "version of the real one (default: %(default)s)", "release of the real one"
    add = up.add_argument
    add("--nodes", type=_count, metavar="N", help="how many equal nodes (default: 3)")
    add(
        "--node",
        type=_capacity,
        action="append",
        metavar="CAPACITY",
        help=f"{node}nodes, given several times one node each",
    )
    stand_ins = (
        "stand-ins in Python instead of the real programs: up in a second, no rights checked"
    )
    add("--embedded", action="store_true", help=stand_ins)
    add("--training-operator", choices=list(OPERATORS), default=DEFAULT_OPERATOR, help=operator)
    default = f"(default: ${KUBERNETES_VARIABLE} or {DEFAULT_KUBERNETES})"
    add("--kubernetes", choices=list(CONTROL_PLANES), help=f"{release} {default}")
    frameworks = "prepare the environments of the MXNet and TensorFlow examples, too (minutes)"
    add("--frameworks", action="store_true", help=frameworks)


def _up(options: argparse.Namespace) -> int:
    paths, progress = _paths(options), PlainProgress()
    with locked(paths.root.with_name(f"{paths.root.name}.lock"), progress):
        control.refuse_if_running(paths)
        cluster = LocalCluster(
            options.name,
            _nodes(options.nodes, options.node or []),
            state_dir=paths.root,
            images=framework_environments(progress) if options.frameworks else None,
            backend=Backend.EMBEDDED if options.embedded else Backend.REAL,
            training_operator=options.training_operator,
            kubernetes=options.kubernetes,
        )
        try:
            cluster.start(owned=False)
        except ClusterError as error:
            raise ClusterError(f"{error}\nlogs: {paths.logs}") from error
    _say_running(paths, None if options.embedded else cluster.binaries["kubectl"].parent)
    return 0


def _say_running(paths: ClusterPaths, programs: Path | None) -> None:
    print(f"kubeconfig: {paths.kubeconfig}")
    print(f"logs:       {paths.logs}")
    print("use it:     export KUBECONFIG=" + shlex.quote(str(paths.kubeconfig)))
    if shutil.which("kubectl") is None and programs is None:
        print("            (there is no kubectl on this machine; one of the last years will do)")
        return
    if shutil.which("kubectl") is None:
        print(f"            export PATH=$PATH:{shlex.quote(str(programs))}")
    print("            kubectl get nodes")


def _down(options: argparse.Namespace) -> int:
    paths = _paths(options)
    status = read_status(paths)
    if status is None and not paths.plan.exists():
        print(f"no cluster in {paths.root}")
        return 0
    with PlainProgress().step(f"stopping the cluster in {paths.root}"):
        control.stop(paths, status.supervisor if status else None)
        shutil.rmtree(paths.root, ignore_errors=True)
    return 0


def _status(options: argparse.Namespace) -> int:
    paths = _paths(options)
    status = read_status(paths)
    if status is None:
        print(f"no cluster in {paths.root}; `python -m localcluster up` starts one")
        return _NOT_RUNNING
    _print_status(paths, status)
    return 0 if status.phase == "running" and status.supervised else _NOT_RUNNING


def _print_status(paths: ClusterPaths, status: ClusterStatus) -> None:
    lost = status.phase in {"starting", "running", "stopping"} and not status.supervised
    text = (
        f"{status.phase}, but its supervisor is gone: run `down`, then `up`"
        if lost
        else status.phase
    )
    print(f"cluster:    {text}{': ' if status.reason else ''}{status.reason}")
    spec = control.read_spec(paths)
    if spec is not None:
        print(f"back end:   {spec.backend}, {len(spec.nodes)} nodes")
    print(f"kubeconfig: {paths.kubeconfig}")
    print(f"{'COMPONENT':<26}{'PHASE':<14}{'PID':<10}{'RESTARTS':<10}LAST EXIT")
    for name, each in status.components.items():
        pid = each.process.pid if each.process else "-"
        print(f"{name:<26}{each.phase:<14}{pid!s:<10}{each.restarts:<10}{each.last_exit or '-'}")
    print(f"last events:\n{control.tail(paths.log('supervisor'), _SHOWN_EVENTS)}")


def _paths(options: argparse.Namespace) -> ClusterPaths:
    folder: Path = options.state or state_root() / options.name
    return ClusterPaths(Path(os.path.abspath(folder)))  # noqa: PTH100 - resolve() would follow a link that is the user's


def _nodes(count: int | None, capacities: Sequence[dict[str, str]]) -> tuple[NodeSpec, ...]:
    if len(capacities) <= 1:
        return numbered_nodes(3 if count is None else count, capacities[0] if capacities else {})
    if count not in {None, len(capacities)}:
        raise ClusterError(
            f"--nodes {count} does not fit {len(capacities)} times --node; leave --nodes out"
        )
    return tuple(
        NodeSpec(f"node-{number}", each) for number, each in enumerate(capacities, start=1)
    )


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
