"""A job that is moved goes on the kind of nodes on which it is fastest, where kinds differ."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from optimus.allocation import NO_HISTORY
from optimus.errors import NotReady
from optimus.interval import Action, IntervalInput, IntervalPlan, plan_interval
from optimus.interval.classify import IntervalConfig, JobView
from optimus.interval.node_kinds import LogFactors, UsualFactors
from optimus.jobs import CountBounds, Counts, Job, RescaleRule, Role
from optimus.nodes import NODE_KIND_LABEL, Node
from optimus.placement.first_kind import NO_ORDERS, KindOrders
from optimus.progress.types import NOTHING
from optimus.resources import Resources
from optimus.snapshot import ClusterSnapshot
from tests.cases import cases
from tests.unit.interval.cluster import bind, job, steps, strategies

FAST_IS_TWICE: LogFactors = {"fast": math.log(2) / 2, "slow": -math.log(2) / 2}
ALIKE: LogFactors = {"fast": 0.02, "slow": -0.02}
JOB = job("a")


def of_jobs(factors: LogFactors, count: int = 12) -> dict[str, LogFactors]:
    return {f"before-{number}": factors for number in range(count)}


@dataclass
class TwoKinds:
    """A job of 1 PS and 1 worker on a node of one of two kinds of 8 cores each."""

    runs_on: str = "slow"
    taken: Resources = field(default_factory=Resources)
    """Of the fast node."""
    cordoned: str = ""
    factors: dict[str, LogFactors] = field(default_factory=lambda: of_jobs(FAST_IS_TWICE))

    def plan(self) -> IntervalPlan:
        nodes = [
            Node(
                kind,
                Resources(cpu=8000, pods=110) - (self.taken if kind == "fast" else Resources()),
                labels={NODE_KIND_LABEL: kind},
                cordoned=kind == self.cordoned,
            )
            for kind in ("slow", "fast")
        ]
        snapshot = ClusterSnapshot.of(10_000.0, [JOB], nodes, bind(JOB, [self.runs_on] * 2))
        inputs = IntervalInput(snapshot, kind_factors=self.factors)
        known = strategies({"a": steps(1000)})
        return plan_interval("i1", inputs, known, IntervalConfig(fairness=None))

    def nodes_of_workers(self) -> set[str]:
        held = self.plan().capacity_plan.held[JOB.uid]
        return {each.node for each in held if each.replica.role is Role.WORKER}


def test_a_job_that_grows_moves_to_the_faster_kind() -> None:
    (decision,) = TwoKinds().plan().decisions
    assert decision.action is Action.GROW
    assert decision.kind == "fast"
    assert "; its workers on nodes of the kind fast; " in decision.reason
    assert TwoKinds().nodes_of_workers() == {"fast"}


@pytest.mark.parametrize(
    "factors", [of_jobs(ALIKE), of_jobs(FAST_IS_TWICE, 1), {}], ids=["alike", "one job", "unknown"]
)
def test_where_kinds_do_not_differ_by_more_than_chance_nobody_is_bound(
    factors: dict[str, LogFactors],
) -> None:
    case = TwoKinds(factors=factors)
    (decision,) = case.plan().decisions
    assert decision.kind is None
    assert decision.counts == TwoKinds(factors={}).plan().decisions[0].counts


def test_a_job_on_the_faster_kind_is_not_moved_to_the_slower_one() -> None:
    case = TwoKinds(runs_on="fast", taken=Resources(cpu=4000))
    (decision,) = case.plan().decisions
    assert Counts(1, 1) < decision.counts
    assert decision.counts.workers <= 4
    assert case.nodes_of_workers() == {"fast"}


def test_a_job_whose_nodes_take_no_new_pods_goes_anywhere() -> None:
    case = TwoKinds(runs_on="fast", cordoned="fast")
    (decision,) = case.plan().decisions
    assert decision.action is Action.GROW
    assert case.nodes_of_workers() == {"slow"}


def test_what_does_not_fit_on_the_faster_kind_stays_or_goes_on_the_other() -> None:
    case = TwoKinds(taken=Resources(cpu=8000))
    assert case.nodes_of_workers() == {"slow"}
    assert case.plan().decisions[0].kind == "slow"


def test_what_a_job_has_shown_itself_counts_beside_what_is_usual() -> None:
    usual = UsualFactors.of(list(of_jobs(FAST_IS_TWICE).values()))
    assert usual.order({}) == ("fast", "slow")
    assert usual.order({"fast": -1.0, "slow": 1.0}) == ("slow", "fast")


def test_the_factors_of_ended_jobs_are_kept_for_the_last_ones() -> None:
    many = of_jobs(FAST_IS_TWICE, 100)
    kept = TwoKinds(factors=many).plan().kind_factors
    assert list(kept) == list(many)[-64:]
    # Those of kinds that the cluster has no more say nothing.
    gone = of_jobs({"fast": 1.0, "gone": -1.0})
    assert not TwoKinds(factors=gone).plan().kind_factors


def test_jobs_measured_on_different_kinds_are_compared_by_those_on_both() -> None:
    jobs = [{"a": 0.5, "b": -0.5}] * 6 + [{"b": 1.5, "c": 0.5}] * 6
    usual = UsualFactors.of(jobs)
    assert usual.order({}) == ("a", "b", "c")
    assert usual.jobs == {"a": 6, "b": 12, "c": 6}


# --- for jobs that have not run yet


def orders_of(
    job_of_workload: Job, own: LogFactors | None = None, before: KindOrders = NO_ORDERS
) -> KindOrders:
    factors = of_jobs(FAST_IS_TWICE)
    usual = UsualFactors.of(list(factors.values()))
    factors |= {job_of_workload.uid: own} if own else {}
    view = JobView(job_of_workload, False, NotReady(""), NO_HISTORY, NOTHING, IntervalConfig(), 0.0)
    return usual.orders("kind", before, factors, [view])


def test_the_usual_order_is_that_of_new_jobs() -> None:
    orders = TwoKinds().plan().kind_orders
    assert orders == KindOrders(NODE_KIND_LABEL, ("fast", "slow"))
    assert TwoKinds(factors=of_jobs(ALIKE)).plan().kind_orders.usual == ()


def test_a_workload_whose_job_has_shown_another_order_has_its_own() -> None:
    of_workload = replace(JOB, workload="w")
    other = {("team", "w"): ("slow", "fast")}
    found = orders_of(of_workload, {"fast": -1.0, "slow": 1.0})
    assert found.workloads == other
    # It is kept once the job has ended, until another shows something else.
    assert orders_of(JOB, before=found).workloads == other
    assert not orders_of(of_workload, FAST_IS_TWICE, found).workloads
    assert orders_of(of_workload, {"fast": -0.4, "slow": 0.4}).workloads == {("team", "w"): ()}


def test_no_more_than_the_last_workloads_are_kept_and_none_with_kinds_that_are_gone() -> None:
    many: dict[tuple[str, str], tuple[str, ...]] = {
        ("ns", f"w-{number}"): ("slow", "fast") for number in range(40)
    }
    gone = {("ns", "w"): ("slow", "gone")}
    found = orders_of(JOB, before=KindOrders("kind", (), many | gone))
    assert list(found.workloads) == list(many)[-32:]


# --- jobs whose counts are fixed


@dataclass
class FixedJobs:
    """Jobs of 1 PS and 1 worker, this one on a slow node, or each on a fast one of its own."""

    steps_left: dict[str, float]
    on_fast: tuple[str, ...] = ()
    fast_nodes: int = 1
    factors: dict[str, LogFactors] = field(default_factory=lambda: of_jobs(FAST_IS_TWICE))
    settings: dict[str, Any] = field(default_factory=dict)

    def moved(self) -> dict[str, str]:
        """The kinds to which jobs go, by name."""
        one = {"bounds": CountBounds(1, 1, 1, 1), "rescale": RescaleRule.ANY, **self.settings}
        jobs = [job(name, **one) for name in self.steps_left]
        slow = Node("slow", Resources(cpu=9000, pods=110), labels={NODE_KIND_LABEL: "slow"})
        fast = [
            Node(f"fast-{n}", Resources(cpu=1000, pods=110), labels={NODE_KIND_LABEL: "fast"})
            for n in range(self.fast_nodes)
        ]
        where = dict(zip(self.on_fast, (node.name for node in fast), strict=False))
        pods = [
            pod for each in jobs for pod in bind(each, ["slow", where.get(each.key.name, "slow")])
        ]
        snapshot = ClusterSnapshot.of(10_000.0, jobs, [slow, *fast], pods)
        inputs = IntervalInput(snapshot, kind_factors=self.factors)
        known = strategies({name: steps(left) for name, left in self.steps_left.items()})
        decisions = plan_interval("i1", inputs, known, IntervalConfig()).decisions
        assert all(each.counts == (1, 1) for each in decisions)
        assert all((each.action is Action.CHANGE) == bool(each.kind) for each in decisions)
        return {each.key.name: each.kind for each in decisions if each.kind is not None}


def test_a_job_of_fixed_counts_goes_to_a_faster_kind_that_is_free() -> None:
    assert FixedJobs({"a": 5000}).moved() == {"a": "fast"}
    assert FixedJobs({"a": 5000}, on_fast=("a",)).moved() == {}


@cases(
    "case",
    {
        "its restart does not pay": FixedJobs({"a": 12}),
        "kinds are not known to differ": FixedJobs({"a": 5000}, factors=of_jobs(ALIKE)),
        "it is never moved": FixedJobs({"a": 5000}, settings={"rescale": RescaleRule.NEVER}),
        "it is not managed": FixedJobs({"a": 5000}, settings={"goal": None}),
    },
)
def test_it_stays_where(case: FixedJobs) -> None:
    assert "a" not in case.moved()


def test_of_several_that_want_a_kind_the_one_that_gains_most_gets_it() -> None:
    assert FixedJobs({"a": 90_000, "b": 5000, "c": 90_000}).moved() == {"b": "fast"}


def test_a_job_gets_a_full_kind_from_one_that_loses_less() -> None:
    held = FixedJobs({"long": 90_000, "short": 5000}, on_fast=("long",))
    assert held.moved() == {"short": "fast", "long": "slow"}
    back = FixedJobs({"long": 90_000, "short": 5000}, on_fast=("short",))
    assert back.moved() == {}


def test_a_job_with_a_deadline_gives_its_nodes_to_nobody() -> None:
    late = FixedJobs({"long": 90_000, "short": 5000}, on_fast=("long",))
    late.settings = {"finish_by": 20_000.0}
    assert late.moved() == {}


@pytest.mark.parametrize("own", ["shown by itself", "usual"])
def test_a_gang_of_several_kinds_goes_to_one(own: str) -> None:
    """Its workers on the faster one wait for the slowest at every step."""
    both = job("a", (1, 2), bounds=CountBounds(1, 1, 2, 2), rescale=RescaleRule.ANY)
    kinds = {"slow": 2000, "fast": 2000}
    nodes = [
        Node(kind, Resources(cpu=cpu, pods=110), labels={NODE_KIND_LABEL: kind})
        for kind, cpu in kinds.items()
    ]
    snapshot = ClusterSnapshot.of(10_000.0, [both], nodes, bind(both, ["slow", "slow", "fast"]))
    factors = of_jobs(FAST_IS_TWICE) | ({both.uid: FAST_IS_TWICE} if own != "usual" else {})
    plan = plan_interval(
        "i1",
        IntervalInput(snapshot, kind_factors=factors),
        strategies({"a": steps(5000)}),
        IntervalConfig(),
    )
    assert [each.kind for each in plan.decisions] == ["fast"]
