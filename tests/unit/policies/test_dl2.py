"""The policy ``dl2``: what it chooses, where another decides, and its weights as a file."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from optimus.allocation import AllocationProblem
from optimus.allocation.scorer import FEATURES, NAMES, LearnedScorer, Scorer
from optimus.policies import policy_named
from optimus.policies.dl2 import Dl2Policy
from optimus.policies.optimus import OptimusPolicy
from optimus.resources import Resources
from tests.cases import cases
from tests.unit.policies.drawn import problems
from tests.unit.policies.problems import candidate, problem, used

EVERYWHERE = np.full(len(FEATURES), 1e6)


def learned(**weights: float) -> LearnedScorer:
    """Weights of 0 but for these biases; they hold everywhere."""
    values = {name: np.zeros_like(each) for name, each in Scorer.drawn(1).weights.items()}
    for name, value in weights.items():
        values[name] = values[name] + value
    return LearnedScorer(Scorer(values), -EVERYWHERE, EVERYWHERE, "drawn", 1, 0)


def smaller_first(strength: float) -> LearnedScorer:
    """A job that has less to do than the others counts more, one that has more less."""
    values = {name: each.copy() for name, each in learned().scorer.weights.items()}
    values["w1"][0, :2], values["w2"][:2, :2] = (-1.0, 1.0), np.eye(2)
    values["w3"][:2, 0] = strength, -strength
    return LearnedScorer(Scorer(values), -EVERYWHERE, EVERYWHERE, "drawn", 1, 0)


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


@settings(deadline=None)
@given(given_problem=problems())
def test_what_is_learned_keeps_to_capacity_and_bounds(given_problem: AllocationProblem) -> None:
    for weights in (smaller_first(1.0), policy_named_weights()):
        answer = policy(weights).allocate(given_problem)
        assert used(given_problem, answer).fits_in(given_problem.available)
        for each in given_problem.candidates:
            counts = answer.counts.get(each.job.uid)
            assert counts is None or each.job.bounds.allow(counts)


@settings(deadline=None)
@given(given_problem=problems())
def test_the_order_of_the_jobs_does_not_matter(given_problem: AllocationProblem) -> None:
    turned = replace(given_problem, candidates=given_problem.candidates[::-1])
    one, other = (policy(smaller_first(1.0)).allocate(each) for each in (given_problem, turned))
    assert one.counts == other.counts
    assert dict(one.reasons) == dict(other.reasons)


def policy_named_weights() -> LearnedScorer:
    rule = getattr(policy_named("dl2"), "rule")  # noqa: B009 - of a policy of pools
    assert isinstance(rule, Dl2Policy)
    return rule.learned


class TestFile:
    def test_what_was_written_is_read(self, tmp_path: Path) -> None:
        file = tmp_path / "w.npz"
        drawn = Scorer.drawn(3)
        before = LearnedScorer(drawn, -EVERYWHERE, EVERYWHERE, "drawn", 3, 20)
        with file.open("wb") as opened:
            before.save(opened)
        after = LearnedScorer.load(str(file))
        assert (after.setting, after.seed, after.steps) == ("drawn", 3, 20)
        assert after.mark == before.mark
        for name in NAMES:
            assert after.scorer.weights[name] == pytest.approx(drawn.weights[name], rel=1e-6)
        assert policy_named("dl2", {"weights": str(file)}).name == "dl2"

    def test_what_ships_was_learned_on_the_testbed(self) -> None:
        weights = policy_named_weights()
        assert (weights.setting, weights.seed) == ("testbed", 1)
        assert weights.steps > 0

    @cases(
        ("change", "why"),
        {
            "other weights": ({"b1": np.ones(32, np.float32)}, "its hash is not that"),
            "another size": ({"b1": np.ones(3, np.float32)}, "b1 are not 32 finite numbers"),
            "no numbers": ({"b1": np.full(32, np.nan, np.float32)}, "b1 are not 32 finite"),
            "other features": (
                {"about": np.array(json.dumps({"features": ["x"]}))},
                "its features are others",
            ),
            "nothing about it": ({"about": np.array("{}")}, "features"),
            "objects": ({"about": np.array([{}], dtype=object)}, "allow_pickle"),
        },
    )
    def test_other_weights_are_refused(
        self,
        change: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]],
        why: str,
        tmp_path: Path,
    ) -> None:
        written = io.BytesIO()
        learned().save(written)
        written.seek(0)
        with np.load(written) as arrays:
            values = {name: arrays[name] for name in arrays.files} | change
        file = tmp_path / "w.npz"
        np.savez(file, **values)
        with pytest.raises(ValueError, match=why) as problem_found:
            policy_named("dl2", {"weights": str(file)})
        assert "weights that `benchmarks.train_dl2` has written are expected" in str(
            problem_found.value
        )

    @cases(
        "content",
        {"no zip": b"weights", "nothing": b"", "cut": b"PK\x03\x04", "one array": None},
    )
    def test_other_files_are_refused(self, content: bytes | None, tmp_path: Path) -> None:
        file = tmp_path / "w.npz"
        if content is None:
            with file.open("wb") as opened:
                np.save(opened, np.ones(3))
        else:
            file.write_bytes(content)
        with pytest.raises(ValueError, match=r"`benchmarks\.train_dl2` has written are expected"):
            policy_named("dl2", {"weights": str(file)})

    def test_a_file_that_is_not_there_and_other_options_are_refused(self) -> None:
        with pytest.raises(ValueError, match="No such file"):
            policy_named("dl2", {"weights": "/nowhere/w.npz"})
        with pytest.raises(ValueError, match="there is no option 'speed'"):
            policy_named("dl2", {"speed": 1})
        with pytest.raises(ValueError, match="the path of a file is expected, not 3"):
            policy_named("dl2", {"weights": 3})
