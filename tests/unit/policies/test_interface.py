"""The question of a whole cluster, its answer, traits and memory."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimus.allocation import NO_MEMORY, AllocationProblem, ClusterProblem, PolicyMemory, per_pool
from optimus.allocation.policy import Pause, PoolProblem, Refusal, grants
from optimus.placement import PLACEMENT_RULES
from optimus.policies import POLICIES, policy_named
from optimus.policies.drf import DrfPolicy
from optimus.policies.gavel_makespan import GavelMakespanPolicy
from optimus.policies.optimus import OptimusPolicy
from optimus.policies.srtf import SrtfPolicy
from optimus.resources import Resources
from tests.cases import cases
from tests.unit.policies.drawn import problems
from tests.unit.policies.problems import candidate, problem

REPOSITORY = Path(__file__).parents[3]


def asked(*pools: AllocationProblem) -> ClusterProblem:
    return ClusterProblem(0.0, tuple(map(PoolProblem, pools)))


@settings(deadline=None)
@given(given_problem=problems())
def test_a_rule_of_one_pool_grants_what_it_allocates_and_leaves_nobody_out(
    given_problem: AllocationProblem,
) -> None:
    for rule in (DrfPolicy(), OptimusPolicy(), SrtfPolicy()):
        alone = rule.allocate(given_problem)
        answer, memory = per_pool(rule).decide(asked(given_problem), NO_MEMORY, 1)
        assert {uid: grant.counts for uid, grant in grants(answer).items()} == alone.counts
        uids = [each.job.uid for each in given_problem.candidates]
        said = {uid: each.reason for uid, each in answer.items()}
        assert said == {uid: alone.reasons[uid] for uid in uids}
        assert memory == NO_MEMORY


def test_a_running_job_without_counts_is_paused_and_a_waiting_one_refused() -> None:
    pool = problem(Resources(cpu=1000), candidate("runs", running=True), candidate("waits"))
    answer, _ = policy_named("drf").decide(asked(pool), NO_MEMORY, 1)
    assert {uid: type(each) for uid, each in answer.items()} == {"runs": Pause, "waits": Refusal}
    assert "too little cpu" in answer["runs"].reason


def test_each_pool_is_shared_by_its_own_jobs() -> None:
    pools = (
        problem(Resources(cpu=4000), candidate("a")),
        problem(Resources(cpu=2000), candidate("b")),
    )
    answer, _ = policy_named("drf").decide(asked(*pools), NO_MEMORY, 1)
    assert {uid: sum(grant.counts) for uid, grant in grants(answer).items()} == {"a": 4, "b": 2}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_names_itself_and_a_placement_rule_that_there_is(name: str) -> None:
    policy = policy_named(name)
    assert policy.name == name
    assert policy.traits.placed_by in PLACEMENT_RULES


@pytest.mark.parametrize("name", POLICIES)
def test_traits_that_need_each_other_come_together(name: str) -> None:
    traits = policy_named(name).traits
    assert traits.preempts or not traits.time_shared
    assert traits.weighs_restarts or not (traits.refuses or traits.weighs_jobs)
    assert not (traits.weighs_restarts and traits.preempts)


def test_a_policy_is_its_module_and_its_row() -> None:
    """Of one that no test needs by its name nothing else that ships or is tested has it."""
    name = GavelMakespanPolicy.name
    folders = ("autoscaler", "chart", "extender", "manifests", "optimus", "tests/unit")
    naming = [
        str(path.relative_to(REPOSITORY))
        for folder in folders
        for path in sorted((REPOSITORY / folder).rglob("*"))
        if path.suffix in {".py", ".json", ".yaml", ".csv"} and name in path.read_text()
    ]
    assert naming == ["optimus/policies/gavel_makespan.py"]


class TestMemory:
    @given(data=st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False)))
    def test_comes_out_of_its_text_as_it_went_in(self, data: dict[str, float]) -> None:
        memory = PolicyMemory("gavel-las", 1, data)
        assert PolicyMemory.from_json(memory.as_json()) == memory

    def test_of_another_policy_or_version_is_not_read(self) -> None:
        memory = PolicyMemory("a", 2, {"x": 1})
        assert memory.of("a", 2) == {"x": 1}
        assert memory.of("b", 2) == memory.of("a", 1) == {}

    @cases(
        "text",
        {
            "a list": "[]",
            "without data": '{"policy": "a", "version": 1}',
            "no JSON": "{",
            "no version": '{"policy": "a", "version": "x", "data": {}}',
        },
    )
    def test_what_is_no_memory_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"."):
            PolicyMemory.from_json(text)

    def test_what_is_no_plain_data_is_not_written(self) -> None:
        with pytest.raises(TypeError):
            PolicyMemory("a", 1, {"x": object()}).as_json()
        with pytest.raises(ValueError, match="JSON"):
            PolicyMemory("a", 1, {"x": float("nan")}).as_json()

    def test_is_written_the_same_whatever_the_order_of_its_keys(self) -> None:
        one, other = PolicyMemory("a", 1, {"x": 1, "y": 2}), PolicyMemory("a", 1, {"y": 2, "x": 1})
        assert one.as_json() == other.as_json()
        assert json.loads(one.as_json())["data"] == {"x": 1, "y": 2}
