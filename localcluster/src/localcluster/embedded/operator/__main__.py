"""`python -m localcluster.embedded.operator --kubeconfig FILE`: run until SIGTERM."""

import argparse
import logging
import signal
import sys
from pathlib import Path

from localcluster.embedded.operator.loop import Operator
from optimus.kube.client import connect
from optimus.kube.errors import KubeError


def main(arguments: list[str] | None = None) -> int:
    """Run; return 0 after an orderly end, 2 when the kubeconfig cannot be used."""
    parser = argparse.ArgumentParser(
        prog="python -m localcluster.embedded.operator",
        description="Stand in for the Kubeflow training operator. Prints `ready` once it works.",
    )
    parser.add_argument("--kubeconfig", type=Path, required=True)
    options = parser.parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        operator = Operator(connect(options.kubeconfig, user_agent="embedded-training-operator"))
    except KubeError as error:
        print(f"the operator cannot start: {error.sentence}", file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: operator.stop())
    operator.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
