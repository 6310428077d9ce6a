"""The chief: ParameterServerStrategy and a ClusterCoordinator loop, with checkpoints by global
step.

The chief keeps a few steps per worker in flight and takes their losses in the order in which it
scheduled them. Workers apply their gradients without waiting for one another (asynchronous
training). Before a checkpoint it lets the steps in flight end, so that a checkpoint of step n holds
the updates of steps 1 to n and of no other, and the step after a restart is n + 1. With it stands
what they left of the epoch's data: each example is trained once in it, through any rescale.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]  # lives only in the environment of this example

from examples.tensorflow.model import Dataset, Mlp, Order
from optimus_trainer.parameters import VariablePlan
from optimus_trainer.save_on_stop import SaveOnStop

_IN_FLIGHT_PER_WORKER = 2
_CHIEF = "/job:chief/replica:0/task:0/device:CPU:0"


class StallWatch:
    """Ends the process, with a sentence, when nothing is reported for too long.

    The coordinator waits for ever for a worker that does not come back, inside C++ code that no
    Python signal or exception reaches; so this watches from a thread of its own.
    """

    def __init__(self, startup_seconds: float, stall_seconds: float) -> None:
        self._seconds = startup_seconds
        self._stall_seconds = stall_seconds
        self._doing = "the cluster to come up"
        self._since = time.monotonic()
        threading.Thread(target=self._watch, name="stall-watch", daemon=True).start()

    def progressed(self, waiting_for: str) -> None:
        """Record progress, and what is waited for now."""
        self._doing, self._since, self._seconds = waiting_for, time.monotonic(), self._stall_seconds

    def _watch(self) -> None:
        while (left := self._since + self._seconds - time.monotonic()) > 0:
            time.sleep(min(left, 1.0))
        print(
            f"giving up: waited {self._seconds:.0f} s for {self._doing}; is a worker or parameter "
            "server gone?",
            file=sys.stderr,
            flush=True,
        )
        os._exit(1)


def end_requested(stop_file: Path | None) -> bool:
    """Whether the file that stands for a met goal has content."""
    try:
        return stop_file is not None and stop_file.stat().st_size > 0
    except OSError:
        return False


def _paced(step_seconds: float) -> Any:
    """An endless data set of which each element takes the stated time and no CPU to come."""
    ticks = tf.data.Dataset.range(1).repeat()
    if step_seconds <= 0:
        return ticks
    # tf.data has a sleeping stage but gives it no public Python name; nothing else sleeps on a
    # remote worker.
    sleeping = tf.raw_ops.SleepDataset(
        input_dataset=tf.data.experimental.to_variant(ticks),
        sleep_microseconds=tf.constant(int(step_seconds * 1e6), tf.int64),
        output_types=[tf.int64],
        output_shapes=[tf.TensorShape([])],
    )
    return tf.data.experimental.from_variant(sleeping, ticks.element_spec)


class Chief:
    """The job's one driver: schedules steps, prints their losses, saves and restores
    checkpoints."""

    def __init__(
        self, settings: argparse.Namespace, stop: SaveOnStop, build: Callable[[int, int], Any] = Mlp
    ) -> None:
        self._settings, self._stop = settings, stop
        self._watch = StallWatch(settings.startup_seconds, settings.stall_seconds)
        task = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        cluster = task.cluster_spec().as_dict()
        self._workers = len(cluster["worker"])
        self._shapes = [each.shape for each in build(settings.hidden, settings.seed).variables]
        plan = VariablePlan(self._shapes, len(cluster["ps"]))
        strategy = tf.distribute.ParameterServerStrategy(
            task, variable_partitioner=plan.partitioner
        )
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        with tf.variable_creator_scope(plan.place), strategy.scope():
            self._model = build(settings.hidden, settings.seed)
        self._data = Dataset(settings.examples, settings.seed)
        self._run_step = self._step_function()
        pace = self._coordinator.create_per_worker_dataset(lambda: _paced(settings.step_seconds))
        self._pace = iter(pace)
        self._step_saved, self._left = tf.Variable(0, dtype=tf.int64), tf.Variable("")
        checkpoint = tf.train.Checkpoint(model=self._model, step=self._step_saved, left=self._left)
        self._manager = tf.train.CheckpointManager(
            checkpoint, str(settings.checkpoint_dir), max_to_keep=3
        )
        # The chief alone touches files; by default each parameter server writes its own part to its
        # own disk.
        self._options = tf.train.CheckpointOptions(experimental_io_device=_CHIEF)

    def restore(self) -> int:
        """Restore the newest checkpoint, if there is one. Returns the steps done so far."""
        newest = self._manager.latest_checkpoint
        if newest is None:
            print("No checkpoint yet: the first step is 1", flush=True)
            return 0
        self._check(newest)
        self._manager.checkpoint.restore(newest, options=self._options).assert_consumed()
        done = int(self._step_saved.numpy())
        print(f'Resumed from "{newest}" of step {done}: the next step is {done + 1}', flush=True)
        return done

    def _check(self, checkpoint: str) -> None:
        """Raise ValueError, with a sentence, where a checkpoint is not of this model: a restore
        would not notice."""
        try:
            shapes = tf.train.load_checkpoint(checkpoint).get_variable_to_shape_map()
        except (tf.errors.OpError, RuntimeError, ValueError) as wrong:
            raise ValueError(
                f"the checkpoint {checkpoint} cannot be read; use another folder"
            ) from wrong
        stored = sorted(shape for name, shape in shapes.items() if name.startswith("model/"))
        if stored != sorted(shape.as_list() for shape in self._shapes):
            raise ValueError(
                f"the checkpoint {checkpoint} is of a model of another size; use another folder"
            )

    def train(self) -> None:
        """Train from the newest checkpoint to the last step, or until told to stop."""
        settings, every = self._settings, self._settings.checkpoint_steps
        saved = self._first = self.restore()
        left = self._left.numpy().decode() or None
        self._order = Order(settings.examples, settings.batch, settings.seed, left)
        while saved < settings.steps:
            until, done = min(saved + every - saved % every, settings.steps), saved
            for done, loss in self._losses(saved + 1, until):
                print(f"epoch={self._order.epoch_of(done)} step={done} loss={loss:.6f}", flush=True)
                self._watch.progressed(f"step {done + 1}")
            if done > saved:
                self._save(done, loss)
            saved = done
            if self._stop.told:
                self._stop.leave()
            if end_requested(settings.stop_file):
                print("The goal is met: the training ends", flush=True)
                return

    def _losses(self, first: int, last: int) -> Iterator[tuple[int, float]]:
        """Run the steps from first to last, or until told to stop; each with its loss, in order, as
        they end."""
        running: deque[tuple[int, Any]] = deque()
        for step in range(first, last + 1):
            if self._stop.told:
                break
            if len(running) >= self._workers * _IN_FLIGHT_PER_WORKER:
                yield _oldest(running)
            chosen = self._order.of_step(step - 1 - self._first)
            arguments = (self._pace, tf.constant(chosen, tf.int64))
            running.append((step, self._coordinator.schedule(self._run_step, args=arguments)))
        while running:
            yield _oldest(running)
        self._coordinator.join()

    def _step_function(self) -> Any:
        """What a worker does for one step."""
        model, data, learning_rate = self._model, self._data, self._settings.learning_rate

        @tf.function  # type: ignore[untyped-decorator]  # tf is Any where TensorFlow is not installed
        def run_step(pace: Any, chosen: Any) -> Any:
            next(pace)
            return model.descend(*data.of(chosen), learning_rate)

        return run_step

    def _save(self, step: int, loss: float) -> None:
        """Save a checkpoint; the line is printed once it is complete."""
        self._step_saved.assign(step)
        self._left.assign(self._order.saved(step - self._first))
        self._manager.save(checkpoint_number=step, options=self._options)
        print(
            f"epoch={self._order.epoch_of(step)} step={step} loss={loss:.6f} checkpoint={step}",
            flush=True,
        )
        self._watch.progressed(f"step {step + 1}")


def _oldest(running: deque[tuple[int, Any]]) -> tuple[int, float]:
    """Wait for the oldest step in flight; its number and its loss."""
    step, value = running.popleft()
    return step, float(value.fetch())


def train(settings: argparse.Namespace, stop: SaveOnStop) -> int:
    """Drive the job to its last step; the exit status."""
    tf.get_logger().setLevel(
        "ERROR"
    )  # each save is a new function to TensorFlow, which it warns about
    try:
        Chief(settings, stop).train()
    except ValueError as refused:
        print(f"cannot train: {refused}", file=sys.stderr, flush=True)
        return 2
    except tf.errors.OpError as lost:
        print(
            f"giving up: a parameter server or worker failed: {lost.message}",
            file=sys.stderr,
            flush=True,
        )
        return 1
    return 0
