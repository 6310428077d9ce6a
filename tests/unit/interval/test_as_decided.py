"""All counts as a policy decides them, from scratch: who stays, who is placed where, who pauses."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from hypothesis import given
from hypothesis import strategies as st

from optimus.allocation import (
    NO_MEMORY,
    JobHistory,
    PlacementFailure,
    Policy,
    PolicyMemory,
    PolicyTraits,
)
from optimus.allocation.policy import (
    ClusterAllocation,
    ClusterProblem,
    Grant,
    Holding,
    Pause,
    Refusal,
    Service,
)
from optimus.interval import (
    Action,
    Decision,
    IntervalConfig,
    IntervalInput,
    IntervalPlan,
    Strategies,
    plan_interval,
)
from optimus.jobs import CountBounds, Counts, Job, RescaleRule
from optimus.models.forecast import Forecast
from optimus.nodes import NODE_KIND_LABEL, Node
from optimus.placement.theorem1 import Theorem1
from optimus.snapshot import ClusterSnapshot
from tests.cases import cases
from tests.unit.interval.cluster import KnownForecasts, bind, job, nodes, steps
from tests.unit.properties import examples

AT = 10_000.0
READS_NONE = PolicyTraits(placed_by="theorem1", reads_forecasts=False)
READS = PolicyTraits(placed_by="theorem1")
IN_TURNS = replace(READS_NONE, time_shared=True)
PAUSED = JobHistory(paused=True)


@dataclass
class Granting:
    """A policy that answers with these grants, by job name, and keeps its questions."""

    grants: Mapping[str, Grant]
    traits: PolicyTraits = READS_NONE
    name: str = "granting"
    asked: list[ClusterProblem] = field(default_factory=list)

    def decide(
        self, problem: ClusterProblem, memory: PolicyMemory, seed: int
    ) -> tuple[ClusterAllocation, PolicyMemory]:
        self.asked.append(problem)
        answer = dict[str, Grant | Pause | Refusal]()
        for pool in problem.pools:
            for each in pool.allocation.candidates:
                left_out = Pause("others first") if each.running else Refusal("others first")
                answer[each.job.uid] = self.grants.get(each.job.key.name, left_out)
        return answer, PolicyMemory("granting", 1, {"asked": len(self.asked)})


@dataclass
class Round:
    """One interval: jobs with the nodes of their pods (none: it waits)."""

    policy: Policy
    jobs: list[tuple[Job, list[str]]]
    nodes: list[Node] = field(default_factory=lambda: nodes(2, 4))
    known: dict[str, Forecast] = field(default_factory=dict)
    history: dict[str, JobHistory] = field(default_factory=dict)
    may_pause: bool = True
    at: float = AT

    def plan(self) -> IntervalPlan:
        pods = [pod for each, where in self.jobs if where for pod in bind(each, where)]
        snapshot = ClusterSnapshot.of(self.at, [each for each, _ in self.jobs], self.nodes, pods)
        inputs = IntervalInput(
            snapshot,
            history={f"uid-{name}": each for name, each in self.history.items()},
            received={"uid-a": Service(30.0)},
            may_pause=self.may_pause,
        )
        strategies = Strategies(self.policy, Theorem1(), KnownForecasts(self.known))
        return plan_interval("i7", inputs, strategies, IntervalConfig())

    def decisions(self) -> dict[str, Decision]:
        return {each.key.name: each for each in self.plan().decisions}


def granting(traits: PolicyTraits = READS_NONE, **grants: tuple[int, int]) -> Granting:
    return Granting({name: Grant(Counts(*each)) for name, each in grants.items()}, traits)


def on(node: str, tasks: int = 2) -> list[str]:
    return [node] * tasks


def outcome(decided: Mapping[str, Decision]) -> dict[str, tuple[Action, tuple[int, int]]]:
    return {name: (each.action, tuple(each.counts)) for name, each in decided.items()}  # type: ignore[misc]


def paused_of(case: Round) -> list[str]:
    decided = case.decisions().items()
    return sorted(name for name, each in decided if each.action is Action.PAUSE)


class TestWhoStays:
    def test_a_job_whose_counts_stay_keeps_its_nodes_though_others_would_suit_it_better(
        self,
    ) -> None:
        apart = ["node-00", "node-01"]
        found = Round(granting(a=(1, 1), b=(1, 3)), [(job("a"), apart), (job("b"), [])]).plan()
        assert sorted(each.node for each in found.capacity_plan.held["uid-a"]) == apart
        assert [(each.action, each.counts) for each in found.decisions] == [
            (Action.KEEP, Counts(1, 1)),
            (Action.GROW, Counts(1, 3)),
        ]

    def test_no_cooldown_and_no_limit_holds_a_job_back(self) -> None:
        moved = JobHistory(last_rescaled_at=AT - 10, moves=(AT - 10,) * 9, rescales=9)
        case = Round(granting(a=(2, 2)), [(job("a"), on("node-00"))], history={"a": moved})
        assert outcome(case.decisions()) == {"a": (Action.GROW, (2, 2))}

    @cases(
        ("held", "history"),
        {
            "it says never": (job("a", rescale=RescaleRule.NEVER), JobHistory()),
            "it is held": (job("a"), JobHistory(held="a window")),
            "it is profiled": (job("a"), JobHistory(profiling_since=AT - 5)),
            "it is about to end": (job("a"), JobHistory(is_ending=True)),
        },
    )
    def test_what_no_policy_changes_is_not_up_for_decision(
        self, held: Job, history: JobHistory
    ) -> None:
        policy = granting(a=(2, 2))
        case = Round(policy, [(held, on("node-00"))], history={"a": history})
        assert outcome(case.decisions()) == {"a": (Action.KEEP, (1, 1))}


class TestThePlace:
    def test_small_jobs_come_first_and_a_large_one_gets_fewer_tasks(self) -> None:
        jobs = [(job("large"), list[str]()), (job("small"), list[str]())]
        case = Round(granting(large=(2, 6), small=(1, 3)), jobs, history={"large": PAUSED})
        decided = case.decisions()
        assert outcome(decided) == {
            "large": (Action.RESUME, (2, 2)),
            "small": (Action.GROW, (1, 3)),
        }
        assert "trimmed from 2 PS + 6 workers" in decided["large"].reason

    def test_jobs_that_take_turns_get_all_of_their_tasks_or_none(self) -> None:
        jobs = [(job("large"), on("node-00")), (job("small"), list[str]())]
        case = Round(granting(IN_TURNS, large=(2, 6), small=(1, 3)), jobs)
        assert outcome(case.decisions()) == {
            "large": (Action.PAUSE, (1, 1)),
            "small": (Action.GROW, (1, 3)),
        }

    def test_counts_at_which_its_pods_found_no_place_are_not_tried(self) -> None:
        failure = PlacementFailure(Counts(2, 2), Counts(1, 1), AT - 60, 600.0)
        history = {"a": JobHistory(placement_failures=(failure,))}
        case = Round(granting(a=(2, 2)), [(job("a"), on("node-00"))], history=history)
        assert sum(case.decisions()["a"].counts) == 3

    def test_a_grant_of_a_kind_of_nodes_moves_the_job_there(self) -> None:
        kinds = {"node-00": "slow", "node-01": "fast"}
        cluster = [
            replace(each, labels={NODE_KIND_LABEL: kinds[each.name]}) for each in nodes(2, 4)
        ]
        policy = Granting({"a": Grant(Counts(1, 1), "fast"), "b": Grant(Counts(1, 1), "slow")})
        jobs = [(job("a"), on("node-00")), (job("b"), on("node-00"))]
        found = Round(policy, jobs, cluster).plan()
        assert {each.node for each in found.capacity_plan.held["uid-a"]} == {"node-01"}
        assert {each.key.name: (each.action, each.kind) for each in found.decisions} == {
            "a": (Action.CHANGE, "fast"),
            "b": (Action.KEEP, "slow"),
        }


class TestPauses:
    FULL: ClassVar = [(job("a", (1, 3)), on("node-00", 4)), (job("b", (1, 3)), on("node-01", 4))]

    def test_a_job_without_a_grant_is_paused(self) -> None:
        decided = Round(granting(b=(1, 3)), self.FULL).decisions()
        assert outcome(decided) == {"a": (Action.PAUSE, (1, 3)), "b": (Action.KEEP, (1, 3))}
        assert decided["a"].reason == "others first"

    def test_where_no_job_is_paused_it_keeps_its_nodes_and_the_others_go_beside_it(self) -> None:
        decided = Round(granting(b=(2, 6)), self.FULL, may_pause=False).decisions()
        assert outcome(decided) == {"a": (Action.KEEP, (1, 3)), "b": (Action.CHANGE, (2, 2))}
        assert decided["a"].reason == "others first; it keeps its nodes, as no job is paused"

    def test_a_paused_job_waits_until_it_is_granted_something(self) -> None:
        paused = job("a", suspended=True)
        for grants, expected in (({}, Action.WAIT), ({"a": (1, 1)}, Action.RESUME)):
            case = Round(granting(**grants), [(paused, [])], history={"a": PAUSED})  # type: ignore[arg-type]
            assert outcome(case.decisions()) == {"a": (expected, (1, 1))}

    def test_a_paused_job_that_other_jobs_than_the_policys_keep_out_is_resumed_into_the_queue(
        self,
    ) -> None:
        paused = job("a", suspended=True)
        fixed = [
            (job(f"f-{n}", (1, 3), rescale=RescaleRule.NEVER), on(f"node-{n:02}", 4))
            for n in range(2)
        ]
        for policy in (granting(), granting(READS)):  # decided by the policy, or without a forecast
            case = Round(policy, [(paused, []), *fixed], history={"a": PAUSED})
            decided = case.decisions()["a"]
            assert (decided.action, decided.counts) == (Action.RESUME, (1, 1))
            assert decided.reason.endswith("its pods wait in the queue")
        # What the policy grants to others is theirs.
        running = [(replace(each, rescale=RescaleRule.ANY), where) for each, where in fixed]
        policy = granting(READS_NONE, **{each.key.name: (1, 3) for each, _ in running})
        case = Round(policy, [(paused, []), *running], history={"a": PAUSED})
        assert case.decisions()["a"].action is Action.WAIT

    def test_a_suspension_by_its_user_stays(self) -> None:
        case = Round(granting(a=(1, 1)), [(job("a", suspended=True), [])])
        assert outcome(case.decisions()) == {"a": (Action.KEEP, (1, 1))}


class TestTheQuestion:
    def test_is_about_what_the_user_set_and_has_an_account_of_every_job(self) -> None:
        policy = granting(a=(1, 1))
        shrunk = JobHistory(user_counts=Counts(2, 2))
        jobs = [(job("a"), on("node-00")), (job("b"), list[str]())]
        found = Round(policy, jobs, history={"a": shrunk}).plan()
        (problem,) = policy.asked
        (pool,) = problem.pools
        assert [each.job.counts for each in pool.allocation.candidates] == [(2, 2), (1, 1)]
        assert pool.allocation.available["cpu"] == 8000
        assert [(each.kind, each.nodes) for each in pool.kinds] == [("", 2)]
        a, b = problem.account("uid-a"), problem.account("uid-b")
        assert (a.holds, a.received) == (Holding(Counts(1, 1)), Service(30.0))
        assert (b.holds, b.received) == (None, Service())
        assert found.memory == PolicyMemory("granting", 1, {"asked": 1}) != NO_MEMORY

    def test_a_job_without_the_forecast_that_a_policy_reads_starts_at_its_minimum(self) -> None:
        policy = granting(READS, b=(1, 1))
        bounds = CountBounds(1, None, 2)
        jobs = [(job("a", (2, 2), bounds=bounds), list[str]()), (job("b"), list[str]())]
        case = Round(policy, jobs, known={"b": steps(1000)})
        assert outcome(case.decisions()) == {
            "a": (Action.SHRINK, (1, 2)),
            "b": (Action.WAIT, (1, 1)),
        }
        (pool,) = policy.asked[0].pools
        assert [each.job.key.name for each in pool.allocation.candidates] == ["b"]
        assert pool.allocation.available["cpu"] == 5000


SIZES = st.tuples(st.integers(1, 3), st.integers(1, 3))


@examples(60)
@given(
    given_jobs=st.lists(st.tuples(SIZES, SIZES, st.integers(-1, 2)), min_size=1, max_size=6),
    may_pause=st.booleans(),
)
def test_no_node_is_over_committed_and_none_loses_its_nodes_unless_it_is_paused(
    given_jobs: list[tuple[tuple[int, int], tuple[int, int], int]], may_pause: bool
) -> None:
    """Jobs of these counts on one node each, or none, with grants of other counts."""
    cluster, used, jobs = nodes(3, 6), dict[int, int](), list[tuple[Job, list[str]]]()
    for number, (counts, _, node) in enumerate(given_jobs):
        runs = node >= 0 and used.get(node, 0) + sum(counts) <= 6
        if runs:
            used[node] = used.get(node, 0) + sum(counts)
        jobs.append((job(f"j{number}", counts), on(f"node-{node:02}", sum(counts)) if runs else []))
    policy = granting(
        READS_NONE, **{f"j{number}": each for number, (_, each, _) in enumerate(given_jobs)}
    )
    found = Round(policy, jobs, cluster, may_pause=may_pause).plan()
    held = found.capacity_plan.held
    tasks = Counter(each.node for uid in held for each in held[uid])
    assert all(count <= 6 for count in tasks.values())
    again = Round(policy, jobs[::-1], cluster[::-1], may_pause=may_pause).plan()
    assert again.decisions == found.decisions
    runs_now = {each.uid for each, where in jobs if where}
    for each in found.decisions:
        if each.uid in held:
            assert len(held[each.uid]) == sum(each.counts)
        assert (each.action is Action.PAUSE) <= may_pause
        assert each.uid in held or each.uid not in runs_now or each.action is Action.PAUSE
