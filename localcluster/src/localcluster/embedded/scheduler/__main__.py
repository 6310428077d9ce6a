"""`python -m localcluster.embedded.scheduler --config FILE`: schedule until SIGTERM.

It takes the flags that kube-scheduler is given in the manifests and reads the same configuration
file."""

import argparse
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from localcluster.embedded.ready import print_when_ready
from localcluster.embedded.scheduler.configuration import (
    BadConfiguration,
    Configuration,
    read_configuration,
)
from localcluster.embedded.scheduler.lease import Election
from localcluster.embedded.scheduler.loop import Scheduler
from localcluster.embedded.scheduler.serving import serve_health
from optimus.kube.client import Client, connect
from optimus.kube.errors import KubeError

_IGNORED = (
    "authentication-kubeconfig",
    "authorization-kubeconfig",
    "kube-api-qps",
    "kube-api-burst",
    "v",
    "profiling",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; return 0 after an orderly end, 1 when leadership was lost, 2 when it cannot start."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        configuration = (
            read_configuration(options.config.read_text()) if options.config else Configuration()
        )
        client = connect(
            options.kubeconfig or configuration.kubeconfig, user_agent="embedded-kube-scheduler"
        )
    except (BadConfiguration, KubeError, OSError, yaml.YAMLError) as error:
        print(f"the scheduler cannot start: {error}", file=sys.stderr)
        return 2
    return _run(client, configuration, options)


def _run(client: Client, configuration: Configuration, options: argparse.Namespace) -> int:
    elects = configuration.election is not None and options.leader_elect != "false"
    election = (
        Election(client, configuration.election, _give_up)
        if elects and configuration.election
        else None
    )
    scheduler = Scheduler(
        client, configuration, may_work=(lambda: election.leads) if election else lambda: True
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: scheduler.stop())
    if options.secure_port:
        serve_health(options.bind_address, options.secure_port, lambda: scheduler.ready)
    if election:
        election.start()
    print_when_ready(lambda: scheduler.ready)
    scheduler.run()
    if election:
        election.stop()
    return 0


def _give_up() -> None:
    # As kube-scheduler does: its caches are void, and its supervisor starts it again.
    logging.getLogger(__name__).error("leaderelection lost")
    os._exit(1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m localcluster.embedded.scheduler",
        description=(
            "Stand in for kube-scheduler, extenders included. Prints `ready` once it "
            "knows the cluster."
        ),
    )
    parser.add_argument(
        "--config",
        type=Path,
        help="a KubeSchedulerConfiguration; without one, the default scheduler's",
    )
    parser.add_argument(
        "--kubeconfig", type=Path, help="instead of the one that the configuration names"
    )
    parser.add_argument(
        "--leader-elect", default="", choices=["true", "false", ""], help="false: needs no Lease"
    )
    parser.add_argument("--bind-address", default="127.0.0.1", help="where health is served")
    parser.add_argument(
        "--secure-port", type=int, default=0, help="where health is served; 0: nowhere"
    )
    for name in _IGNORED:
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
