"""The model and its data: a small MLP on a synthetic classification problem that is made in the
process, and which of its examples make up a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf  # type: ignore[import-untyped]  # lives only in the environment of this example

from optimus_trainer.shards import Deal

FEATURES = 16
CLASSES = 10
_TEACHER_WIDTH = 24
_LABEL_NOISE = 0.4
_PART = 400
"""Examples of a part of the data, which is dealt as a file would be."""


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

    def __init__(self, examples: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        first = rng.standard_normal((FEATURES, _TEACHER_WIDTH))
        second = rng.standard_normal((_TEACHER_WIDTH, CLASSES))
        features = rng.standard_normal((examples, FEATURES))
        scores = np.tanh(features @ first) @ second
        labels = np.argmax(scores + _LABEL_NOISE * rng.gumbel(size=scores.shape), axis=1)
        self.features, self._labels = features.astype(np.float32), labels.astype(np.int32)

    def of(self, chosen: Any) -> tuple[Any, Any]:
        """Features and labels of the examples with these numbers, as tensors."""
        return tf.gather(self.features, chosen), tf.gather(self._labels, chosen)


class Order:
    """Which examples the steps train from a checkpoint on, each once in an epoch.

    Each step is one worker's, and any worker may get it: the epoch is dealt to one reader. `saved`
    is the text of the checkpoint; steps are counted from there, from 0."""

    def __init__(self, examples: int, batch: int, seed: int, saved: str | None) -> None:
        self._steps_per_epoch = examples // batch
        sizes = {
            str(part): min(_PART, examples - part * _PART) for part in range(-(-examples // _PART))
        }
        self._deals = [Deal.begin(sizes, batch, 1, seed, saved)]

    def of_step(self, step: int) -> Any:
        """The numbers of the examples of a step, shape (batch,)."""
        deal, done = self._at(step)
        return np.concatenate(
            [
                int(piece.chunk) * _PART + np.arange(piece.begin, piece.end)
                for piece in deal.batches(0)[done]
            ]
        )

    def saved(self, steps: int) -> str:
        """What is left after so many steps, to be stored with a checkpoint."""
        deal, done = self._at(steps)
        return deal.saved(done)

    def epoch_of(self, step: int) -> int:
        """The pass over the data, counted from 1, that a step of the job (from 1) belongs to."""
        return (step - 1) // self._steps_per_epoch + 1

    def _at(self, steps: int) -> tuple[Deal, int]:
        number = 0
        while steps >= self._deals[number].steps:
            steps -= self._deals[number].steps
            number += 1
            if number == len(self._deals):
                self._deals.append(self._deals[-1].next())
        return self._deals[number], steps


def _uniform(shape: tuple[int, int], seed: int) -> Any:
    """Initial weights after Glorot and Bengio (2010), the same for the same seed."""
    limit = float(np.sqrt(6.0 / sum(shape)))
    return tf.random.stateless_uniform(shape, seed=(seed, 0), minval=-limit, maxval=limit)
