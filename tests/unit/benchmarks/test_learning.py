"""The scorer, the gym and how the one learns in the other."""

import numpy as np
import pytest

from benchmarks.gym import SlotTrace
from benchmarks.learning import Adam, Lesson, improve
from optimus.allocation.scorer import FEATURES, NAMES, Scorer
from optimus.resources import Resources
from tests.unit.policies.problems import candidate


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
        for name, each in Scorer.drawn(1).weights.items()
    }

    def loss(scorer: Scorer) -> float:
        return float((scorer.score(inputs).logarithm ** 2).sum() / 2)

    scored = Scorer(weights).score(inputs)
    gradient = Scorer(weights).gradient(scored, scored.logarithm)
    for name in NAMES:
        at = tuple(int(draw.integers(0, size)) for size in weights[name].shape)
        step = np.zeros_like(weights[name])
        step[at] = 1e-6
        up, down = (loss(Scorer({**weights, name: weights[name] + s})) for s in (step, -step))
        assert gradient[name][at] == pytest.approx((up - down) / 2e-6, rel=1e-4, abs=1e-6)


def test_it_learns_to_end_jobs_sooner() -> None:
    # What is drawn is the same in each step.
    adam, scorer = Adam(3e-2), Scorer.drawn(1)
    means = list[float]()
    for _ in range(6):
        lessons = [Lesson(three_jobs, 0, scorer, (1, number)) for number in range(8)]
        episodes = [each.play() for each in lessons]
        means.append(float(np.mean([each.there.sum() for each in episodes])))
        scorer = improve(scorer, episodes, adam)
    assert means[-1] < means[0]
