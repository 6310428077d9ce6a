"""The scorer, the gym and how the one learns in the other."""

import numpy as np
import pytest

from optimus.allocation.scorer import FEATURES, NAMES, ROOM, Scorer
from optimus.policies.optimus import OptimusPolicy
from optimus.simulator.gym import Sampler, Slot, run, start
from optimus.simulator.learning import Adam, improve, taught, warm_up
from optimus.simulator.lessons import taught_by, trace_of_testbed

TEACHER = taught_by(OptimusPolicy())


def test_the_gradient_is_that_of_the_loss() -> None:
    draw, batch, jobs = np.random.default_rng(0), 3, 4
    features, room = draw.normal(size=(batch, jobs, 5)), draw.normal(size=(batch, 2))
    present = draw.random((batch, jobs)) < 0.8
    allowed = np.hstack([np.repeat(present, 3, axis=1), np.ones((batch, 1), dtype=bool)])
    weights = dict(Scorer.drawn(5, 2, 1).weights)
    weights = {name: each + draw.normal(0, 0.1, each.shape) for name, each in weights.items()}

    def loss(scorer: Scorer) -> float:
        scored = scorer.score(features, room, present, allowed)
        return float(-np.log(scored.probability[:, -1]).sum())

    scored = Scorer(weights).score(features, room, present, allowed)
    outer = scored.probability.copy()
    outer[:, -1] -= 1
    gradient = Scorer(weights).gradient(scored, outer)
    for name in NAMES:
        at = tuple(int(draw.integers(0, size)) for size in weights[name].shape)
        step = np.zeros_like(weights[name])
        step[at] = 1e-6
        up, down = (loss(Scorer({**weights, name: weights[name] + s})) for s in (step, -step))
        assert gradient[name][at] == pytest.approx((up - down) / 2e-6, rel=1e-4, abs=1e-6)


def test_what_is_chosen_fits_and_all_jobs_end() -> None:
    trace = trace_of_testbed(3)
    sampler = Sampler(Scorer.drawn(len(FEATURES), len(ROOM), 1), np.random.default_rng(1))
    slot = Slot(trace, np.repeat(trace.work[None], 4, axis=0))
    for _ in range(50):
        ps, workers = sampler(slot)
        assert (slot.free(ps, workers) >= -1e-9).all()
        assert (ps[~slot.present] == 0).all()
        assert (ps >= start(slot)[0]).all()
        slot.pass_by(ps, workers)
    assert (run(trace, TEACHER) > 0).all()


def test_order_of_jobs_does_not_matter() -> None:
    draw = np.random.default_rng(2)
    features, room = draw.normal(size=(1, 4, 5)), draw.normal(size=(1, 2))
    every, allowed = np.ones((1, 4), dtype=bool), np.ones((1, 13), dtype=bool)
    scorer, order = Scorer.drawn(5, 2, 1), np.array([2, 0, 3, 1])
    one = scorer.score(features, room, every, allowed).probability[0, :-1].reshape(4, 3)
    other = scorer.score(features[:, order], room, every, allowed).probability[0, :-1]
    assert other.reshape(4, 3) == pytest.approx(one[order])


def test_it_learns_and_is_the_same_each_time() -> None:
    def learned() -> tuple[float, Scorer]:
        draw = np.random.default_rng(1)
        examples = taught([trace_of_testbed(10_001)], TEACHER, draw)
        drawn_at_first = Scorer.drawn(len(FEATURES), len(ROOM), 1)
        scorer = warm_up(drawn_at_first, examples, Adam(3e-3), draw, epochs=20)
        before, after = (
            run(trace_of_testbed(1), Sampler(each))[0] for each in (drawn_at_first, scorer)
        )
        scorer, _ = improve(scorer, trace_of_testbed(20_001), Adam(1e-3), draw, batch=2)
        return after / before, scorer

    (ratio, one), (_, other) = learned(), learned()
    assert ratio < 1
    assert all((one.weights[name] == other.weights[name]).all() for name in NAMES)
