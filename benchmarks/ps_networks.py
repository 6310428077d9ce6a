"""Networks that ``benchmarks.ps_speeds`` trains, with their gradients, in numpy alone.

Each has named examples drawn at random, parameters as arrays, and the gradients of one batch by
backpropagation. They differ in where a step's time goes: see ``benchmarks.ps_speeds``."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Generator = np.random.Generator


class Network(Protocol):
    """What a worker needs of a network."""

    def parameters(self, rng: Generator) -> list[Array]:
        """The parameters at the start."""
        ...

    def gradients(self, parameters: Sequence[Array], rng: Generator, examples: int) -> list[Array]:
        """The gradients of the mean loss over so many examples drawn from ``rng``."""
        ...


@dataclass(frozen=True, slots=True)
class Perceptron:
    """Dense layers with ReLU between and a softmax at the end; features are normal."""

    sizes: tuple[int, ...]

    def parameters(self, rng: Generator) -> list[Array]:
        """A matrix and a vector for each layer."""
        return _dense_parameters(self.sizes, rng)

    def gradients(self, parameters: Sequence[Array], rng: Generator, examples: int) -> list[Array]:
        """By backpropagation; the class of an example is its largest feature's, by remainder."""
        features = rng.standard_normal((examples, self.sizes[0]), dtype=np.float32)
        return _dense_gradients(parameters, features, _classes(features, self.sizes[-1]))[0]


@dataclass(frozen=True, slots=True)
class Convolutions:
    """Convolutions of 3 x 3 with ReLU, each followed by a step of 2, then one dense layer."""

    side: int
    channels: tuple[int, ...]
    classes: int = 10

    def parameters(self, rng: Generator) -> list[Array]:
        """Kernels as matrices of patches, then the dense layer."""
        pairs = zip(self.channels, self.channels[1:], strict=False)
        kernels = [_matrix((9 * inside, outside), rng) for inside, outside in pairs]
        last = (self.side // 2 ** len(kernels)) ** 2 * self.channels[-1]
        return [*kernels, *_dense_parameters((last, self.classes), rng)]

    def gradients(self, parameters: Sequence[Array], rng: Generator, examples: int) -> list[Array]:
        """By backpropagation over patches."""
        shape = (examples, self.side, self.side, self.channels[0])
        images = rng.standard_normal(shape, dtype=np.float32)
        kernels, dense = parameters[:-2], parameters[-2:]
        patches, outputs, values = [], [], images
        for kernel in kernels:
            patches.append(_patches(values))
            values = np.maximum(patches[-1] @ kernel, 0)
            outputs.append(values)
            values = np.ascontiguousarray(values[:, ::2, ::2])
        classes = _classes(images.reshape(examples, -1), self.classes)
        of_dense, back = _dense_gradients(dense, values.reshape(examples, -1), classes)
        back, found = back.reshape(values.shape), list[Array]()
        for kernel, before, after in zip(kernels[::-1], patches[::-1], outputs[::-1], strict=True):
            whole = np.zeros_like(after)
            whole[:, ::2, ::2] = back
            whole *= after > 0
            width = before.shape[-1]
            found.append(before.reshape(-1, width).T @ whole.reshape(-1, whole.shape[-1]))
            if kernel is not kernels[0]:
                back = _from_patches(whole @ kernel.T)
        return [*found[::-1], *of_dense]


@dataclass(frozen=True, slots=True)
class Embedding:
    """A table of vectors, one for each value of each field, and dense layers over an example's."""

    values: int
    width: int
    fields: int
    hidden: tuple[int, ...]

    def parameters(self, rng: Generator) -> list[Array]:
        """The table, one large block, then the layers."""
        return [_matrix((self.values, self.width), rng), *_dense_parameters(self._sizes, rng)]

    def gradients(self, parameters: Sequence[Array], rng: Generator, examples: int) -> list[Array]:
        """By backpropagation; values are Zipf-like, as in logs of clicks."""
        ids = (self.values * rng.random((examples, self.fields)) ** 3).astype(np.intp)
        features = parameters[0][ids].reshape(examples, -1)
        clicks = (ids.sum(axis=1) % 3 == 0).astype(np.intp)
        layers, back = _dense_gradients(parameters[1:], features, clicks)
        table = np.zeros_like(parameters[0])
        np.add.at(table, ids.ravel(), back.reshape(-1, self.width))
        return [table, *layers]

    @property
    def _sizes(self) -> tuple[int, ...]:
        return (self.fields * self.width, *self.hidden, 2)


def _matrix(shape: tuple[int, int], rng: Generator) -> Array:
    scale = np.float32((2 / shape[0]) ** 0.5)
    return rng.standard_normal(shape, dtype=np.float32) * scale


def _dense_parameters(sizes: Sequence[int], rng: Generator) -> list[Array]:
    found = list[Array]()
    for inside, outside in itertools.pairwise(sizes):
        found += [_matrix((inside, outside), rng), np.zeros(outside, np.float32)]
    return found


def _classes(features: Array, classes: int) -> NDArray[np.intp]:
    return np.asarray(features.argmax(axis=1) % classes)


def _dense_gradients(
    parameters: Sequence[Array], features: Array, classes: NDArray[np.intp]
) -> tuple[list[Array], Array]:
    """The gradients of the layers, and that of the features."""
    inputs, values = list[Array](), features
    layers = list(zip(parameters[::2], parameters[1::2], strict=True))
    for number, (matrix, vector) in enumerate(layers):
        inputs.append(values)
        values = values @ matrix + vector
        if number < len(layers) - 1:
            values = np.maximum(values, 0)
    values = np.exp(values - values.max(axis=1, keepdims=True))
    back = values / values.sum(axis=1, keepdims=True)
    back[np.arange(len(classes)), classes] -= 1
    back /= np.float32(len(classes))
    found = list[Array]()
    for (matrix, _), before in zip(layers[::-1], inputs[::-1], strict=True):
        found += [back.sum(axis=0), before.T @ back]
        back = back @ matrix.T
        if before is not features:
            back *= before > 0
    return found[::-1], back


def _patches(values: Array) -> Array:
    """The 3 x 3 patch around each place, padded with zeros, as one row."""
    padded = np.pad(values, ((0, 0), (1, 1), (1, 1), (0, 0)))
    high, wide = values.shape[1:3]
    parts = [padded[:, y : y + high, x : x + wide] for y in range(3) for x in range(3)]
    return np.concatenate(parts, axis=-1)


def _from_patches(patches: Array) -> Array:
    """The sum of what all patches have of each place."""
    many, high, wide, width = patches.shape
    parts = np.split(patches, 9, axis=-1)
    padded = np.zeros((many, high + 2, wide + 2, width // 9), np.float32)
    for number, part in enumerate(parts):
        y, x = divmod(number, 3)
        padded[:, y : y + high, x : x + wide] += part
    return padded[:, 1:-1, 1:-1]
