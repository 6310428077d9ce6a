"""Weights and fairness in the objective."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimus.allocation import Allocation, AllocationProblem, Candidate, JobHistory, per_pool
from optimus.allocation.fairness import Fairness, JobObjective, Objectives
from optimus.interval import Action, IntervalConfig, IntervalInput, plan_interval
from optimus.jobs import Job, JobKey
from optimus.policies.optimus import OptimusPolicy
from optimus.resources import Resources
from optimus.snapshot import ClusterSnapshot
from tests.unit.interval.cases import AT, Case
from tests.unit.interval.cluster import Sync, job, nodes, steps, strategies
from tests.unit.policies.drawn import problems
from tests.unit.policies.problems import candidate, problem

costs = st.builds(JobObjective, st.floats(0.1, 8), st.floats(0, 4))


def in_namespace(
    name: str, namespace: str, counts: tuple[int, int] = (1, 1), *, priority_class: str = ""
) -> Job:
    return job(name, counts, key=JobKey(namespace, name), priority_class=priority_class)


@given(objective=costs, seconds=st.floats(0, 1e6), less=st.floats(0, 1))
def test_the_arrays_say_what_the_formula_says(
    objective: JobObjective, seconds: float, less: float
) -> None:
    objectives = Objectives.of([None, objective])
    saved = seconds * less
    (worth,) = objectives.worth(np.array([1]), np.array([seconds]), np.array([saved]))
    expected = objective.cost(seconds) - objective.cost(seconds - saved)
    assert worth == pytest.approx(expected, rel=1e-6, abs=1e-6 * objective.cost(seconds) + 1e-9)
    (plain,) = objectives.worth(np.array([0]), np.array([seconds]), np.array([saved]))
    assert plain == pytest.approx(saved, rel=1e-6, abs=1e-6 * seconds + 1e-9)


@given(objective=costs, seconds=st.floats(0, 1e6), more=st.floats(0, 1e6))
def test_more_seconds_cost_more_and_ever_more(
    objective: JobObjective, seconds: float, more: float
) -> None:
    near, far = objective.cost(seconds + more), objective.cost(seconds + 2 * more)
    begin = objective.cost(seconds)
    assert begin <= near <= far
    assert far - near >= (near - begin) * (1 - 1e-6) - 1e-9 * far


@settings(deadline=None, max_examples=60)
@given(drawn=problems())
def test_equal_weights_without_fairness_change_no_counts(drawn: AllocationProblem) -> None:
    plain = JobObjective(1.0, 0.0)
    weighted = tuple(replace(each, objective=plain) for each in drawn.candidates)
    policy = OptimusPolicy()
    with_objectives = replace(drawn, candidates=weighted)
    assert policy.allocate(with_objectives).counts == policy.allocate(drawn).counts


class Recording:
    """The policy ``optimus``, and the candidates that it was given."""

    name = "recording"
    traits = OptimusPolicy.traits

    def __init__(self) -> None:
        self.candidates: tuple[Candidate, ...] = ()

    def allocate(self, given_problem: AllocationProblem) -> Allocation:
        self.candidates = given_problem.candidates
        return OptimusPolicy().allocate(given_problem)


@pytest.mark.parametrize("fairness", [None, Fairness(1.0)])
def test_without_weights_no_job_has_an_objective(fairness: Fairness | None) -> None:
    policy, waiting = Recording(), job("a")
    snapshot = ClusterSnapshot.of(AT, [waiting], nodes(1, 8), [])
    given_strategies = replace(strategies({"a": steps(1000)}), policy=per_pool(policy))
    config = IntervalConfig(fairness=fairness)
    plan_interval("i1", IntervalInput(snapshot), given_strategies, config)
    (found,) = policy.candidates
    assert (found.objective is None) == (fairness is None)


def test_a_heavier_job_gets_more_of_the_policy() -> None:
    equal = [replace(candidate(uid), objective=JobObjective(1.0, 0.0)) for uid in "ab"]
    heavy = replace(equal[0], objective=JobObjective(4.0, 0.0))
    room = Resources(cpu=14_000)
    counts = OptimusPolicy().allocate(problem(room, *equal)).counts
    weighted = OptimusPolicy().allocate(problem(room, heavy, equal[1])).counts
    assert sum(weighted["a"]) > sum(counts["a"])
    assert sum(weighted["b"]) < sum(counts["b"])


def test_a_weight_moves_capacity_between_running_jobs_where_it_is_worth_the_restarts() -> None:
    heavy = in_namespace("heavy", "h", priority_class="high")
    light = in_namespace("light", "l", counts=(3, 5))
    placed = [(heavy, ["node-00"] * 2), (light, ["node-00"] * 2 + ["node-01"] * 6)]
    known = {"heavy": steps(1000), "light": steps(1000)}
    weights = Fairness(0.0, {"high": 20.0})
    cluster = nodes(2, 6)

    def heavy_gets(fairness: Fairness | None) -> tuple[int, Action]:
        rules = IntervalConfig(fairness=fairness)
        found = Case(placed, known, nodes=cluster, rules=rules).decisions()
        return sum(found["heavy"].counts), found["light"].action

    plain, _ = heavy_gets(None)
    weighted, light_action = heavy_gets(weights)
    assert weighted > plain
    assert light_action is Action.SHRINK


def cooling_decision(ago: float) -> tuple[Action, str]:
    """Of a job that would be faster with less."""
    large, small = in_namespace("large", "l", counts=(6, 6)), in_namespace("small", "s")
    decided = Case(
        [(large, ["node-00"] * 8 + ["node-01"] * 4), (small, ["node-01"] * 2)],
        {"large": steps(1e4, Sync(work=1.0, overhead=0.5))},
        nodes=nodes(2, 8),
        history={"large": JobHistory(last_rescaled_at=AT - ago)},
    ).decisions()["large"]
    return decided.action, decided.reason


def test_a_job_that_was_just_rescaled_shrinks_for_no_gain_of_its_own() -> None:
    assert cooling_decision(ago=1000.0)[0] is Action.SHRINK
    action, reason = cooling_decision(ago=10.0)
    assert action is Action.KEEP
    assert "cooldown: rescaled 10 s ago" in reason


def test_what_a_job_releases_by_its_own_gain_is_there_for_others_at_once() -> None:
    """Fewer PSs and more workers, together less than it holds: no other job makes it shrink."""
    large, small = in_namespace("large", "l", counts=(7, 2)), in_namespace("small", "s")
    many_workers = steps(1e4, Sync(link=0.0, overhead=0.0))
    decided = Case(
        [(large, ["node-00"] * 6 + ["node-01"] * 3), (small, ["node-01"] * 2)],
        {"large": many_workers, "small": many_workers},
        nodes=nodes(2, 6),
    ).decisions()
    assert decided["large"].action is Action.CHANGE
    assert sum(decided["large"].counts) < 9
    assert sum(decided["small"].counts) >= 5
