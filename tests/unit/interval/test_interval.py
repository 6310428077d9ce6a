"""Decisions of one interval: cases on small clusters, and invariants of every plan."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.allocation import NO_HISTORY, JobHistory, PlacementFailure
from optimus.errors import NotReady
from optimus.interval import Action, Decision, IntervalConfig, IntervalInput, plan_interval
from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.classify import Eligibility, JobView, classify
from optimus.jobs import (
    AtTarget,
    CountBounds,
    Counts,
    FixedRole,
    Goal,
    Job,
    ReplicaSpec,
    RescaleRule,
    Role,
)
from optimus.models.forecast import Forecast
from optimus.placement.theorem1 import Theorem1
from optimus.progress.types import NOTHING
from optimus.resources import NONE, Resources
from optimus.snapshot import ClusterSnapshot
from tests.cases import cases
from tests.unit.interval.cases import AT, CASES, ON_NODE_00, Case, Expected
from tests.unit.interval.cluster import GOAL, TASK, bind, done, job, nodes, steps, strategies


@cases(("case", "expected"), CASES)
def test_decisions_of_a_small_cluster(case: Case, expected: dict[str, Expected]) -> None:
    decided = case.decisions()
    found = {name: (each.action, tuple(each.counts)) for name, each in decided.items()}
    assert found == {name: (each.action, each.counts) for name, each in expected.items()}
    for name, each in expected.items():
        assert each.reason in decided[name].reason


def decisions_with_wide_workers(count: int, cores: int) -> dict[str, Decision]:
    """Decisions for job ``a`` (workers of 3 cores) and job ``b`` (tasks of 1) on equal nodes.

    The sum of seconds is minimised, of which ``a`` has by far more."""
    wide = ReplicaSpec(Resources(cpu=3000))
    a, b = replace(job("a"), worker=wide), job("b")
    pods = [
        replace(pod, resources=spec.resources)
        for pod, spec in zip(bind(a, ON_NODE_00[:2]), (a.ps, wide), strict=True)
    ]
    snapshot = ClusterSnapshot.of(
        AT, [a, b], nodes(count, cores), [*pods, *bind(b, ["node-01"] * 2)]
    )
    known, seconds = (
        strategies({"a": steps(100_000), "b": steps(1000)}),
        IntervalConfig(fairness=None),
    )
    return {
        each.key.name: each
        for each in plan_interval("i7", IntervalInput(snapshot), known, seconds).decisions
    }


def test_capacity_too_fragmented_for_one_job_goes_to_another() -> None:
    decided = decisions_with_wide_workers(
        6, 5
    )  # 6 workers of 3 cores fit, one on each node; the total capacity would hold 9
    assert decided["a"].counts.workers == 6
    assert (
        "worker 7 does not fit: too little cpu, capacity on one node for a task of cpu=3000"
        in decided["a"].reason
    )
    assert decided["a"].counts.ps + sum(decided["b"].counts) == 2 * 6


def test_a_waiting_job_of_a_higher_priority_gets_the_capacity() -> None:
    """Both have no goal, and only one of them fits beside the elastic job at its minimum."""
    first, second = job("a", (1, 1), goal=None), job("b", (1, 2), goal=None, priority=5)
    elastic = job("e", (1, 4))
    pods = bind(elastic, ON_NODE_00[:5])
    snapshot = ClusterSnapshot.of(AT, [first, second, elastic], nodes(1, 5), pods)
    inputs, known = IntervalInput(snapshot), strategies({"e": steps(1000)})
    plan = plan_interval("i7", inputs, known, IntervalConfig())
    (decision,) = plan.decisions
    assert decision.counts == Counts(1, 1)
    assert (plan.capacity_plan.is_placed(second.uid), plan.capacity_plan.is_placed(first.uid)) == (
        True,
        False,
    )


@pytest.mark.parametrize("goal", [None, GOAL])
def test_the_event_on_a_preempted_job_names_the_preempting_job(goal: Goal | None) -> None:
    preempted = job("a", goal=goal, suspended=True, preempted_for="team/high")
    view = JobView(preempted, False, NotReady(""), NO_HISTORY, NOTHING, IntervalConfig(), AT)
    found = classify(view)
    assert found.eligibility is Eligibility.SUSPENDED
    assert found.reason == "paused for team/high; resumed by itself"


def test_shrinks_are_decided_before_grows() -> None:
    plan = CASES["a job at its goal gives its room to one that grows"][0].plan()
    actions = [each.action for each in plan.decisions]
    assert actions == [Action.SHRINK, Action.GROW]


def test_a_partly_bound_job_keeps_capacity_for_its_other_pods() -> None:
    half = job("half", (1, 3), goal=None)
    pods = bind(half, ON_NODE_00[:4])[:2] + bind(job("a"), ["node-01"] * 2)
    snapshot = ClusterSnapshot.of(AT, [half, job("a")], nodes(2, 4), pods)
    (decision,) = plan_interval(
        "i7", IntervalInput(snapshot), strategies({"a": steps(1000)}), IntervalConfig()
    ).decisions
    assert sum(decision.counts) == 4


def test_a_job_whose_lost_pods_no_longer_fit_shrinks() -> None:
    half = job("half", (1, 3))
    snapshot = ClusterSnapshot.of(AT, [half], nodes(1, 3), bind(half, ON_NODE_00[:4])[:2])
    (decision,) = plan_interval(
        "i7", IntervalInput(snapshot), strategies({}), IntervalConfig()
    ).decisions
    assert decision.counts == Counts(1, 2), "as many as fit"
    assert "not all of its 1 PS + 3 workers are placed" in decision.reason


def test_fixed_roles_are_part_of_the_demand() -> None:
    chief = job("a", fixed=(FixedRole(Role.CHIEF, 1, ReplicaSpec(TASK)),))
    decided = Case([(chief, ON_NODE_00)], {"a": steps(1000)}).decisions()
    assert sum(decided["a"].counts) == 7


# -- invariants of every plan


@st.composite
def any_case(draw: st.DrawFn) -> Case:
    cluster = nodes(draw(st.integers(1, 4)), draw(st.integers(2, 8)))
    free = {node.name: node.allocatable["cpu"] // 1000 for node in cluster}
    jobs: list[tuple[Job, list[str]]] = []
    known: dict[str, Forecast] = {}
    history: dict[str, JobHistory] = {}
    for index in range(draw(st.integers(0, 5))):
        name = f"job{index}"
        counts = (draw(st.integers(1, 3)), draw(st.integers(1, 4)))
        each = job(
            name,
            counts,
            draw(st.sampled_from([job("x").goal, job("x").goal, job("x").goal, None])),
            created_at=float(draw(st.integers(0, 10))),
            bounds=CountBounds(
                draw(st.integers(1, 2)),
                draw(st.sampled_from([None, 3])),
                1,
                draw(st.sampled_from([None, 4])),
            ),
            rescale=draw(st.sampled_from(RescaleRule)),
            at_target=draw(st.sampled_from(AtTarget)),
            suspended=draw(st.sampled_from([False, False, False, True])),
        )
        where = [node for node, left in free.items() for _ in range(left)][: sum(counts)]
        if each.suspended or len(where) < sum(counts) or draw(st.booleans()):
            where = []
        for node in where:
            free[node] -= 1
        jobs.append((each, where))
        forecast = draw(st.sampled_from([None, steps(10), steps(1000), steps(50000), done()]))
        if forecast is not None:
            known[name] = forecast
        history[name] = draw(
            st.sampled_from(
                [
                    JobHistory(),
                    JobHistory(moves=(AT - 60,) * 5),
                    JobHistory(last_rescaled_at=AT - 1),
                    JobHistory(rescaling_to=Counts(1, 2)),
                    JobHistory(profiling_since=AT - 1),
                    JobHistory(
                        placement_failures=(
                            PlacementFailure(Counts(3, 4), Counts(1, 1), AT - 10_000, 600.0),
                        )
                    ),
                    JobHistory(
                        placement_failures=(
                            PlacementFailure(Counts(2, 2), Counts(1, 1), AT - 10, 600.0),
                        )
                    ),
                ]
            )
        )
    return Case(jobs, known, cluster, history)


@given(case=any_case(), data=st.data())
def test_the_plan_does_not_depend_on_the_order_of_jobs_and_nodes(
    case: Case, data: st.DataObject
) -> None:
    shuffled = replace(
        case,
        jobs=data.draw(st.permutations(case.jobs)),
        nodes=data.draw(st.permutations(case.nodes)),
    )
    assert repr(shuffled.plan()) == repr(case.plan())


@given(case=any_case())
def test_the_counts_after_all_decisions_fit_the_cluster(case: Case) -> None:
    """The jobs' demand at their decided counts is at most the cluster's capacity."""
    decided = case.decisions()
    total_cores = sum(node.allocatable["cpu"] for node in case.nodes)
    used = 0
    for each, where in case.jobs:
        decision = decided.get(each.key.name)
        moving = case.history[each.key.name].rescaling_to if each.managed else None
        takes_room = where or (decision is not None and decision.rescales)
        if (
            moving
            or each.suspended
            or (decision and decision.action is Action.SUSPEND)
            or not takes_room
        ):
            continue
        used += each.demand(decision.counts if decision else each.counts)["cpu"]
    assert used <= total_cores


@given(case=any_case())
def test_only_jobs_that_may_be_rescaled_are_rescaled_and_within_their_bounds(case: Case) -> None:
    decided = case.decisions()
    for each, where in case.jobs:
        history = case.history[each.key.name]
        if each.goal is None:
            assert each.key.name not in decided
            continue
        decision = decided[each.key.name]
        assert decision.reason
        if each.suspended or each.rescale is RescaleRule.NEVER or history.rescaling_to is not None:
            assert not decision.rescales
        if decision.rescales:
            assert each.bounds.allow(decision.counts)
        grows = decision.counts.ps > each.counts.ps or decision.counts.workers > each.counts.workers
        if history.rescales >= 20 and each.bounds.allow(each.counts) and where:
            assert not grows


@given(case=any_case())
def test_a_running_job_shrinks_only_with_a_reason(case: Case) -> None:
    """A running job shrinks only for another job, for changed bounds, or to finish sooner."""
    decided = case.decisions()
    for each, where in case.jobs:
        decision = decided.get(each.key.name)
        if (
            decision is None
            or decision.action is not Action.SHRINK
            or not where
            or not each.bounds.allow(each.counts)
        ):
            continue
        forecast = case.known[each.key.name]
        is_faster = forecast.at(decision.counts) < forecast.at(each.counts)
        assert is_faster or "releases capacity to" in decision.reason


def test_a_failed_move_changes_nothing_and_release_frees_all() -> None:
    a = job("a")
    snapshot = ClusterSnapshot.of(AT, [a], nodes(2, 4), bind(a, ON_NODE_00[:2]))
    plan = CapacityPlan.of(snapshot, Theorem1())
    before = dict(plan.free)
    assert plan.move(a, Counts(9, 9)) is not None
    assert plan.free == before
    assert plan.move(a, Counts(2, 2)) is None
    plan.release(a.uid)
    assert plan.free == {node.name: node.allocatable for node in snapshot.nodes}


LOST = job("lost", (1, 3))
"""A job of which one worker has lost its node; three of its four pods are on the other."""


def decided_of_lost(
    others: int, cores: int, known: dict[str, Forecast], history: JobHistory = NO_HISTORY
) -> dict[str, Decision]:
    """Decisions for it beside a job with so many workers, on one node."""
    other = job("other", (1, others))
    pods = bind(LOST, ON_NODE_00[:4])[:3] + bind(other, ON_NODE_00[: 1 + others])
    snapshot = ClusterSnapshot.of(AT, [LOST, other], nodes(1, cores), pods)
    inputs = IntervalInput(snapshot, {}, {LOST.uid: history})
    plan = plan_interval("i7", inputs, strategies(known), IntervalConfig())
    return {each.key.name: each for each in plan.decisions}


def test_a_lost_replica_is_replaced_at_the_same_counts_where_others_can_shrink() -> None:
    decided = decided_of_lost(4, 8, {"other": steps(10_000), "lost": steps(1000)})
    assert decided["lost"].counts == Counts(1, 3)
    assert sum(decided["other"].counts) < 5
    assert "has lost replicas" in decided["other"].reason


def test_without_room_a_job_that_lost_a_replica_goes_to_the_best_counts_that_fit() -> None:
    decided = decided_of_lost(1, 5, {"lost": steps(1000)})
    assert decided["lost"].counts == Counts(1, 2)


def test_a_replica_that_was_lost_a_moment_ago_is_waited_for() -> None:
    decided = decided_of_lost(1, 5, {"lost": steps(1000)}, JobHistory(lost_seconds=30.0))
    assert (decided["lost"].action, decided["lost"].counts) == (Action.KEEP, Counts(1, 3))


def test_a_job_of_which_a_trainer_has_succeeded_is_left_as_it_is() -> None:
    decided = decided_of_lost(1, 5, {"lost": steps(1000)}, JobHistory(is_ending=True))
    assert (decided["lost"].action, decided["lost"].counts) == (Action.KEEP, Counts(1, 3))
    assert "about to end" in decided["lost"].reason


@pytest.mark.parametrize("ended", [False, True])
def test_a_replica_that_has_ended_is_not_lost(ended: bool) -> None:
    pods = bind(LOST, ON_NODE_00[:4])
    pods[-1] = replace(pods[-1], resources=NONE, ended=True)
    snapshot = ClusterSnapshot.of(AT, [LOST], nodes(1, 3), pods if ended else pods[:-1])
    inputs = IntervalInput(snapshot)
    (decision,) = plan_interval("i7", inputs, strategies({}), IntervalConfig()).decisions
    assert (decision.counts == Counts(1, 3)) is ended
