"""The scorer, the gym and how the one learns in the other."""

import numpy as np
import pytest

from benchmarks.gym import SlotTrace, by_rule, mean_slots, play, with_errors
from benchmarks.learning import Adam, Lesson, drawn_scorer, gradient, improve
from benchmarks.lessons import trace_of_testbed
from optimus.allocation.scorer import FEATURES, NAMES, Scorer, with_context
from optimus.policies.dl2 import Dl2Policy
from optimus.policies.optimus import OptimusPolicy
from optimus.resources import Resources
from tests.unit.policies.problems import candidate
from tests.unit.policies.test_dl2 import learned


def three_jobs(_: int) -> SlotTrace:
    """Jobs that compete for 16 tasks; each half as much work as the next."""
    counts = np.arange(17)
    speed = 0.2 * (counts[:, None] * counts / np.maximum(counts[:, None] + counts, 1)) ** 0.5
    return SlotTrace(
        tuple(candidate(f"job-{number}").job for number in range(3)),
        Resources(cpu=16_000),
        np.zeros(3, dtype=np.int64),
        np.array([0.25, 0.5, 1.0]),
        np.stack([speed] * 3),
    )


def test_the_gradient_is_that_of_the_loss() -> None:
    draw = np.random.default_rng(0)
    inputs = draw.normal(size=(6, 2 * len(FEATURES)))
    weights = {
        name: each + draw.normal(0, 0.1, each.shape)
        for name, each in drawn_scorer(1).weights.items()
    }

    def loss(scorer: Scorer) -> float:
        return float((scorer.score(inputs) ** 2).sum() / 2)

    scorer = Scorer(weights)
    found = gradient(scorer, inputs, scorer.score(inputs))
    for name in NAMES:
        at = tuple(int(draw.integers(0, size)) for size in weights[name].shape)
        step = np.zeros_like(weights[name])
        step[at] = 1e-6
        up, down = (loss(Scorer({**weights, name: weights[name] + s})) for s in (step, -step))
        assert found[name][at] == pytest.approx((up - down) / 2e-6, rel=1e-4, abs=1e-6)


def test_order_of_jobs_does_not_matter() -> None:
    features, order = np.random.default_rng(2).normal(size=(4, len(FEATURES))), [2, 0, 3, 1]
    scorer = drawn_scorer(1)
    scorer = Scorer({**scorer.weights, "w3": np.ones_like(scorer.weights["w3"])})
    one = scorer.score(with_context(features))
    other = scorer.score(with_context(features[order]))
    assert other == pytest.approx(one[order])


def test_jobs_are_counted_while_they_are_there() -> None:
    there = play(three_jobs(0), by_rule(OptimusPolicy()))
    assert there[0] == 3
    assert 0 < there[-1] < 1
    assert mean_slots(three_jobs(0), OptimusPolicy()) == pytest.approx(there.sum() / 3)


def test_it_begins_as_its_teacher() -> None:
    beginning = mean_slots(three_jobs(0), Dl2Policy(learned(), OptimusPolicy()))
    assert beginning == mean_slots(three_jobs(0), OptimusPolicy())


def test_traces_of_the_testbed_are_the_same_by_seed() -> None:
    one, same, other = (trace_of_testbed(seed) for seed in (3, 3, 4))
    assert (one.speed == same.speed).all()
    assert (one.speed != other.speed).any()
    assert len(one.jobs) == 20


def test_forecasts_may_be_wrong() -> None:
    trace = three_jobs(0)
    wrong = with_errors(trace, 0.1, np.random.default_rng(1)).forecast
    assert wrong is not None
    parts = np.round(wrong[:, 1:, 1:] / trace.speed[:, 1:, 1:], 6)
    assert np.unique(parts).tolist() == [0.9, 1.1]


def test_it_learns_to_end_jobs_sooner() -> None:
    # What is drawn is the same in each step.
    adam, scorer = Adam(3e-2), drawn_scorer(1)
    means = list[float]()
    for _ in range(6):
        lessons = [Lesson(three_jobs, 0, scorer, (1, number)) for number in range(8)]
        episodes = [each.play() for each in lessons]
        means.append(float(np.mean([each.there.sum() for each in episodes])))
        scorer = improve(scorer, episodes, adam)
    assert means[-1] < means[0]
