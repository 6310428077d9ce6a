"""Plans for an empty cluster: invariants of every plan, and cases that need trimming."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from optimus.allocation import (
    Allocation,
    AllocationProblem,
    Candidate,
    Policy,
    PolicyTraits,
    per_pool,
)
from optimus.cli.plan import Plan, plan
from optimus.interval.capacity_plan import Held
from optimus.jobs import CountBounds, Counts, FixedRole, Role
from optimus.nodes import Node
from optimus.policies import policy_named
from optimus.policies.optimus import OptimusPolicy
from optimus.policies.tetris import TetrisPolicy
from optimus.resources import Resources, total
from tests.unit.policies.problems import POOL_POLICIES, PaperSpeed, candidate
from tests.unit.properties import examples

tasks = st.builds(
    lambda cpu, gpu: Resources({"cpu": cpu, "gpu": gpu}),
    st.sampled_from([500, 1000, 2000]),
    st.sampled_from([0, 0, 1]),
)
speeds = st.builds(
    PaperSpeed,
    st.floats(1, 30),
    st.floats(0.01, 1),
    st.floats(0, 1),
    st.floats(0.001, 0.05),
    st.floats(0.001, 0.05),
)
bounds = st.builds(CountBounds, st.integers(1, 2), st.none() | st.integers(2, 6), st.integers(1, 3))


@st.composite
def candidates(draw: st.DrawFn) -> list[Candidate]:
    return [
        candidate(
            f"job-{index}",
            draw(speeds),
            draw(st.sampled_from([10.0, 1000.0])),
            ps=draw(tasks),
            worker=draw(tasks),
            bounds=draw(bounds),
            created_at=float(index % 2),
        )
        for index in range(draw(st.integers(0, 6)))
    ]


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    amounts = st.builds(
        lambda cpu, gpu: Resources({"cpu": cpu * 1000, "gpu": gpu}),
        st.integers(1, 9),
        st.integers(0, 2),
    )
    return [
        Node(f"n{at}", allocatable)
        for at, allocatable in enumerate(draw(st.lists(amounts, min_size=1, max_size=6)))
    ]


def plan_for(given: list[Candidate], cluster: list[Node], policy: Policy) -> Plan:
    return plan(given, cluster, policy, policy.traits.placed_by)


def held(found: Plan) -> Mapping[str, Sequence[Held]]:
    return found.interval.capacity_plan.held


def reason(found: Plan, uid: str) -> str:
    return next(each.reason for each in found.interval.decisions if each.uid == uid)


@examples(60)
@given(given_candidates=candidates(), cluster=nodes(), data=st.data())
def test_every_task_has_a_node_and_no_node_is_over_committed(
    given_candidates: list[Candidate],
    cluster: list[Node],
    data: st.DataObject,
) -> None:
    shuffled = data.draw(st.permutations(given_candidates))
    for policy in map(policy_named, POOL_POLICIES):
        found = plan_for(given_candidates, cluster, policy)
        used: dict[str, list[Resources]] = {node.name: [] for node in cluster}
        for each in given_candidates:
            uid = each.job.uid
            held_by_job = held(found).get(uid, ())
            assert len(held_by_job) == sum(found.counts.get(uid, (0, 0)))
            assert uid not in found.counts or each.job.bounds.allow(found.counts[uid])
            assert uid in found.counts or reason(found, uid)
            for one in held_by_job:
                used[one.node].append(one.resources)
        free = found.interval.capacity_plan.free
        for node in cluster:
            assert total(used[node.name]).fits_in(node.allocatable)
            assert free[node.name] == node.allocatable - total(used[node.name])
        again = plan_for(shuffled, cluster[::-1], policy)
        assert again.counts == found.counts
        assert dict(held(again)) == dict(held(found))


def cluster_of(count: int, cores: int) -> list[Node]:
    return [Node(f"n{at}", Resources(cpu=cores * 1000)) for at in range(count)]


@dataclass(frozen=True)
class Weighed:
    """Another policy, of which each change is weighed against its restart."""

    rule: TetrisPolicy
    name: str = "weighed"
    traits: PolicyTraits = OptimusPolicy.traits

    def allocate(self, problem: AllocationProblem) -> Allocation:
        return self.rule.allocate(problem)


def test_a_job_that_does_not_fit_gets_capacity_from_one_above_its_minimum() -> None:
    small = candidate("small", PaperSpeed(50.0, 0.01, 0.1, 0.0, 0.0), 10000.0)
    big = candidate("z-big", steps=1.0, ps=Resources(cpu=3000), worker=Resources(cpu=3000))
    found = plan_for([small, big], cluster_of(2, 4), policy_named("optimus"))
    assert found.counts["z-big"] == Counts(1, 1)
    assert found.counts["small"] == Counts(1, 1)


def test_a_policy_that_refuses_keeps_out_what_would_fit() -> None:
    able, hopeless = (
        candidate(uid, PaperSpeed(50.0, 0.01, 0.1, 0.0, 0.0), 100.0) for uid in ("able", "hopeless")
    )
    able = replace(able, job=replace(able.job, finish_by=3000.0))
    hopeless = replace(hopeless, job=replace(hopeless.job, finish_by=1.0))
    found = plan_for([able, hopeless], cluster_of(2, 4), policy_named("smd"))
    assert sum(found.counts["able"]) == 2 * 4
    assert "hopeless" not in found.counts
    by_optimus = plan_for([able, hopeless], cluster_of(2, 4), policy_named("optimus"))
    assert {*by_optimus.counts} == {"able", "hopeless"}


def test_a_starting_job_gets_all_that_is_left_beside_its_fixed_roles() -> None:
    chief = candidate("a", PaperSpeed(50.0, 0.01, 0.1, 0.0, 0.0), 10000.0)
    fixed = (FixedRole(Role.CHIEF, 1, chief.job.ps),)
    chief = replace(chief, job=replace(chief.job, fixed=fixed))
    found = plan_for([chief], cluster_of(2, 4), policy_named("optimus", {"min-gain-fraction": 0}))
    assert sum(found.counts["a"]) == 2 * 4 - 1


def test_fragmented_capacity_is_allocated_task_by_task() -> None:
    wide = candidate("wide", steps=5000.0, ps=Resources(cpu=3000), worker=Resources(cpu=3000))
    narrow = candidate("narrow", PaperSpeed(20.0, 0.1, 0.3, 0.01, 0.01))
    found = plan_for(
        [wide, narrow], cluster_of(4, 7), policy_named("optimus", {"min-gain-fraction": 0})
    )
    assert sum(found.counts["wide"]) > 2
    assert sum(each["cpu"] for each in found.interval.capacity_plan.free.values()) == 0


def test_a_task_larger_than_every_node_is_not_placed_and_others_get_the_capacity() -> None:
    """Eight nodes of one GPU: the total would hold four workers of two GPUs, no node holds one."""
    gpus = [Node(f"n{at}", Resources({"cpu": 8000, "gpu": 1})) for at in range(8)]
    pair = candidate("pair", worker=Resources({"cpu": 1000, "gpu": 2}))
    single = candidate("single", worker=Resources({"cpu": 1000, "gpu": 1}))
    found = plan_for([pair, single], gpus, policy_named("optimus"))
    assert "capacity on one node for a task of cpu=1000, gpu=2" in reason(found, "pair")
    assert found.counts == {"single": Counts(found.counts["single"].ps, 8)}


def test_cordoned_nodes_get_no_tasks() -> None:
    cluster = cluster_of(2, 8)
    cluster[0] = replace(cluster[0], cordoned=True)
    found = plan_for([candidate("a")], cluster, policy_named("optimus"))
    assert sum(found.counts["a"]) == 8
    assert {held.node for held in held(found)["a"]} == {"n1"}


def test_a_job_whose_growth_does_not_fit_keeps_its_placement() -> None:
    """Found by hypothesis: placed again after others had grown, the job did not fit."""
    speed, seconds = PaperSpeed(1.0, 1.0, 0.0, 0.03125, 0.03125), 10.0
    asks = [(500, 0, 1), (500, 0, 1), (500, 1, 1), (1000, 1, 2), (2000, 0, 1)]
    several = [
        candidate(
            f"job-{index}",
            speed,
            seconds,
            ps=Resources(cpu=500),
            worker=Resources(cpu=cpu, gpu=gpu),
            bounds=CountBounds(1, None, least),
            created_at=float(index % 2),
        )
        for index, (cpu, gpu, least) in enumerate(asks)
    ]
    amounts = [(1000, 0), (2000, 1), (8000, 2), (6000, 1), (8000, 1)]
    cluster = [Node(f"n{at}", Resources(cpu=cpu, gpu=gpu)) for at, (cpu, gpu) in enumerate(amounts)]
    found = plan_for(several, cluster, per_pool(Weighed(TetrisPolicy())))
    assert len(found.counts) == len(several)
    for uid, counts in found.counts.items():
        assert len(held(found)[uid]) == sum(counts)
