"""The problem: a true gradient, an order fixed by the example numbers, and the loss curve that is
promised."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.light.problem import FEATURES, ROWS, Gradient, Problem, Vector
from examples.light.shard import Shard
from examples.light.sharding import even_slices

_PROBLEM = Problem(seed=1)
_RATE = 0.01


def _random_parameters() -> Vector:
    return np.random.default_rng(7).standard_normal(FEATURES)


def _train(steps: int, batch: int) -> list[float]:
    parameters, losses = Problem.initial_parameters(), []
    for step in range(steps):
        gradient = _PROBLEM.gradient(parameters, step * batch, batch)
        parameters = parameters - _RATE * gradient.values / batch
        losses.append(gradient.loss / batch)
    return losses


def test_the_gradient_is_that_of_the_loss() -> None:
    parameters, small = _random_parameters(), 1e-6
    gradient = _PROBLEM.gradient(parameters, 100, 32)
    for index in (0, 31, 63):
        moved = parameters.copy()
        moved[index] += small
        slope = (_PROBLEM.gradient(moved, 100, 32).loss - gradient.loss) / small
        assert slope == pytest.approx(gradient.values[index], rel=1e-3, abs=1e-3)


@given(first=st.integers(0, 3 * ROWS), batch=st.integers(1, 300), workers=st.integers(1, 12))
def test_the_workers_shares_of_a_batch_add_up_to_it(first: int, batch: int, workers: int) -> None:
    parameters = _random_parameters()
    whole = _PROBLEM.gradient(parameters, first, batch)
    shares = [
        _PROBLEM.gradient(parameters, first + piece.start, piece.stop - piece.start)
        for piece in even_slices(batch, workers)
    ]
    assert np.allclose(sum(share.values for share in shares), whole.values, rtol=1e-9, atol=1e-9)
    assert sum(share.loss for share in shares) == pytest.approx(whole.loss)
    assert sum(share.examples for share in shares) == batch


def test_every_pass_reads_every_row_once_in_an_order_of_its_own() -> None:
    parameters = _random_parameters()
    passes = [_PROBLEM.gradient(parameters, number * ROWS, ROWS) for number in range(2)]
    heads = [_PROBLEM.gradient(parameters, number * ROWS, 10).loss for number in range(2)]
    assert passes[0].loss == pytest.approx(passes[1].loss)
    assert heads[0] != pytest.approx(heads[1])


def test_the_same_seed_makes_the_same_data_and_another_one_does_not() -> None:
    parameters = _random_parameters()
    losses = [Problem(seed).gradient(parameters, 0, 64).loss for seed in (1, 1, 2)]
    assert losses[0] == losses[1]
    assert losses[0] != pytest.approx(losses[2])


def test_the_loss_falls_along_the_curve_of_the_docstring() -> None:
    losses = np.array(_train(800, 64)).reshape(40, 20).mean(axis=1)
    steps = np.arange(40) * 20 + 10
    promised = 1 / (1 + 2 * _RATE * steps) + 0.08
    assert np.abs(losses - promised).max() < 0.1
    assert np.abs(losses[20:] - promised[20:]).max() < 0.03


def _push(shard: Shard, sender: int, gradient: Gradient) -> bool:
    assert shard.accepts(shard.run, shard.step, gradient.values.size)
    return shard.push(sender, gradient)


def _shard(synchronous: bool, trainers: int) -> Shard:
    shard = Shard(synchronous, trainers, learning_rate=0.5)
    shard.initialise(run=9, step=10, values=np.array([1.0, 2.0]))
    return shard


def _gradient(*values: float, examples: int = 2) -> Gradient:
    return Gradient(np.array(values), loss=3.0, examples=examples)


def test_a_synchronous_shard_applies_the_mean_once_all_have_come() -> None:
    shard = _shard(synchronous=True, trainers=2)
    assert not _push(shard, 1, _gradient(2.0, 0.0))
    assert shard.step == 10
    assert _push(shard, 0, _gradient(2.0, 4.0))
    assert shard.step == 11
    assert shard.values.tolist() == [0.5, 1.5]
    assert shard.loss == 1.5


def test_a_worker_that_pushes_twice_in_a_step_counts_once() -> None:
    shard = _shard(synchronous=True, trainers=2)
    assert not _push(shard, 0, _gradient(100.0, 100.0))
    assert not _push(shard, 0, _gradient(2.0, 4.0))
    assert _push(shard, 1, _gradient(2.0, 0.0))
    assert shard.values.tolist() == [0.5, 1.5]


def test_an_asynchronous_shard_applies_every_push_at_once_whatever_its_step() -> None:
    shard = _shard(synchronous=False, trainers=2)
    assert shard.accepts(9, 3, 2)
    assert _push(shard, 1, _gradient(4.0, 0.0))
    assert _push(shard, 1, _gradient(4.0, 0.0))
    assert shard.step == 12
    assert shard.values.tolist() == [-1.0, 2.0]


@pytest.mark.parametrize(
    ("run", "step", "size"),
    [
        pytest.param(8, 10, 2, id="of an earlier run"),
        pytest.param(0, 10, 2, id="of no run"),
        pytest.param(9, 9, 2, id="of an earlier step"),
        pytest.param(9, 10, 3, id="of another size"),
    ],
)
def test_pushes_that_are_stale(run: int, step: int, size: int) -> None:
    assert not _shard(synchronous=True, trainers=2).accepts(run, step, size)


def test_a_shard_that_forgot_accepts_nothing_and_starts_with_an_empty_step() -> None:
    shard = _shard(synchronous=True, trainers=2)
    _push(shard, 0, _gradient(1.0, 1.0))
    shard.forget()
    assert not shard.accepts(0, 0, 0)
    shard.initialise(run=10, step=4, values=np.array([1.0, 2.0]))
    assert not _push(shard, 1, _gradient(1.0, 1.0))
