"""The training problem: least squares on synthetic, seeded data whose loss falls as eq 1 of the
paper says.

Optimus, EuroSys 2018, section 3.1: SGD losses follow l = 1/(b0*k + b1) + b2. For least squares
under gradient descent with rate h, the part of the loss along an eigenvector with eigenvalue v
shrinks by (1 - h*v)^2 per step. Equal parts along eigenvalues that are the quantiles of an
exponential distribution with mean 1 sum up to the Laplace transform of that distribution: 1 / (1 +
2*h*k). So the features get these variances, the true weights equal parts, and the labels noise,
which is the floor b2."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
FEATURES = 64
ROWS = 4096
NOISE_STD = 0.4
"""Standard deviation of the labels' noise: the loss cannot fall below half its square, 0.08."""
INITIAL_LOSS = 1.0 + NOISE_STD**2 / 2
"""The loss where training starts, half the variance of the labels."""


@dataclass(frozen=True)
class Gradient:
    """Sums over some examples, so that shares of a batch can be added up."""

    values: Vector
    loss: float
    examples: int


class Problem:
    """The data, the order in which it is read, the loss (half the mean squared error) and its
    gradient."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        random = np.random.default_rng([seed, 0])
        variances = -np.log1p(-(np.arange(FEATURES) + 0.5) / FEATURES)
        signs = random.choice([-1.0, 1.0], FEATURES)
        self._inputs: Vector = random.standard_normal((ROWS, FEATURES)) * np.sqrt(variances)
        truth = signs * np.sqrt(2 / (FEATURES * variances))
        self._labels: Vector = self._inputs @ truth + NOISE_STD * random.standard_normal(ROWS)
        self._order: tuple[int, NDArray[np.int64]] = (-1, np.arange(0))

    @staticmethod
    def initial_parameters() -> Vector:
        """Where training starts: all zero, a loss of about 1.08."""
        return np.zeros(FEATURES)

    def gradient(self, parameters: Vector, first_example: int, examples: int) -> Gradient:
        """Sum loss and gradient over the examples numbered from `first_example` since the start of
        training."""
        rows = self._rows(first_example, examples)
        inputs = self._inputs[rows]
        errors = inputs @ parameters - self._labels[rows]
        return Gradient(errors @ inputs, 0.5 * float(errors @ errors), examples)

    def _rows(self, first_example: int, examples: int) -> NDArray[np.int64]:
        """Map example numbers to rows: every pass over the data has an order of its own."""
        pieces: list[NDArray[np.int64]] = []
        start, end = first_example, first_example + examples
        while start < end:
            pass_number, offset = divmod(start, ROWS)
            count = min(ROWS - offset, end - start)
            pieces.append(self._order_of(pass_number)[offset : offset + count])
            start += count
        return np.concatenate(pieces) if pieces else np.arange(0)

    def _order_of(self, pass_number: int) -> NDArray[np.int64]:
        if self._order[0] != pass_number:
            order = np.random.default_rng([self._seed, 1, pass_number]).permutation(ROWS)
            self._order = (pass_number, order.astype(np.int64))
        return self._order[1]
