"""The flags of the trainer, read once; all roles of a job get the same ones."""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

from examples.light.costs import Costs
from examples.light.problem import FEATURES

_POSITIVE = ("global_batch_size", "worker_batch_size", "examples_per_epoch", "peer_timeout_seconds")


@dataclass(frozen=True)
class Settings:
    """What one job trains, and how; every field is a flag of the same name."""

    mode: str
    """`sync`: one update per step from all workers' shares; `async`: one per worker's batch, at
    once."""
    global_batch_size: int
    """Examples per update in sync mode, whatever the number of workers (M of the paper)."""
    worker_batch_size: int
    """Examples per update in async mode."""
    examples_per_epoch: int
    epochs: int
    """End after this many epochs; 0: train until stopped."""
    target_loss: float
    """End when an epoch's mean loss is at most this; 0: never."""
    learning_rate: float
    seed: int
    costs: Costs
    checkpoint_dir: Path | None
    """Where checkpoints are kept; without it a restart starts over."""
    stop_file: Path | None
    """End after the epoch in which this file gets content: the goal is met."""
    checkpoint_steps: int
    """Save every so many steps; 0: not by steps."""
    checkpoint_seconds: float
    """Save every so many seconds; 0: not by time."""
    saves_on_stop: int
    """0: trainer 0 does not save when it is told to stop."""
    log_steps: int
    log_seconds: float
    log_accuracy: int
    """1: print an accuracy with each loss: the part of the labels' variance that is explained."""
    bind: str
    """Address to listen on; empty: loopback where the task's own name means loopback, else all."""
    peer_timeout_seconds: float
    """For how long a peer may be away: the pods of a job start at different times."""

    @property
    def batch_size(self) -> int:
        """Examples per update."""
        return self.global_batch_size if self.mode == "sync" else self.worker_batch_size

    @property
    def last_step(self) -> int | None:
        """The step that completes the last epoch; None: no end is set."""
        return -(-self.epochs * self.examples_per_epoch // self.batch_size) if self.epochs else None


def parse_settings(arguments: list[str]) -> Settings:
    """Read the flags; argparse ends the program with code 2 and a sentence where one is wrong."""
    parser = _parser()
    given = parser.parse_args(arguments)
    problems = _problems(given)
    if problems:
        parser.error("; ".join(problems))
    costs = Costs(
        example_seconds=given.example_seconds,
        step_seconds=given.step_seconds,
        link_bits_per_second=given.link_mbit * 1e6,
        message_seconds=given.message_seconds,
        model_bytes=max(FEATURES * 8, round(given.model_mbytes * 1e6)),
    )
    stated = {"example_seconds", "step_seconds", "link_mbit", "message_seconds", "model_mbytes"}
    fields = {name: value for name, value in vars(given).items() if name not in stated}
    return Settings(costs=costs, **fields)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "examples.light",
        description=(
            "One task of a parameter-server training job; the role is in TF_CONFIG or DMLC_*."
        ),
    )
    add = parser.add_argument
    add("--mode", choices=["sync", "async"], default="sync")
    add("--global-batch-size", type=int, default=64, help="examples per update, sync (default 64)")
    add("--worker-batch-size", type=int, default=16, help="examples per update, async (default 16)")
    add("--examples-per-epoch", type=int, default=1280)
    add("--epochs", type=int, default=0, help="end after this many; 0: run until stopped")
    add(
        "--target-loss",
        type=float,
        default=0.0,
        help="end when an epoch's mean loss is at most this; 0: never",
    )
    add("--learning-rate", type=float, default=0.01)
    add("--seed", type=int, default=1)
    add("--example-seconds", type=float, default=0.0, help="simulated compute time of one example")
    add(
        "--step-seconds", type=float, default=0.0, help="simulated constant time of a worker's step"
    )
    add(
        "--link-mbit",
        type=float,
        default=0.0,
        help="simulated rate of each task's link; 0: unlimited",
    )
    add("--message-seconds", type=float, default=0.0, help="simulated time to handle a message")
    add("--model-mbytes", type=float, default=0.0, help="simulated size of the model")
    add("--checkpoint-dir", type=Path, default=None)
    add("--stop-file", type=Path, default=None, help="end after the epoch in which it gets content")
    add("--checkpoint-steps", type=int, default=0)
    add("--checkpoint-seconds", type=float, default=0.0)
    add(
        "--saves-on-stop",
        type=int,
        choices=[0, 1],
        default=1,
        help="0: trainer 0 does not save when it is told to stop",
    )
    add("--log-steps", type=int, default=0, help="log every so many steps, besides --log-seconds")
    add("--log-seconds", type=float, default=2.0)
    add("--log-accuracy", type=int, choices=[0, 1], default=0, help="1: an accuracy with each loss")
    add("--bind", default="", help="address to listen on")
    add("--peer-timeout-seconds", type=float, default=600.0)
    return parser


def _problems(given: argparse.Namespace) -> list[str]:
    problems = [
        f"{_flag(name)} is {value}: it must be a number that is not negative"
        for name, value in vars(given).items()
        if isinstance(value, int | float) and (value < 0 or not math.isfinite(value))
    ]
    problems += [
        f"{_flag(name)} must be more than 0" for name in _POSITIVE if vars(given)[name] == 0
    ]
    if (given.checkpoint_steps or given.checkpoint_seconds) and given.checkpoint_dir is None:
        problems.append("--checkpoint-steps and --checkpoint-seconds need --checkpoint-dir")
    return problems


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
