"""Asynchronous training whose workers come and go: `python -m examples.tensorflow.dynamic_workers`.

With `enableDynamicWorker` the operator tells a worker of itself and of the parameter servers, and a
parameter server of itself alone. So nothing here needs a list of the workers:

1. A parameter server is TensorFlow's own server. It holds a part of the variables.
2. A worker opens a session on each of them, and never serves. For each step it reads the variables,
   computes the gradients in its own process, and adds them to what is there by then (Dean et al.
   2012, downpour SGD).
3. Worker 0 sets the variables, from the newest checkpoint where there is one, prints the losses and
   saves. It is the one that never goes.
4. The first parameter server counts the batches that workers take, so that no two train the same.
   A batch that a worker took and did not end is lost or repeated at the next restart.

Neither ParameterServerStrategy nor a session on the workers' own cluster can do that: the first
needs the list of all workers, in the second a parameter server fetches from workers by their
addresses.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf  # type: ignore[import-untyped]  # lives only in the environment of this example

from examples.tensorflow.model import Dataset, Mlp, Order
from optimus_trainer.save_on_stop import SaveOnStop

_LINGER_SECONDS = 8.0
"""How long a parameter server outlives SIGTERM: worker 0 reads it for the last checkpoint."""

_LOOK_SECONDS = 0.5


class Shard:
    """The variables that one parameter server holds, and, of the first, where the training is: the
    job's step, the step and the text of the checkpoint that it began with, and how many batches are
    taken since."""

    def __init__(self, address: str, variables: Mapping[str, Any], learning_rate: float) -> None:
        v1 = tf.compat.v1
        with tf.Graph().as_default() as graph:
            held = {
                name: v1.get_variable(name, shape, use_resource=True)
                for name, shape in variables.items()
            }
            self._step, self._first, taken = (
                v1.get_variable(name, (), tf.int64, use_resource=True)
                for name in ("step", "first", "taken")
            )
            self._left = v1.get_variable("left", (), tf.string, use_resource=True)
            self._values = {name: each.read_value() for name, each in held.items()}
            self._fed = {
                name: v1.placeholder(tf.float32, each.shape) for name, each in held.items()
            }
            self._fed_step, self._fed_left = v1.placeholder(tf.int64), v1.placeholder(tf.string)
            pushes = [
                each.assign_sub(learning_rate * self._fed[name]) for name, each in held.items()
            ]
            with tf.control_dependencies(pushes):
                self._push = self._step.assign_add(1)
            sets = [each.assign(self._fed[name]) for name, each in held.items()]
            steps = [each.assign(self._fed_step) for each in (self._step, self._first)]
            self._set = [*sets, *steps, self._left.assign(self._fed_left), taken.assign(0)]
            self._take = taken.assign_add(1)
            self._missing = v1.report_uninitialized_variables()
        self._session = v1.Session(f"grpc://{address}", graph=graph)

    @property
    def is_set(self) -> bool:
        """Whether its variables have values."""
        return not len(self._session.run(self._missing))

    def set(self, values: Mapping[str, Any], step: int, left: str) -> None:
        """Give the variables these values."""
        fed = {self._fed[name]: values[name] for name in self._fed}
        self._session.run(self._set, {**fed, self._fed_step: step, self._fed_left: left})

    def began(self) -> tuple[int, str | None]:
        """The step with which the training began, and what was left of the epoch's data."""
        first, left = self._session.run([self._first, self._left])
        return int(first), left.decode() or None

    def take(self) -> int:
        """The number of a batch that nobody else takes, counted from 0 since the beginning."""
        return int(self._session.run(self._take)) - 1

    def pull(self) -> tuple[dict[str, Any], int]:
        """The values of its variables, and the step."""
        values, step = self._session.run([self._values, self._step])
        return values, int(step)

    def push(self, gradients: Mapping[str, Any]) -> int:
        """Subtract the gradients; the step that this was."""
        fed = {self._fed[name]: gradients[name] for name in self._fed}
        return int(self._session.run(self._push, fed))


class Worker:
    """One worker; the one of index 0 sets, prints and saves."""

    def __init__(self, settings: argparse.Namespace, index: int, servers: Sequence[str]) -> None:
        self._settings, self._leads = settings, index == 0
        self._model = Mlp(settings.hidden, settings.seed)
        self._data = Dataset(settings.examples, settings.seed)
        self._variables = dict(enumerate(self._model.trainable_variables))
        shapes = {f"v{key}": each.shape for key, each in self._variables.items()}
        self._shards = [
            Shard(
                address,
                {name: shapes[name] for name in list(shapes)[number :: len(servers)]},
                settings.learning_rate,
            )
            for number, address in enumerate(servers)
        ]
        self._file = settings.checkpoint_dir / "variables.npz"
        self._saved = 0

    def train(self, stop: SaveOnStop) -> None:
        """Train to the job's last step, or until told to stop."""
        step = self._begin()
        while step < self._settings.steps and not stop.told:
            time.sleep(self._settings.step_seconds)
            values, step = self._pull()
            loss, gradients = self._gradients(values, self._order.of_step(self._shards[0].take()))
            for shard in reversed(self._shards):  # the first, last, counts the step
                step = shard.push(gradients)
            if self._leads:
                print(f"epoch={self._order.epoch_of(step)} step={step} loss={loss:.6f}", flush=True)
                if step - self._saved >= self._settings.checkpoint_steps:
                    self._save()
        if self._leads:
            self._save()
        if stop.told:
            stop.leave()

    def _begin(self) -> int:
        if self._leads and not all(shard.is_set for shard in self._shards):
            values, step, left = self._initial()
            for shard in self._shards:
                shard.set(values, step, left)
        while not all(shard.is_set for shard in self._shards):
            time.sleep(_LOOK_SECONDS)
        _, step = self._pull()
        self._saved = step
        settings = self._settings
        self._first, saved = self._shards[0].began()
        self._order = Order(settings.examples, settings.batch, settings.seed, saved)
        print(f"the first step is {step + 1}", flush=True)
        return step

    def _initial(self) -> tuple[dict[str, Any], int, str]:
        if not self._file.exists():
            return {f"v{key}": each.numpy() for key, each in self._variables.items()}, 0, ""
        with np.load(self._file) as stored:
            values = {name: stored[name] for name in stored.files}
        return values, int(values.pop("step")), str(values.pop("left"))

    def _pull(self) -> tuple[dict[str, Any], int]:
        values, step = self._shards[0].pull()
        for shard in self._shards[1:]:
            values |= shard.pull()[0]
        return values, step

    def _gradients(self, values: Mapping[str, Any], chosen: Any) -> tuple[float, dict[str, Any]]:
        for key, variable in self._variables.items():
            variable.assign(values[f"v{key}"])
        with tf.GradientTape() as tape:
            loss = self._model.loss(*self._data.of(chosen))
        found = tape.gradient(loss, list(self._variables.values()))
        return float(loss), {f"v{key}": each.numpy() for key, each in enumerate(found)}

    def _save(self) -> None:
        """Save a checkpoint; the line is printed once it is complete."""
        values, step = self._pull()
        new = self._file.with_suffix(".new.npz")
        self._file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(new, step=step, left=self._order.saved(step - self._first), **values)
        new.replace(self._file)
        self._saved = step
        print(f"checkpoint={step}", flush=True)


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Read the command line; every role gets the same one."""
    parser = argparse.ArgumentParser(prog="examples.tensorflow.dynamic_workers")
    add = parser.add_argument
    add("--checkpoint-dir", type=Path, required=True, help="a folder that outlives worker 0's pod")
    add("--batch", type=int, default=64, help="examples per step of one worker")
    add("--examples", type=int, default=6400, help="size of the data set")
    add("--steps", type=int, default=600, help="steps of all workers together")
    add("--checkpoint-steps", type=int, default=50, help="steps from one checkpoint to the next")
    add("--learning-rate", type=float, default=0.1)
    add("--hidden", type=int, default=48, help="width of the hidden layer")
    add("--seed", type=int, default=1)
    add("--step-seconds", type=float, default=0.0, help="simulated time of one step, slept")
    return parser.parse_args(arguments)


def _serve(address: str, index: int) -> None:
    cluster = tf.train.ClusterSpec({"ps": {index: address}})
    server = tf.distribute.Server(cluster, job_name="ps", task_index=index, protocol="grpc")
    print(f"serving as ps {index}", flush=True)
    server.join()


def main() -> int:
    """Run this process's role to its end; the exit status."""
    settings = parse_arguments(sys.argv[1:])
    config = json.loads(os.environ["TF_CONFIG"])
    role, index = config["task"]["type"], int(config["task"]["index"])
    servers = config["cluster"]["ps"]
    if role == "ps":
        SaveOnStop(_LINGER_SECONDS)
        _serve(servers[0], index)
    stop = SaveOnStop() if index == 0 else SaveOnStop(seconds=0)
    try:
        Worker(settings, index, servers).train(stop)
    except tf.errors.OpError as lost:
        print(f"giving up: a parameter server failed: {lost.message}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
