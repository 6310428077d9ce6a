"""The network of DL2 in the slots of the gym."""

import numpy as np
import pytest

from benchmarks.dl2_reinforced import (
    ACTIONS,
    OF_JOB,
    SETTING,
    Layers,
    Learner,
    Played,
    Round,
    Samples,
    as_learned,
    as_optimus_does,
    chances,
    give_out,
    times,
)
from benchmarks.dl2_slots import drawn
from benchmarks.gym import mean_slots
from optimus.policies.optimus import OptimusPolicy

TRACES = [drawn(SETTING, "uniform", seed) for seed in range(3)]


def test_what_it_learns_from_ends_jobs_as_optimus_does() -> None:
    expected = [mean_slots(each.slots, OptimusPolicy()) for each in TRACES]
    assert times(TRACES, as_optimus_does) == pytest.approx(expected)


def test_what_nobody_has_taught_gives_no_more_than_there_is() -> None:
    draw = np.random.default_rng(1)
    a_round = Round(Played.begun(TRACES))
    samples = give_out(a_round, as_learned(Layers(draw, ACTIONS), draw))
    for row, trace in enumerate(TRACES):
        ps, workers = a_round.of(row)
        needed = ps[:, None] * [2, 0] + workers[:, None] * trace.workers
        assert (needed.sum(axis=0) <= 8 * SETTING.nodes).all()
        assert (samples.targets == row).sum() >= max(ps.max(), workers.max())


def test_what_more_came_of_than_was_expected_becomes_likelier() -> None:
    learner, draw, rows = Learner(1), np.random.default_rng(0), np.arange(8)
    states = draw.random((8, SETTING.jobs * OF_JOB)).astype(np.float32)
    allowed, actions = np.ones((8, ACTIONS), np.bool_), draw.integers(0, ACTIONS, 8)
    answers, expected = (each.layers(states)[2] for each in (learner.policy, learner.value))
    better = np.tile([1.0, -1.0], 4)
    samples = Samples(states, allowed, actions, expected[:, 0] + better)
    learner.update(samples, 0.0)
    after = chances(learner.policy.layers(states)[2], allowed)[rows, actions]
    assert (np.sign(after - chances(answers, allowed)[rows, actions]) == better).all()
