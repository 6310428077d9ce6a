"""What a job has beyond its own counts is lent: jobs that wait have their own counts first."""

from dataclasses import replace

from optimus.allocation import JobHistory
from optimus.interval import Action
from optimus.jobs import CountBounds, Counts, Job, ReplicaSpec, RescaleRule
from tests.cases import cases
from tests.unit.interval.cases import AT, FULL, Case, on_two_nodes
from tests.unit.interval.cluster import TASK, job, nodes, steps

SMALL = JobHistory(user_counts=Counts(1, 2), saves_on_stop=True)
NEW = JobHistory(user_counts=Counts(1, 3))
MEDIUM, LARGE = ReplicaSpec(TASK * 2), ReplicaSpec(TASK * 3)


def grown(history: JobHistory) -> Case:
    """A full cluster of one job, and a new one of 1 PS + 3 workers."""
    case = Case([(job("big", (3, 5)), FULL), (job("new", (1, 3)), [])], {"big": steps(1000)})
    case.history = {"big": history, "new": NEW}
    return case


def test_a_job_that_waits_starts_at_its_own_counts_on_what_was_lent() -> None:
    decisions = grown(SMALL).decisions()
    assert decisions["big"].action is Action.SHRINK
    assert "which waits for 1 PS + 3 workers" in decisions["big"].reason
    assert decisions["new"].counts == Counts(1, 3)


def two_lenders() -> Case:
    """Two jobs that have grown alike fill a node each; a new one waits for half a node."""
    big = [job("a", (3, 5)), job("b", (3, 5))]
    case = Case([(big[0], ["node-00"] * 8), (big[1], ["node-01"] * 8), (job("new", (1, 3)), [])])
    case.nodes, case.known = nodes(2, 8), {"a": steps(1000), "b": steps(1000)}
    case.history = {"a": SMALL, "b": SMALL, "new": NEW}
    return case


def test_where_one_loan_is_not_enough_two_jobs_return_theirs() -> None:
    case = two_lenders()
    large = Counts(2, 8)
    case.jobs[2] = job("new", large), []
    case.history["new"] = JobHistory(user_counts=large)
    decisions = case.decisions()
    assert decisions["a"].action is decisions["b"].action is Action.SHRINK
    assert decisions["new"].counts == large


@cases(
    ("big", "where", "own", "new"),
    {
        "though a part of it is enough in sum": (
            job("big", (4, 8)),
            on_two_nodes("node-00", "node-01") + ["node-02"] * 4,
            Counts(1, 3),
            job("new", (1, 2), worker=LARGE),
        ),
        "though there is enough in sum": (
            job("big", (2, 4)),
            on_two_nodes("node-00", "node-01", 3),
            Counts(1, 2),
            job("new", ps=MEDIUM, worker=LARGE),
        ),
    },
)
def test_a_loan_goes_back_whole_where_each_node_has_too_little(
    big: Job, where: list[str], own: Counts, new: Job
) -> None:
    case = Case([(big, where), (new, [])])
    case.nodes, case.known = nodes(3, 4), {"big": steps(1000)}
    lends = replace(SMALL, user_counts=own)
    case.history = {"big": lends, "new": JobHistory(user_counts=new.counts)}
    plan = case.plan()
    assert {each.key.name: each.counts for each in plan.decisions} == {
        "big": own,
        "new": new.counts,
    }
    assert plan.capacity_plan.is_placed(new.uid)


def test_where_nothing_is_lent_it_waits_for_its_own_counts() -> None:
    decisions = grown(replace(SMALL, user_counts=Counts(3, 5))).decisions()
    assert {each.action for each in decisions.values()} == {Action.KEEP, Action.WAIT}


def test_where_both_users_allow_fewer_it_starts_at_its_minimum() -> None:
    case = grown(replace(SMALL, user_counts=Counts(3, 5)))
    less = CountBounds(min_ps_given=True, min_workers_given=True)
    case.jobs = [(replace(each, bounds=less), where) for each, where in case.jobs]
    assert case.decisions()["new"].counts == Counts(1, 1)


def test_for_a_job_of_a_higher_priority_others_go_below_their_own_counts() -> None:
    case = grown(replace(SMALL, user_counts=Counts(3, 5)))
    case.jobs[1] = job("new", (1, 3), priority=10), []
    assert case.decisions()["big"].action is Action.SHRINK


@cases(
    ("left", "others", "action"),
    {
        "beside short jobs": (20_000, 10, Action.SHRINK),
        "beside jobs that take as long": (20_000, 20_000, Action.KEEP),
        "for less than ten restarts": (50, 10, Action.KEEP),
    },
)
def test_where_a_job_would_wait_long_another_goes_below_its_own_counts(
    left: float, others: float, action: Action
) -> None:
    case = grown(replace(SMALL, user_counts=Counts(3, 5)))
    case.nodes = nodes(3, 4)
    case.jobs[1:] = [(job("new", (2, 4)), []), (job("other", (1, 3)), ["node-02"] * 4)]
    case.history |= {"new": JobHistory(), "other": JobHistory(user_counts=Counts(1, 3))}
    case.known = {"big": steps(left), "other": steps(others)}
    assert case.decisions()["big"].action is action
    case.rules = replace(case.rules, own_counts_first=False)
    assert case.decisions()["big"].action is Action.KEEP


def test_a_job_that_no_nodes_could_ever_hold_starts_with_fewer() -> None:
    case = grown(SMALL)
    case.jobs[1] = job("new", (9, 9)), []
    case.history["new"] = JobHistory(user_counts=Counts(9, 9))
    assert case.decisions()["new"].counts == Counts(1, 1)


def test_a_job_that_loses_what_it_has_trained_gives_back_outside_its_cooldown() -> None:
    loses = replace(SMALL, saves_on_stop=False)
    assert grown(loses).decisions()["new"].counts == Counts(1, 3)
    cools = replace(loses, last_rescaled_at=AT - 20)
    assert grown(cools).decisions()["new"].action is Action.WAIT


def test_within_its_cooldown_a_job_gives_back_and_does_not_grow() -> None:
    case = grown(replace(SMALL, last_rescaled_at=AT - 20))
    assert case.decisions()["new"].counts == Counts(1, 3)
    case.jobs = case.jobs[:1]
    assert case.decisions()["big"].action is Action.KEEP


def test_while_it_is_measured_a_job_gives_back_and_does_not_grow() -> None:
    case = grown(replace(SMALL, profiling_since=AT - 20, profiled=(Counts(3, 5),)))
    assert case.decisions()["new"].counts == Counts(1, 3)
    case.jobs = case.jobs[:1]
    assert case.decisions()["big"].action is Action.KEEP


@cases("own", {"all of its own": Counts(1, 1), "less than its own": Counts(2, 4)})
def test_nobody_goes_below_its_own_counts_for_the_growth_of_another(own: Counts) -> None:
    case = Case([(job("b", (2, 4)), FULL), (job("a"), ["node-01"] * 2)])
    case.known = {"a": steps(400), "b": steps(400)}
    case.history = {"b": JobHistory(user_counts=Counts(2, 4)), "a": JobHistory(user_counts=own)}
    assert case.decisions()["b"].action is Action.KEEP


def test_a_job_with_less_than_its_own_gets_back_what_was_lent_whatever_that_costs() -> None:
    case = Case([(job("b", (2, 4)), FULL), (job("a"), ["node-01"] * 2)])
    case.known = {"a": steps(120), "b": steps(5000)}
    lends = JobHistory(user_counts=Counts(1, 2), saves_on_stop=True, last_rescaled_at=AT - 20)
    case.history = {"b": lends, "a": JobHistory(user_counts=Counts(1, 1))}
    assert case.decisions()["b"].action is Action.KEEP
    case.history["a"] = JobHistory(user_counts=Counts(1, 3))
    assert case.decisions()["b"].action is Action.SHRINK


@cases(
    ("arrived_ago", "action"),
    {
        "as many as fit there each hour": ((7200, 3600), Action.GROW),
        "one each minute": ((600, 540, 480, 420, 360, 300, 240, 180, 120, 60), Action.KEEP),
        "none but itself, just now": ((20,), Action.GROW),
        "three of one command, just now": ((22, 21, 20), Action.GROW),
        "three by hand, just now": ((60, 40, 20), Action.KEEP),
    },
)
def test_what_the_next_jobs_need_is_not_lent(arrived_ago: tuple[int, ...], action: Action) -> None:
    case = Case([(job("a", (1, 2)), ["node-00"] * 3)], {"a": steps(200)})
    case.history = {"a": JobHistory(user_counts=Counts(1, 2))}
    case.arrived = tuple(job(f"j{ago}", (2, 4), created_at=AT - ago) for ago in arrived_ago)
    decision = case.decisions()["a"]
    assert decision.action is action
    if action is Action.KEEP:
        assert "of the time for which it would borrow them; a move needs" in decision.reason
        assert "a restart costs 60 s, and as much to return them" in decision.reason


def test_a_job_that_may_always_be_stopped_lends_too() -> None:
    case = grown(replace(SMALL, saves_on_stop=False))
    big, where = case.jobs[0]
    case.jobs[0] = replace(big, rescale=RescaleRule.ANY), where
    assert case.decisions()["new"].counts == Counts(1, 3)
