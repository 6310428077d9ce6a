"""`python -m localcluster.embedded.scheduler --config FILE`: schedule until SIGTERM.

It takes the flags that kube-scheduler is given in the manifests and reads the same configuration
file."""

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final

import yaml

from localcluster.embedded.scheduler.configuration import (
    BadConfiguration,
    Configuration,
    read_configuration,
)
from localcluster.embedded.scheduler.lease import Election
from localcluster.embedded.scheduler.loop import Scheduler
from localcluster.tls_server import TlsServer
from optimus.kube.client import Client, connect
from optimus.kube.errors import KubeError

_IGNORED: Final = (
    *("authentication-kubeconfig", "authorization-kubeconfig", "kube-api-qps", "kube-api-burst"),
    *("v", "profiling"),
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
    scheduler.run()
    if election:
        election.stop()
    return 0


def _give_up() -> None:
    # As kube-scheduler does: its caches are void, and its supervisor starts it again.
    logging.getLogger(__name__).error("leaderelection lost")
    os._exit(1)


def serve_health(address: str, port: int, ready: Callable[[], bool]) -> TlsServer:
    """Serve /livez, /healthz and /readyz on a thread of their own. Raises OSError."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_known = self.path.partition("?")[0] in ("/livez", "/healthz", "/readyz")
            status = 404 if not is_known else 200 if ready() or "ready" not in self.path else 503
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the base class names it so
            """Keep quiet."""

    return TlsServer((address, port), Handler)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m localcluster.embedded.scheduler",
        description="Stand in for kube-scheduler. Prints `ready` once it knows the cluster.",
    )
    add = parser.add_argument
    add("--config", type=Path, help="a KubeSchedulerConfiguration; else the default scheduler's")
    add("--kubeconfig", type=Path, help="instead of the one that the configuration names")
    add("--leader-elect", default="", choices=["true", "false", ""], help="false: needs no Lease")
    add("--bind-address", default="127.0.0.1", help="where health is served")
    add("--secure-port", type=int, default=0, help="where health is served; 0: nowhere")
    for name in _IGNORED:
        add(f"--{name}", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
