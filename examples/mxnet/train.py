"""Entry point of every role of the MXNet example: `python -m examples.mxnet.train`, role from
DMLC_ROLE.

MXNet runs a server's or a scheduler's whole life inside `import mxnet` and exits there, so the
signal handling has to stand before that import, and only workers get past it.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from optimus_trainer.save_on_stop import SaveOnStop


def positive(text: str) -> int:
    """Read a count of at least 1. Raises argparse's error, with a sentence."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(text)


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Read the command line; every role gets the same one. Ends the process, with a sentence, on a
    bad one."""
    parser = argparse.ArgumentParser(prog="examples.mxnet.train", description=__doc__)
    add = parser.add_argument
    add("--kvstore", choices=("dist_sync", "dist_async"), default="dist_sync")
    add("--checkpoint-dir", type=Path, required=True, help="a folder that all workers share")
    add("--prefix", default="model", help="how checkpoint files begin")
    add(
        "--global-batch",
        type=positive,
        default=128,
        help="examples per step of the whole job (dist_sync)",
    )
    add(
        "--worker-batch",
        type=positive,
        default=32,
        help="examples per step of one worker (dist_async)",
    )
    add("--examples", type=positive, default=6400, help="size of the data set")
    add("--steps", type=positive, default=600, help="steps of the whole job, all restarts together")
    add(
        "--checkpoint-steps",
        type=positive,
        default=50,
        help="steps from one checkpoint to the next",
    )
    add(
        "--log-steps",
        type=positive,
        default=10,
        help="batches of one worker from one Speedometer line to the next",
    )
    add(
        "--stop-seconds",
        type=float,
        default=10.0,
        help="from SIGTERM until a process ends: in that time worker 0 saves",
    )
    add("--stop-file", type=Path, default=None, help="end after the epoch in which it gets content")
    add("--learning-rate", type=float, default=0.1)
    add("--hidden", type=positive, default=48, help="width of the hidden layer")
    add("--seed", type=int, default=1)
    add(
        "--step-seconds",
        type=float,
        default=0.0,
        help="simulated time of one whole batch on one worker, slept",
    )
    settings = parser.parse_args(arguments)
    if (batch := max(settings.global_batch, settings.worker_batch)) > settings.examples:
        parser.error(
            f"a batch of {batch} is larger than the data set of {settings.examples} examples"
        )
    return settings


def main() -> int:
    """Run this process's role to its end; the exit status."""
    logging.basicConfig(level=logging.INFO)
    settings = parse_arguments(sys.argv[1:])
    stop = SaveOnStop(settings.stop_seconds)
    from examples.mxnet.worker import train

    try:
        train(settings, stop)
    except ValueError as refused:
        logging.getLogger().error("cannot train: %s", refused)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
