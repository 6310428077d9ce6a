"""`python -m localcluster.node --config FILE`: run the node agent until SIGTERM or SIGINT."""

import argparse
import logging
import resource
import signal
import sys
from pathlib import Path

from localcluster.node.agent import Agent
from localcluster.node.config import BadConfig, load_config
from optimus.kube.errors import KubeError

_FILES = 65536


def main(arguments: list[str] | None = None) -> int:
    """Run the agent; 0 after an orderly end, 2 when the configuration cannot be used."""
    parser = argparse.ArgumentParser(
        prog="python -m localcluster.node",
        description="Register nodes with a Kubernetes API server and run their pods as local "
        "processes. Prints `ready` once all nodes are registered.",
    )
    parser.add_argument(
        "--config", type=Path, required=True, help="JSON file: kubeconfig, state_dir, images, nodes"
    )
    options = parser.parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        agent = Agent(load_config(options.config))
    except (BadConfig, KubeError, ValueError, OSError) as error:
        print(f"the node agent cannot start: {error}", file=sys.stderr)
        return 2
    # Every container takes four files. Not beyond what a program may loop over.
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    permitted = _FILES if most == resource.RLIM_INFINITY else min(most, _FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, permitted), most))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.stop())
    agent.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
