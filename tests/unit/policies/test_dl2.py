"""The policy ``dl2``: what it chooses, where another decides, and its weights as a file."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from optimus.allocation import AllocationProblem
from optimus.allocation.deadline import Deadline
from optimus.allocation.fairness import PROPORTIONAL, JobObjective
from optimus.allocation.problem import NamespaceShare
from optimus.allocation.scorer import FEATURES, MOST, NAMES, ROOM, Learned, Scorer
from optimus.jobs import Counts
from optimus.policies import policy_named
from optimus.policies.dl2 import Dl2Policy
from optimus.policies.optimus import OptimusPolicy
from optimus.quotas import Quota, QuotaCharge
from optimus.resources import Resources
from tests.cases import cases
from tests.unit.policies.drawn import problems
from tests.unit.policies.problems import candidate, problem, used

EVERYWHERE = np.full(len(FEATURES), 1e6)


def learned(**weights: float | tuple[float, ...]) -> Learned:
    """Weights of 0 but for these biases; they hold everywhere."""
    drawn = Scorer.drawn(len(FEATURES), len(ROOM), 1)
    values = {name: np.zeros_like(each) for name, each in drawn.weights.items()}
    for name, value in weights.items():
        values[name] = values[name] + np.array(value)
    return Learned(Scorer(values), -EVERYWHERE, EVERYWHERE, 10, "drawn", 1, 0)


STOPS, GROWS = learned(stop_bias=1.0), learned(stop_bias=-1.0, b3=(0.0, 0.0, 1.0))


def policy(weights: Learned) -> Dl2Policy:
    return Dl2Policy(weights, OptimusPolicy())


def two_jobs(cores: int = 8) -> AllocationProblem:
    return problem(Resources(cpu=1000 * cores), candidate("a"), candidate("b"))


def test_the_scores_decide_while_they_are_not_worse_by_forecast() -> None:
    answer = policy(GROWS).allocate(problem(Resources(cpu=12_000), candidate("a")))
    assert answer.counts == {"a": Counts(6, 6)}
    assert answer.reasons["a"] == f"6 PS + 6 workers by what was learned ({GROWS.mark})"


def test_optimus_decides_where_what_was_learned_is_worse() -> None:
    answer, usual = policy(STOPS).allocate(two_jobs()), OptimusPolicy().allocate(two_jobs())
    assert answer.counts == usual.counts
    assert answer.reasons["a"].startswith("optimus decides, since by forecast jobs would take ")
    assert answer.reasons["a"].endswith(usual.reasons["a"])


@cases(
    ("change", "why"),
    {
        "a deadline": (
            lambda given: replace(
                given,
                candidates=(
                    replace(given.candidates[0], deadline=Deadline(100.0)),
                    *given.candidates[1:],
                ),
            ),
            "a job has a deadline",
        ),
        "a weight": (
            lambda given: replace(
                given,
                candidates=(
                    replace(given.candidates[0], objective=JobObjective(2.0, PROPORTIONAL, 1.0)),
                    *given.candidates[1:],
                ),
            ),
            "its jobs differ in weight or fairness",
        ),
        "namespaces": (
            lambda given: replace(given, shares=(NamespaceShare("team"), NamespaceShare("other"))),
            "several namespaces share the nodes",
        ),
        "more jobs": (
            lambda given: replace(
                given, candidates=tuple(candidate(f"job-{number}") for number in range(11))
            ),
            "there are more than the 10 jobs of the training",
        ),
    },
)
def test_optimus_decides_what_was_not_there_in_training(change: object, why: str) -> None:
    assert callable(change)
    given = change(two_jobs())
    answer = policy(GROWS).allocate(given)
    assert answer.counts == OptimusPolicy().allocate(given).counts
    assert all(
        each.startswith(f"optimus decides, since {why}: ") for each in answer.reasons.values()
    )


def test_optimus_decides_outside_the_range_of_the_training() -> None:
    narrow = replace(GROWS, low=np.zeros(len(FEATURES)), high=np.zeros(len(FEATURES)))
    answer = policy(narrow).allocate(two_jobs())
    why = "remaining intervals of a job lies outside the range of the training"
    assert answer.reasons["a"].startswith(f"optimus decides, since {why}: ")


@settings(deadline=None)
@given(given_problem=problems())
def test_what_is_learned_keeps_to_capacity_and_bounds(given_problem: AllocationProblem) -> None:
    for weights in (GROWS, policy_named_weights()):
        answer = policy(weights).allocate(given_problem)
        assert used(given_problem, answer).fits_in(given_problem.available)
        for each in given_problem.candidates:
            counts = answer.counts.get(each.job.uid)
            assert counts is None or each.job.bounds.allow(counts)


def policy_named_weights() -> Learned:
    rule = getattr(policy_named("dl2"), "rule")  # noqa: B009 - of a policy of pools
    assert isinstance(rule, Dl2Policy)
    return rule.learned


def test_quotas_are_a_mask() -> None:
    charge = QuotaCharge(Resources(cpu=1000), Resources(cpu=1000))
    quota = Quota("team", "all", ("cpu",), Resources(cpu=12_000), {"a": charge})
    given = problem(Resources(cpu=100_000), candidate("a"))
    answer = policy(GROWS).allocate(replace(given, quotas=(quota,)))
    assert answer.counts == {"a": Counts(6, 6)}
    assert "by what was learned" in answer.reasons["a"]


def test_a_job_gets_no_more_of_a_role_than_in_training() -> None:
    answer = policy(GROWS).allocate(problem(Resources(cpu=100_000), candidate("a")))
    assert answer.counts == {"a": Counts(MOST, MOST)}


class TestFile:
    def test_what_was_written_is_read(self, tmp_path: Path) -> None:
        file = tmp_path / "w.npz"
        drawn = Scorer.drawn(len(FEATURES), len(ROOM), 3)
        before = Learned(drawn, -EVERYWHERE, EVERYWHERE, 7, "drawn", 3, 20)
        with file.open("wb") as opened:
            before.save(opened)
        after = Learned.load(str(file))
        assert (after.jobs, after.setting, after.seed, after.steps) == (7, "drawn", 3, 20)
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
            "other weights": ({"b1": np.ones(64, np.float32)}, "its hash is not that"),
            "another size": ({"b1": np.ones(3, np.float32)}, "b1 are not 64 finite numbers"),
            "no numbers": ({"b1": np.full(64, np.nan, np.float32)}, "b1 are not 64 finite"),
            "other features": (
                {"about": np.array(json.dumps({"features": ["x"], "room": []}))},
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
        GROWS.save(written)
        written.seek(0)
        with np.load(written) as arrays:
            values = {name: arrays[name] for name in arrays.files} | change
        file = tmp_path / "w.npz"
        np.savez(file, **values)
        with pytest.raises(ValueError, match=why) as problem_found:
            policy_named("dl2", {"weights": str(file)})
        assert "weights that `optimus train` has written are expected" in str(problem_found.value)

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
        with pytest.raises(ValueError, match="`optimus train` has written are expected"):
            policy_named("dl2", {"weights": str(file)})

    def test_a_file_that_is_not_there_and_other_options_are_refused(self) -> None:
        with pytest.raises(ValueError, match="No such file"):
            policy_named("dl2", {"weights": "/nowhere/w.npz"})
        with pytest.raises(ValueError, match="there is no option 'speed'"):
            policy_named("dl2", {"speed": 1})
        with pytest.raises(ValueError, match="the path of a file is expected, not 3"):
            policy_named("dl2", {"weights": 3})
