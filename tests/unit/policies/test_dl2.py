"""The policy ``dl2``: what it chooses, where another decides, and its weights."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.learning import drawn_scorer
from optimus.allocation import AllocationProblem
from optimus.allocation.scorer import FEATURES, LearnedScorer, Scorer
from optimus.policies import policy_named
from optimus.policies.dl2 import Dl2Policy
from optimus.policies.optimus import OptimusPolicy
from optimus.resources import Resources
from tests.unit.policies.problems import candidate, problem

EVERYWHERE = np.full(len(FEATURES), 1e6)


def learned(**weights: float) -> LearnedScorer:
    """Weights of 0 but for these biases; they hold everywhere."""
    values = {name: np.zeros_like(each) for name, each in drawn_scorer(1).weights.items()}
    for name, value in weights.items():
        values[name] = values[name] + value
    return LearnedScorer(Scorer(values), -EVERYWHERE, EVERYWHERE, {"hash": "drawn"})


def smaller_first(strength: float) -> LearnedScorer:
    """A job that has less to do than the others counts more, one that has more less."""
    values = {name: each.copy() for name, each in learned().scorer.weights.items()}
    values["w1"][0, :2], values["w2"][:2, :2] = (-1.0, 1.0), np.eye(2)
    values["w3"][:2, 0] = strength, -strength
    return LearnedScorer(Scorer(values), -EVERYWHERE, EVERYWHERE, {"hash": "drawn"})


def policy(weights: LearnedScorer) -> Dl2Policy:
    return Dl2Policy(weights, OptimusPolicy())


def two_jobs(cores: int = 12) -> AllocationProblem:
    jobs = candidate("a", steps=1000.0), candidate("b", steps=1500.0)
    return problem(Resources(cpu=1000 * cores), *jobs)


def test_weights_of_1_leave_all_as_it_is() -> None:
    answer, usual = policy(learned()).allocate(two_jobs()), OptimusPolicy().allocate(two_jobs())
    assert answer.counts == usual.counts
    assert dict(answer.reasons) == dict(usual.reasons)


def test_a_job_whose_gain_counts_more_gets_more() -> None:
    weights = smaller_first(3.0)
    answer, usual = policy(weights).allocate(two_jobs(16)), OptimusPolicy().allocate(two_jobs(16))
    assert sum(answer.counts["a"]) > sum(usual.counts["a"])
    assert answer.reasons["a"].startswith(f"its gain counts 1.8 times ({weights.mark}): ")


def test_optimus_decides_where_what_was_learned_is_worse() -> None:
    answer, usual = policy(smaller_first(30)).allocate(two_jobs(32)), OptimusPolicy()
    assert answer.counts == usual.allocate(two_jobs(32)).counts
    assert answer.reasons["a"].startswith("optimus decides, since by forecast jobs would take ")


def test_a_job_unlike_those_of_the_training_counts_once() -> None:
    narrow = replace(smaller_first(1.0), low=-EVERYWHERE * 0, high=EVERYWHERE * 0)
    answer = policy(narrow).allocate(two_jobs(16))
    assert answer.counts == OptimusPolicy().allocate(two_jobs(16)).counts
    why = "not learned (size beside the others' lies outside the training): "
    assert answer.reasons["a"].startswith(why)


def policy_named_weights() -> LearnedScorer:
    rule = getattr(policy_named("dl2"), "rule")  # noqa: B009 - of a policy of pools
    assert isinstance(rule, Dl2Policy)
    return rule.learned


def test_what_ships_was_learned_on_the_testbed_by_these_features() -> None:
    about = policy_named_weights().about
    assert (about["setting"], about["seed"], about["features"]) == ("testbed", 1, [*FEATURES])
    assert about["steps"] > 0


def test_it_has_no_options() -> None:
    with pytest.raises(ValueError, match="there is no option 'speed': it has none"):
        policy_named("dl2", {"speed": 1})
