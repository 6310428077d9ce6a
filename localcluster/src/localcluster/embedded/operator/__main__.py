"""`python -m localcluster.embedded.operator --kubeconfig FILE`: stand in for the training operator
until SIGTERM."""

import argparse
import logging
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from localcluster.embedded.operator.loop import Operator
from optimus.kube.client import connect
from optimus.kube.errors import KubeError


def main(arguments: list[str] | None = None) -> int:
    """Run; return 0 after an orderly end, 2 when the kubeconfig cannot be used."""
    parser = argparse.ArgumentParser(
        prog="python -m localcluster.embedded.operator",
        description=(
            "Stand in for the Kubeflow training operator: TFJobs and MXJobs. Prints "
            "`ready` once it works."
        ),
    )
    parser.add_argument("--kubeconfig", type=Path, required=True)
    chosen = parser.parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        client = connect(chosen.kubeconfig, user_agent="embedded-training-operator")
    except KubeError as error:
        print(f"the operator cannot start: {error.sentence}", file=sys.stderr)
        return 2
    operator = Operator(client)

    def end(_signal: int, _frame: FrameType | None) -> None:
        operator.stop()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    threading.Thread(target=_announce, args=(operator,), daemon=True).start()
    operator.run()
    return 0


def _announce(operator: Operator) -> None:
    while not operator.ready:
        threading.Event().wait(0.02)
    print("ready", flush=True)


if __name__ == "__main__":
    sys.exit(main())
