"""The model and its data: a small MLP on a synthetic classification problem that is made in the
process.

Which examples make up a step follows from the step's number and the seed alone, so a job that goes
on from a checkpoint sees the data in the order in which it would have seen them without the
interruption."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf  # type: ignore[import-untyped]  # lives only in the environment of this example

FEATURES = 16
CLASSES = 10
_TEACHER_WIDTH = 24
_LABEL_NOISE = 0.4


class Mlp(tf.Module):  # type: ignore[misc]  # tf.Module is Any where TensorFlow is not installed
    """One hidden layer. Its variables live on the parameter servers, its gradients are computed by
    workers."""

    def __init__(self, hidden: int, seed: int) -> None:
        super().__init__()
        first, second = _uniform((FEATURES, hidden), seed), _uniform((hidden, CLASSES), seed + 1)
        self._layers = [
            (tf.Variable(first, name="w1"), tf.Variable(tf.zeros(hidden), name="b1")),
            (tf.Variable(second, name="w2"), tf.Variable(tf.zeros(CLASSES), name="b2")),
        ]

    def loss(self, features: Any, labels: Any) -> Any:
        """Mean cross-entropy of features (batch, FEATURES) and labels (batch,), int32: a scalar."""
        (first, first_bias), (second, second_bias) = self._layers
        hidden = tf.nn.relu(features @ first + first_bias)
        scores = hidden @ second + second_bias
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores))

    def descend(self, features: Any, labels: Any, learning_rate: float) -> Any:
        """One step of gradient descent; returns the loss before it. Plain SGD: the variables are
        the whole state."""
        with tf.GradientTape() as tape:
            loss = self.loss(features, labels)
        variables = self.trainable_variables
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(learning_rate * gradient)
        return loss


class Dataset:
    """Features and labels, in memory, as constants of the step function that workers run."""

    def __init__(self, examples: int, batch: int, seed: int) -> None:
        self.steps_per_epoch = examples // batch
        self._examples, self._batch, self._seed = examples, batch, seed
        rng = np.random.default_rng(seed)
        features = rng.standard_normal((examples, FEATURES))
        hidden = np.tanh(features @ rng.standard_normal((FEATURES, _TEACHER_WIDTH)))
        scores = hidden @ rng.standard_normal((_TEACHER_WIDTH, CLASSES))
        labels = np.argmax(scores + _LABEL_NOISE * rng.gumbel(size=scores.shape), axis=1)
        self._features, self._labels = features.astype(np.float32), labels.astype(np.int32)

    def epoch_of(self, step: int) -> int:
        """The pass over the data, counted from 1, that a step (counted from 1) belongs to."""
        return (step - 1) // self.steps_per_epoch + 1

    def of_step(self, step: Any) -> tuple[Any, Any]:
        """Features and labels of a step, as tensors; `step` is a scalar int64 tensor."""
        epoch, nth = (step - 1) // self.steps_per_epoch, (step - 1) % self.steps_per_epoch
        places = nth * self._batch + tf.range(self._batch, dtype=tf.int64)
        seed = tf.stack([tf.constant(self._seed, tf.int64), epoch])
        chosen = tf.random.experimental.index_shuffle(
            places, seed, tf.constant(self._examples - 1, tf.int64)
        )
        return tf.gather(self._features, chosen), tf.gather(self._labels, chosen)


def _uniform(shape: tuple[int, int], seed: int) -> Any:
    """Initial weights after Glorot and Bengio (2010), the same for the same seed."""
    limit = float(np.sqrt(6.0 / sum(shape)))
    return tf.random.stateless_uniform(shape, seed=(seed, 0), minval=-limit, maxval=limit)
