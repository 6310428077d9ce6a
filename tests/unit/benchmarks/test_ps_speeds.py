"""The networks' gradients, what each PS holds, and speeds that links bound."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from benchmarks.ps_networks import Array, Convolutions, Embedding, Network, Perceptron
from benchmarks.ps_speeds import FEWEST_STEPS, Held, Setup, measure, place

EXAMPLES = 8
Loss = Callable[[Sequence[Array]], float]


def cross_entropy(scores: Array, classes: Sequence[int]) -> float:
    logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return -float(logs[np.arange(len(classes)), classes].mean())


def dense(layers: Sequence[Array], values: Array) -> Array:
    for number in range(0, len(layers), 2):
        values = (np.maximum(values, 0) if number else values) @ layers[number] + layers[number + 1]
    return values


def loss_of_perceptron(parameters: Sequence[Array]) -> float:
    features = np.random.default_rng(1).standard_normal((EXAMPLES, 5), dtype=np.float32)
    return cross_entropy(dense(parameters, features), features.argmax(axis=1) % 3)


def loss_of_embedding(parameters: Sequence[Array]) -> float:
    ids = (9 * np.random.default_rng(1).random((EXAMPLES, 2)) ** 3).astype(int)
    features = np.array([np.concatenate([parameters[0][at] for at in row]) for row in ids])
    return cross_entropy(dense(parameters[1:], features), (ids.sum(axis=1) % 3 == 0).astype(int))


def loss_of_convolutions(parameters: Sequence[Array]) -> float:
    images = np.random.default_rng(1).standard_normal((EXAMPLES, 4, 4, 2), dtype=np.float32)
    values = images.astype(np.float64)
    for kernel in parameters[:-2]:
        padded = np.pad(values, ((0, 0), (1, 1), (1, 1), (0, 0)))
        side = range(0, values.shape[1], 2)
        patches = [[padded[:, y : y + 3, x : x + 3] for x in side] for y in side]
        rows = [[patch.reshape(EXAMPLES, -1) @ kernel for patch in row] for row in patches]
        values = np.maximum(np.array(rows), 0).transpose(2, 0, 1, 3)
    classes = images.reshape(EXAMPLES, -1).argmax(axis=1) % 3
    return cross_entropy(dense(parameters[-2:], values.reshape(EXAMPLES, -1)), classes)


@pytest.mark.parametrize(
    ("network", "loss"),
    [
        pytest.param(Perceptron((5, 4, 3)), loss_of_perceptron, id="perceptron"),
        pytest.param(Embedding(9, 3, 2, (4,)), loss_of_embedding, id="embedding"),
        pytest.param(Convolutions(4, (2, 3, 4), 3), loss_of_convolutions, id="convolutions"),
    ],
)
def test_gradients_are_those_of_the_loss(network: Network, loss: Loss) -> None:
    parameters = [each.astype(np.float64) for each in network.parameters(np.random.default_rng(0))]
    found = network.gradients(parameters, np.random.default_rng(1), EXAMPLES)
    for block, gradient in zip(parameters, found, strict=True):
        assert gradient.shape == block.shape
        for at in range(0, block.size, 3):
            usual, losses = block.flat[at], []
            for step in (-1e-5, 1e-5):
                block.flat[at] = usual + step
                losses.append(loss(parameters))
            block.flat[at] = usual
            assert (losses[1] - losses[0]) / 2e-5 == pytest.approx(gradient.flat[at], abs=1e-5)


TINY = Perceptron((64, 128, 10))


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("messages", [True, False])
def test_each_parameter_is_on_one_ps(split: bool, messages: bool) -> None:
    setup = Setup(TINY, sync=True, batch=8, megabits=100, split=split, messages=messages)
    parts = [part for ps in place(setup, 3) for message in ps for part in message]
    held = sorted((block, at) for block, begin, end in parts for at in range(begin, end))
    sizes = [each.size for each in TINY.parameters(np.random.default_rng(0))]
    assert held == [(block, at) for block, size in enumerate(sizes) for at in range(size)]


def test_a_ps_updates_by_the_mean_of_all_workers() -> None:
    held = Held(np.ones(2, np.float32), workers=2, moments=False)
    assert held.push(np.array([1, 0], np.float32)) is None
    values = held.push(np.array([3, 0], np.float32))
    assert values is not None
    assert np.frombuffer(values, np.float32) == pytest.approx([0.98, 1])


@pytest.mark.parametrize("sync", [True, False])
def test_links_bound_the_speed_of_processes_that_train(sync: bool) -> None:
    setup = Setup(TINY, sync=sync, batch=8, megabits=20)
    speeds = measure(setup, side=2, seconds=0.01, until=math.inf)
    assert set(speeds) == {(1, 1), (1, 2), (2, 1), (2, 2)}
    megabits = 32e-6 * sum(each.size for each in TINY.parameters(np.random.default_rng(0)))
    # A step pushes and pulls; in async training one worker pushes while the other one pulls.
    most = setup.megabits / (2 * megabits) * (1 + 1 / FEWEST_STEPS)
    assert 0 < speeds[1, 1] < most
    assert 0 < speeds[1, 2] < most * (0.5 if sync else 2)
