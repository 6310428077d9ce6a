"""Entry point of every role of the TensorFlow example: `python -m examples.tensorflow.train`, role
from TF_CONFIG.

Workers and parameter servers serve until they are ended; the chief drives the training and ends the
job."""

from __future__ import annotations

import argparse
import json
import os
import sys
from functools import partial
from pathlib import Path

from optimus_trainer.save_on_stop import SaveOnStop, wait_until_gone

_ROLES = ("chief", "worker", "ps")


def positive(text: str) -> int:
    """Read a count of at least 1. Raises argparse's error, with a sentence."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(text)


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Read the command line; every role gets the same one. Ends the process, with a sentence, on a
    bad one."""
    parser = argparse.ArgumentParser(prog="examples.tensorflow.train", description=__doc__)
    add = parser.add_argument
    add("--checkpoint-dir", type=Path, required=True, help="a folder that outlives the chief's pod")
    add(
        "--batch",
        type=positive,
        default=64,
        help="examples per step: what one worker computes at a time",
    )
    add("--examples", type=positive, default=6400, help="size of the data set")
    add("--steps", type=positive, default=600, help="steps of the whole job, all restarts together")
    add(
        "--checkpoint-steps",
        type=positive,
        default=50,
        help="steps from one checkpoint to the next",
    )
    add("--stop-file", type=Path, default=None, help="end at the checkpoint after it gets content")
    add("--learning-rate", type=float, default=0.1)
    add("--hidden", type=positive, default=48, help="width of the hidden layer")
    add("--seed", type=int, default=1)
    add(
        "--step-seconds",
        type=float,
        default=0.0,
        help="simulated time of one step on one worker, slept",
    )
    add(
        "--startup-seconds",
        type=float,
        default=600.0,
        help="the chief gives up when no first step ends for so long",
    )
    add(
        "--stall-seconds",
        type=float,
        default=120.0,
        help="the chief gives up when no later step ends for so long",
    )
    settings = parser.parse_args(arguments)
    if settings.batch > settings.examples:
        parser.error(
            f"a batch of {settings.batch} is larger than the data set of {settings.examples} "
            "examples"
        )
    return settings


def read_task(text: str) -> tuple[str, str]:
    """This process's role in the cluster of TF_CONFIG, and the chief's address. Raises ValueError,
    with a sentence, where it has no role here."""
    try:
        config = json.loads(text)
        role, cluster = config["task"]["type"], dict(config["cluster"])
    except (ValueError, TypeError, KeyError) as wrong:
        raise ValueError("TF_CONFIG does not describe a cluster and this process's task") from wrong
    if role not in _ROLES:
        raise ValueError(
            f'TF_CONFIG gives this process the role "{role}"; this example knows '
            f"{', '.join(_ROLES)}"
        )
    lacking = [name for name in _ROLES if not cluster.get(name)]
    if lacking:
        raise ValueError(
            f"TF_CONFIG lists no {' and no '.join(lacking)}; the job needs one of each"
        )
    return str(role), str(cluster["chief"][0])


def main() -> int:
    """Run this process's role to its end; the exit status."""
    settings = parse_arguments(sys.argv[1:])
    try:
        role, chief = read_task(os.environ.get("TF_CONFIG", ""))
    except ValueError as refused:
        print(f"cannot train: {refused}", file=sys.stderr, flush=True)
        return 2
    is_chief = role == "chief"
    stop = SaveOnStop(until=None if is_chief else partial(wait_until_gone, chief))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    if is_chief:
        from examples.tensorflow.chief import train

        return train(settings, stop)
    from examples.tensorflow.server import serve

    serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
