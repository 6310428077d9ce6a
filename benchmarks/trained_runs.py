"""Losses of runs that are drawn: networks that are trained, formulas, curves of the paper's form.

The networks are small and trained by SGD: softmax regressions and perceptrons.

Classes are overlapping Gaussian clusters with some labels wrong. Data, network, batch, learning
rate, momentum and its schedule (constant, or times 0.1 to 0.5 at one or two epochs) are drawn; the
same seed gives the same run."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from optimus.progress.types import LossPoint

Array = NDArray[np.float64]
_EXAMPLES: Final = 1200
_SCHEDULES: Final = ((0.3, 0.65), (0.4, 0.75), (0.5,), (0.6,))


@dataclass(slots=True)
class Network:
    """Dense layers with ReLU between and softmax at the end, and their weights' velocities."""

    layers: list[tuple[Array, Array]]
    velocities: list[tuple[Array, Array]]

    @classmethod
    def draw(cls, widths: list[int], rng: np.random.Generator) -> "Network":
        """Glorot's uniform weights, no biases."""
        layers = []
        for a, b in pairwise(widths):
            end = np.sqrt(6 / (a + b))
            layers.append((rng.uniform(-end, end, (a, b)), np.zeros(b)))
        return cls(layers, [(np.zeros_like(weights), np.zeros_like(b)) for weights, b in layers])

    def step(self, inputs: Array, labels: NDArray[np.intp], rate: float, momentum: float) -> float:
        """One step of SGD on a batch; its loss (cross-entropy) before the step."""
        outputs = [inputs]
        for weights, bias in self.layers[:-1]:
            outputs.append(np.maximum(outputs[-1] @ weights + bias, 0))
        scores = outputs[-1] @ self.layers[-1][0] + self.layers[-1][1]
        exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
        probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
        rows = np.arange(len(labels))
        loss = float(-np.log(probabilities[rows, labels] + 1e-12).mean())
        probabilities[rows, labels] -= 1
        error = probabilities / len(labels)
        for index in range(len(self.layers) - 1, -1, -1):
            weights, bias = self.layers[index]
            below = (error @ weights.T) * (outputs[index] > 0) if index else error
            gradients = (outputs[index].T @ error, error.sum(axis=0))
            self._move(index, gradients, rate, momentum)
            error = below
        return loss

    def _move(
        self, index: int, gradients: tuple[Array, Array], rate: float, momentum: float
    ) -> None:
        former = self.velocities[index]
        weights, bias = (momentum * v - rate * g for v, g in zip(former, gradients, strict=True))
        self.velocities[index] = weights, bias
        self.layers[index] = self.layers[index][0] + weights, self.layers[index][1] + bias


def train(seed: int, *, stepped: bool) -> tuple[LossPoint, ...] | None:
    """One run's epoch means with their learning rates; ``None`` where it diverges."""
    rng = np.random.default_rng([seed, stepped])
    classes, features = int(rng.choice([2, 5, 10])), int(rng.choice([10, 30, 60]))
    centres = rng.standard_normal((classes, features)) * rng.uniform(0.3, 1.0)
    labels = rng.integers(0, classes, _EXAMPLES)
    inputs = centres[labels] + rng.standard_normal((_EXAMPLES, features))
    wrong = rng.random(_EXAMPLES) < rng.choice([0.0, 0.1, 0.3])
    labels = np.where(wrong, rng.integers(0, classes, _EXAMPLES), labels)
    hidden = [[], [32], [64], [64, 32]][int(rng.integers(4))]
    network = Network.draw([features, *hidden, classes], rng)
    momentum, batch = float(rng.choice([0.0, 0.9])), int(rng.choice([32, 64]))
    epochs = int(rng.choice([80, 120, 150]))
    rate = float(10 ** rng.uniform(-2.2, -0.5)) * (1 - momentum) * (2 if stepped else 1)
    schedule = _SCHEDULES[int(rng.integers(len(_SCHEDULES)))] if stepped else ()
    drops = [int(part * epochs) for part in schedule]
    ratio = float(rng.choice([0.1, 0.1, 0.2, 0.5]))
    points: list[LossPoint] = []
    for epoch in range(epochs):
        rate *= ratio if epoch in drops else 1.0
        order = rng.permutation(_EXAMPLES)
        parts = [order[begin : begin + batch] for begin in range(0, _EXAMPLES, batch)]
        losses = [network.step(inputs[part], labels[part], rate, momentum) for part in parts]
        mean = float(np.mean(losses))
        if not np.isfinite(mean) or mean > 10 * np.log(classes) + 10:
            return None
        points.append(LossPoint(mean, epoch + 1.0, learning_rate=rate))
    return tuple(points)


def trained(seed: int, number: int, *, stepped: bool) -> Iterator[Sequence[LossPoint]]:
    """So many networks' losses; one that diverges or hardly learns is drawn again."""
    found, draw = 0, 1000 * seed
    while found < number:
        run = train(draw, stepped=stepped)
        draw += 1
        if run is not None and min(point.loss for point in run) < 0.9 * run[0].loss:
            found += 1
            print(f"\r{found} of {number} trained", end="", file=sys.stderr)
            yield run
    print(file=sys.stderr)


def formulas(seed: int, noise: float) -> Iterator[Sequence[LossPoint]]:
    """Hyperbolas, (stretched) exponentials and powers, with and without a floor, with noise."""
    rng, k = np.random.default_rng([seed, round(1000 * noise)]), np.arange(1.0, 121)
    for floor in (0.0, 0.1):
        for tau in (10.0, 30.0):
            for course in (
                1 / (1 + k / tau),
                np.exp(-k / tau / 3),
                (1 + k / 5) ** (-tau / 20),
                np.exp(-((k / tau) ** 0.6)),
            ):
                losses = (course + floor) * np.exp(noise * rng.standard_normal(len(k)))
                yield [LossPoint(float(loss), n + 1.0) for n, loss in enumerate(losses)]


def paper_form(seed: int, number: int) -> Iterator[Sequence[LossPoint]]:
    """Curves of the paper's own form, 1/(b0 k + b1) + b2, of 20 to 250 epochs with noise."""
    rng = np.random.default_rng(seed)
    for _ in range(number):
        epochs = round(float(np.exp(rng.uniform(np.log(20), np.log(250)))))
        half = epochs * np.exp(rng.uniform(np.log(0.03), np.log(0.5)))
        floor, noise = rng.choice([0, 0.05, 0.1, 0.2, 0.4]), rng.choice([0.003, 0.01, 0.03])
        k = np.arange(1.0, epochs + 1)
        losses = rng.uniform(0.5, 8) * ((1 - floor) / (1 + k / half) + floor)
        losses *= np.exp(noise * rng.standard_normal(epochs))
        yield [LossPoint(float(loss), n + 1.0) for n, loss in enumerate(losses)]
