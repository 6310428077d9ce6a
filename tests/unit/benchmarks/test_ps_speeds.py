"""The networks' gradients, what each PS holds, and speeds that links bound."""

import math

import numpy as np
import pytest

from benchmarks.ps_networks import Perceptron
from benchmarks.ps_speeds import FEWEST_STEPS, Held, Setup, measure, place

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
