"""The TensorFlow example, with a model that counts on the parameter servers how often each example
is trained: `python tensorflow_example.py FLAGS`, the role is in TF_CONFIG. At its end the chief
prints the counts of the last checkpoint and what that says is left."""

import json
import os
import sys
from typing import Any

from examples.tensorflow.train import parse_arguments, read_task
from optimus_trainer.save_on_stop import SaveOnStop

settings = parse_arguments(sys.argv[1:])
stop = SaveOnStop()  # before TensorFlow starts threads

import tensorflow as tf  # type: ignore[import-untyped]  # noqa: E402  # only in its environment

from examples.tensorflow.chief import Chief  # noqa: E402
from examples.tensorflow.model import Dataset  # noqa: E402
from examples.tensorflow.server import serve  # noqa: E402


class Counts(tf.Module):  # type: ignore[misc]
    """A count of each example."""

    def __init__(self, _hidden: int, seed: int) -> None:
        super().__init__()
        self._all = Dataset(settings.examples, seed).features
        self._counts = tf.Variable(tf.zeros(settings.examples))

    def descend(self, features: Any, _labels: Any, _learning_rate: float) -> Any:
        """Count the examples of a batch; returns how many they are."""
        same = tf.reduce_all(features[:, None, :] == self._all[None], -1)
        counted = tf.reduce_sum(tf.cast(same, tf.float32), 0)
        self._counts.assign_add(counted)
        return tf.reduce_sum(counted)


role, _ = read_task(os.environ["TF_CONFIG"])
if role != "chief":
    serve()
Chief(settings, stop, Counts).train()
checkpoint = tf.train.load_checkpoint(str(settings.checkpoint_dir))
(name,) = (each for each in checkpoint.get_variable_to_dtype_map() if each.startswith("model/"))
left = checkpoint.get_tensor("left/.ATTRIBUTES/VARIABLE_VALUE")
print(
    json.dumps({**json.loads(left), "counts": checkpoint.get_tensor(name).tolist()}),
    flush=True,
)
os._exit(0)
