"""`python -m localcluster.node --config FILE`: run the node agent until SIGTERM or SIGINT."""

import argparse
import logging
import signal
import sys
from pathlib import Path
from types import FrameType

from localcluster.node.agent import Agent
from localcluster.node.config import BadConfig, load_config


def main(arguments: list[str] | None = None) -> int:
    """Run the agent; return 0 after an orderly end, 2 when the configuration cannot be used."""
    parser = argparse.ArgumentParser(
        prog="python -m localcluster.node",
        description="Register nodes with a Kubernetes API server and run their pods as local processes. "
        "Prints `ready` once all nodes are registered.",
    )
    parser.add_argument("--config", type=Path, required=True, help="JSON file: kubeconfig, state_dir, images, nodes")
    chosen = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        agent = Agent(load_config(chosen.config))
    except (BadConfig, ValueError, OSError) as error:
        print(f"the node agent cannot start: {error}", file=sys.stderr)
        return 2

    def end(_signal: int, _frame: FrameType | None) -> None:
        agent.stop()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    agent.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
