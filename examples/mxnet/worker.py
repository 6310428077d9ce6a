"""The training loop of one MXNet worker: a small MLP in a Module, its gradients in a distributed
kvstore.

The servers apply plain SGD, which keeps no state of its own, so the parameters alone are the whole
state and a resumed job goes on exactly where its checkpoint stands. The gradient of a step is the
sum over its examples divided by the batch of the whole job: with `dist_sync` the number of workers
does not change what is computed.

A step is one update of the job's parameters. With `dist_sync` all workers make it together. With
`dist_async` nobody counts the updates of all workers, so they take turns in the numbering: of w
workers the i-th numbers its batches s+i+1, s+i+1+w, ... after a checkpoint of s steps, which is the
number of updates as long as the workers keep the same pace.
"""

from __future__ import annotations

import argparse
import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mxnet as mx  # type: ignore[import-not-found]  # lives only in the environment of this example
import numpy as np

from examples.mxnet.checkpoints import Checkpoint, CheckpointFolder
from examples.mxnet.dataset import CLASSES, FEATURES, Reader, make_dataset
from examples.mxnet.ending import has_content
from optimus_trainer.parameters import balanced_kvstore
from optimus_trainer.save_on_stop import SaveOnStop

_LOG = logging.getLogger()  # the root, as MXNet's own lines: INFO:root:
_LEFT = "left"
"""The name in a checkpoint of the data that are left of the epoch."""


@dataclass(frozen=True)
class Part:
    """What this worker does of the job: `worker` of `workers`; `step_batch` are the examples of one
    of the job's steps."""

    worker: int
    workers: int
    synchronous: bool
    step_batch: int

    @property
    def round_batch(self) -> int:
        """Examples of all workers while each computes one batch."""
        return self.step_batch if self.synchronous else self.step_batch * self.workers

    def steps(self, done: int, total: int) -> range:
        """Numbers of the steps in which this worker takes part, after `done` steps of the job."""
        if self.synchronous:
            return range(done + 1, total + 1)
        return range(done + 1 + self.worker, total + 1, self.workers)

    def done_after(self, step: int) -> int:
        """How many steps of the job are done when this worker has done its batch of `step`."""
        return step if self.synchronous else step + self.workers - 1 - self.worker


def part_of(kvstore: Any, settings: argparse.Namespace) -> Part:
    """This worker's part, from the kvstore and the index that the job's controller gave it."""
    # ps-lite ranks workers in the order in which they arrive; the index is the one users know the
    # pod by.
    worker = int(os.environ.get("DMLC_WORKER_ID", kvstore.rank))
    synchronous = "_async" not in kvstore.type
    batch = settings.global_batch if synchronous else settings.worker_batch
    return Part(worker, kvstore.num_workers, synchronous, batch)


def make_network(hidden: int) -> Any:
    """One hidden layer of the given width and a softmax output."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=hidden, name="fc1")
    net = mx.sym.FullyConnected(
        mx.sym.Activation(net, act_type="relu"), num_hidden=CLASSES, name="fc2"
    )
    return mx.sym.SoftmaxOutput(net, name="softmax")


def parameter_shapes(network: Any) -> dict[str, tuple[int, ...]]:
    """The shape of each parameter, by its name."""
    shapes = zip(network.list_arguments(), network.infer_shape(data=(1, FEATURES))[0], strict=True)
    return {name: shape for name, shape in shapes if name not in ("data", "softmax_label")}


def make_module(hidden: int, batch: int) -> Any:
    """A bound Module."""
    module = mx.mod.Module(make_network(hidden), context=mx.cpu())
    module.bind([("data", (batch, FEATURES))], [("softmax_label", (batch,))])
    return module


class Progress:
    """Prints what training logs are read for: Speedometer and epoch lines, and one name=value line
    a step."""

    def __init__(self, batch: int, frequent: int) -> None:
        self._metric = mx.metric.CompositeEvalMetric(
            [mx.metric.Accuracy(), mx.metric.CrossEntropy()]
        )
        self._speedometer = mx.callback.Speedometer(batch, frequent)
        self._epoch: int | None = None
        self._epoch_began = 0.0
        self._batches = 0

    def batch_done(self, module: Any, label: Any, step: int, epoch: int) -> None:
        """Account for this worker's batch of one step."""
        if epoch != self._epoch:
            self.epoch_done()
            # A Speedometer that starts anywhere but at 0 counts batches that it has not seen.
            self._epoch, self._epoch_began, self._batches = epoch, time.monotonic(), 0
        module.update_metric(self._metric, [label])
        probabilities, classes = module.get_outputs()[0].asnumpy(), label.asnumpy().astype(int)
        loss = -float(np.mean(np.log(probabilities[np.arange(len(classes)), classes] + 1e-12)))
        print(f"step={step} epoch={epoch} loss={loss:.6f}", flush=True)
        self._speedometer(mx.model.BatchEndParam(epoch, self._batches, self._metric, None))
        self._batches += 1

    def epoch_done(self) -> None:
        """Print the lines that Module.fit prints at the end of an epoch."""
        if self._epoch is None:
            return
        for name, value in self._metric.get_global_name_value():
            _LOG.info("Epoch[%d] Train-%s=%f", self._epoch, name, value)
        _LOG.info("Epoch[%d] Time cost=%.3f", self._epoch, time.monotonic() - self._epoch_began)
        self._metric.reset()


class GoalWatch:
    """Whether the job's goal is met, which all workers learn at the same step with `dist_sync`.

    Each sees the file in its own pod, filled at its own time. They agree by a value in the kvstore:
    0 until some worker, which has seen content, pushes something else at the end of an epoch."""

    _KEY = "goal-met"

    def __init__(self, kvstore: Any, stop_file: Path | None) -> None:
        self._kvstore, self._file = kvstore, stop_file
        if stop_file is not None:
            kvstore.init(self._KEY, mx.nd.zeros((1,)))

    def is_met(self) -> bool:
        """Ask at the end of an epoch: all workers do."""
        if self._file is None:
            return False
        self._kvstore.push(self._KEY, mx.nd.full((1,), float(has_content(self._file))))
        value = mx.nd.zeros((1,))
        self._kvstore.pull(self._KEY, out=value)
        return bool(value.asscalar() != 0)


class Worker:
    """One worker's model, data and part of the job."""

    def __init__(self, settings: argparse.Namespace, kvstore: Any, stop: SaveOnStop) -> None:
        self._settings, self._stop = settings, stop
        self._part = part_of(kvstore, settings)
        self._data = make_dataset(settings.examples, settings.seed)
        self._folder = CheckpointFolder(settings.checkpoint_dir, settings.prefix)
        newest = self._folder.newest()
        stored = _stored(newest)
        left = stored.pop(_LEFT).asnumpy().tobytes().decode() if _LEFT in stored else None
        part = self._part
        self._reader = Reader(self._data, part.round_batch, part.worker, part.workers, left)
        self._module = make_module(settings.hidden, self._reader.batch)
        self._done = self._restore(newest, stored)
        rescale = 1.0 / self._part.step_batch
        options = {"learning_rate": settings.learning_rate, "rescale_grad": rescale}
        self._module.init_optimizer(kvstore, "sgd", options)
        self._goal = GoalWatch(kvstore, settings.stop_file)
        self._saved = self._done

    def _restore(self, newest: Checkpoint | None, stored: dict[str, Any]) -> int:
        """Set the parameters: the newest checkpoint's, or fresh ones. Returns the steps done so
        far."""
        if newest is None:
            mx.random.seed(self._settings.seed)
            self._module.init_params(mx.init.Xavier())
            _LOG.info("No checkpoint yet: the first step is 1")
            return 0
        try:
            self._module.init_params(
                arg_params={name.removeprefix("arg:"): stored[name] for name in stored}
            )
        except (mx.MXNetError, RuntimeError, AttributeError) as wrong:
            raise _not_of_this_model(newest) from wrong
        _LOG.info(
            'Resumed from "%s" of step %d: the next step is %d',
            newest.path,
            newest.step,
            newest.step + 1,
        )
        return newest.step

    def run(self) -> None:
        """Train this worker's part of the remaining steps; worker 0 saves checkpoints on the
        way."""
        part, settings = self._part, self._settings
        if part.worker == 0:
            self._folder.forget_unfinished()
        epoch_steps = self._data.steps_per_epoch(part.step_batch)
        progress = Progress(self._reader.batch, settings.log_steps)
        steps = part.steps(self._done, settings.steps)
        for step in steps:
            label = self._train()
            epoch, done = (step - 1) // epoch_steps, min(part.done_after(step), settings.steps)
            progress.batch_done(self._module, label, step, epoch)
            self._save_if_due(done)
            if self._stop.told and part.worker == 0:
                self._save(done)
                self._stop.leave()
            if (step + steps.step - 1) // epoch_steps > epoch and self._goal.is_met():
                _LOG.info("The goal is met: the training ends after step %d", done)
                self._save(done)
                break
        progress.epoch_done()

    def _train(self) -> Any:
        """Compute and push the gradient of this worker's next examples; returns their labels."""
        chosen = self._reader.next()
        label = mx.nd.array(self._data.labels[chosen])
        self._module.forward_backward(
            mx.io.DataBatch([mx.nd.array(self._data.features[chosen])], [label])
        )
        time.sleep(self._settings.step_seconds * self._reader.batch / self._part.step_batch)
        self._module.update()
        return label

    def _save_if_due(self, done: int) -> None:
        due = done - self._saved >= self._settings.checkpoint_steps or done == self._settings.steps
        if due:
            self._save(done)

    def _save(self, done: int) -> None:
        if self._part.worker != 0 or done == self._saved:
            return
        parameters, _ = self._module.get_params()
        stored = {f"arg:{name}": array for name, array in parameters.items()}
        left = np.frombuffer(self._reader.saved().encode(), np.uint8)
        stored[_LEFT] = mx.nd.array(left, dtype=np.uint8)
        path = self._folder.save(done, lambda unfinished: mx.nd.save(str(unfinished), stored))
        self._saved = done
        _LOG.info('Saved checkpoint to "%s"', path)


def _stored(checkpoint: Checkpoint | None) -> dict[str, Any]:
    """The arrays of a checkpoint by name."""
    if checkpoint is None:
        return {}
    try:
        return dict(mx.nd.load(str(checkpoint.path)))
    except (mx.MXNetError, TypeError, ValueError) as wrong:
        raise _not_of_this_model(checkpoint) from wrong


def _not_of_this_model(checkpoint: Checkpoint) -> ValueError:
    return ValueError(
        f"the checkpoint {checkpoint.path} does not hold this model's parameters; use another"
        " folder"
    )


def train(settings: argparse.Namespace, stop: SaveOnStop) -> None:
    """Take part in the job as a worker until its last step. Raises ValueError where it cannot be
    shared out."""
    shapes = parameter_shapes(make_network(settings.hidden))
    kvstore = balanced_kvstore(settings.kvstore, shapes)
    _LOG.info(
        "worker %s of %d", os.environ.get("DMLC_WORKER_ID", kvstore.rank), kvstore.num_workers
    )
    Worker(settings, kvstore, stop).run()
