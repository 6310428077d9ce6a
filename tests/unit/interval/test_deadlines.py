"""Deadlines in an interval: who moves, who gives, and what is said of each."""

from dataclasses import replace

import pytest

from optimus.allocation import JobHistory
from optimus.allocation.deadline import DeadlineOutlook
from optimus.interval import Action
from optimus.jobs import CountBounds, Counts, JobKey
from optimus.models.forecast import Forecast
from tests.cases import cases
from tests.unit.interval.cases import AT, FULL, OFTEN, ON_NODE_00, Case
from tests.unit.interval.cluster import Sync, done, job, nodes, steps


def outlook_of(case: Case, name: str = "a") -> DeadlineOutlook:
    found = case.decisions()[name].deadline
    assert found is not None
    return found


def t90(counts: Counts, of: float = 1000) -> float:
    return steps(of).at(counts)


def test_a_job_is_moved_to_the_least_that_is_in_time() -> None:
    one = job("a", finish_by=AT + 5000)
    (decision,) = Case([(one, ON_NODE_00)], {"a": steps(1000)}).decisions().values()
    assert decision.action is Action.GROW
    assert sum(decision.counts) < 8
    assert 1.05 * t90(decision.counts) + 60 <= 5000
    assert "the least that meet its deadline" in decision.reason


def test_one_that_is_in_time_stays_where_it_is() -> None:
    one = job("a", finish_by=AT + 9000)
    case = Case([(one, ON_NODE_00)], {"a": steps(1000)})
    (decision,) = case.decisions().values()
    assert (decision.action, decision.counts) == (Action.KEEP, Counts(1, 1))
    found = outlook_of(case)
    assert found.is_met
    assert found.late_seconds == t90(Counts(1, 1))
    assert found.seconds == 9000


def test_a_deadline_is_reason_enough_for_a_restart_that_saves_little() -> None:
    fast = steps(1000, Sync(work=0.4, fixed=8.0))
    now = fast.at(Counts(1, 1))
    one = job("a", finish_by=AT + now - 1)
    kept = Case([(job("a"), ON_NODE_00)], {"a": fast}).decisions()["a"]
    assert kept.action is Action.KEEP
    found = Case([(one, ON_NODE_00)], {"a": fast}, history={"a": JobHistory(prices=(0.5,))})
    found.rules = replace(found.rules, hysteresis_fraction=0.01)
    assert found.decisions()["a"].action is Action.GROW


def test_others_shrink_for_it_down_to_what_the_policy_leaves_them() -> None:
    late = job("late", finish_by=AT + 5000)
    case = Case([(job("big", (2, 4)), FULL[:6]), (late, FULL[6:])])
    case.known = {"big": steps(1e6), "late": steps(1000)}
    found = case.decisions()
    assert found["big"].action is Action.SHRINK
    assert "releases capacity to team/late" in found["big"].reason
    assert found["late"].action is Action.GROW
    assert found["late"].deadline is not None
    assert found["late"].deadline.is_met


def test_its_reason_names_no_job_of_another_namespace() -> None:
    late = job("late", finish_by=AT + 5000, key=JobKey("other", "late"))
    case = Case([(job("big", (2, 4)), FULL[:6]), (late, FULL[6:])])
    case.known = {"big": steps(1e6), "late": steps(1000)}
    reason = case.decisions()["big"].reason
    assert "releases capacity to a job of another namespace, which" in reason


def test_one_that_is_in_time_with_less_gives_the_rest_to_a_job_that_grows() -> None:
    case = Case([(job("a", (2, 4), finish_by=AT + 20_000), FULL[:6]), (job("b"), FULL[6:])])
    case.known = {"a": steps(1000), "b": steps(1000)}
    found = case.decisions()
    assert (found["a"].action, found["a"].counts) == (Action.SHRINK, Counts(1, 1))
    assert found["a"].deadline is not None
    assert found["a"].deadline.is_met
    assert found["b"].action is Action.GROW


def test_it_gives_nothing_that_it_needs() -> None:
    needed = t90(Counts(2, 4))
    case = Case([(job("a", (2, 4), finish_by=AT + needed + 1), FULL[:6]), (job("b"), FULL[6:])])
    case.known = {"a": steps(1000), "b": steps(1e6)}
    found = case.decisions()
    assert found["a"].action is Action.KEEP
    assert found["a"].deadline is not None
    assert found["a"].deadline.is_met


def test_without_use_for_the_rest_it_is_not_restarted() -> None:
    case = Case([(job("a", (3, 5), finish_by=AT + 20_000), FULL)], {"a": steps(1000)})
    assert case.decisions()["a"].action is Action.KEEP


@pytest.mark.parametrize("seconds", [100.0, -5.0])
def test_where_no_counts_are_in_time_that_is_said_and_it_grows_by_its_gain(seconds: float) -> None:
    case = Case([(job("a", finish_by=AT + seconds), ON_NODE_00)], {"a": steps(1000)})
    without = Case([(job("a"), ON_NODE_00)], {"a": steps(1000)}).decisions()["a"]
    decision = case.decisions()["a"]
    assert (decision.counts, decision.reason) == (without.counts, without.reason)
    found = outlook_of(case)
    assert not found.is_met
    assert not found.possible
    assert found.fastest is not None
    assert sum(found.fastest) <= 8
    assert found.fastest_seconds > found.seconds == seconds


def test_room_held_by_others_is_distinguished_from_an_impossible_deadline() -> None:
    late = job("late", finish_by=AT + 5000)
    held = job("held", (2, 4), bounds=CountBounds(2, 2, 4, 4))
    case = Case([(held, FULL[:6]), (late, FULL[6:])], {"held": steps(1e6), "late": steps(1000)})
    found = outlook_of(case, "late")
    assert not found.is_met
    assert found.possible
    assert found.fastest is not None
    assert found.fastest_seconds <= 5000


def test_a_new_job_starts_at_the_least_that_is_in_time() -> None:
    case = Case([(job("a", (3, 5), finish_by=AT + 5000), [])], {"a": steps(1000)}, nodes(4, 4))
    decision = case.decisions()["a"]
    assert sum(decision.counts) < 8
    assert t90(decision.counts) <= 5000
    assert decision.deadline is not None
    assert decision.deadline.is_met


@cases(
    ("name", "known", "history"),
    {
        "goal met": ("a job whose goal is met", done(), JobHistory()),
        "no forecast": ("a job without a forecast", None, JobHistory()),
    },
)
def test_nothing_is_said_of(name: str, known: Forecast | None, history: JobHistory) -> None:
    case = Case([(job("a", finish_by=AT + 10), ON_NODE_00)], {}, history={"a": history})
    case.known = {} if known is None else {"a": known}
    assert case.decisions()["a"].deadline is None, name


def test_of_a_job_that_is_not_moved_it_is_said_too() -> None:
    case = Case([(job("a", finish_by=AT + 5000), ON_NODE_00)], {"a": steps(1000)})
    case.history = {"a": JobHistory(held="paused by its user")}
    assert case.decisions()["a"].action is Action.KEEP
    found = outlook_of(case)
    assert not found.is_met
    assert found.possible


@cases(
    "history",
    {
        "being measured": JobHistory(profiling_since=AT - 10),
        "cooldown": JobHistory(last_rescaled_at=AT - 10),
        "being moved": JobHistory(rescaling_to=Counts(1, 2)),
    },
)
def test_it_is_known_that_a_job_has_not_been_decided_on_yet(history: JobHistory) -> None:
    young = job("a", finish_by=AT + 4000, created_at=AT)
    case = Case([(young, ON_NODE_00)], {"a": steps(1000)})
    assert outlook_of(case).is_met
    case.history = {"a": history}
    found = outlook_of(case)
    assert not found.is_met
    assert found.provisional
    assert not found.is_at_risk
    half_over = replace(young, created_at=AT - 4000)
    case.jobs = [(half_over, ON_NODE_00)]
    assert outlook_of(case).is_at_risk, "half of its time has passed"


def test_a_job_that_is_in_time_at_its_own_counts_is_not_moved() -> None:
    """Others get what is free; it neither grows nor gives."""
    case = Case([(job("late", finish_by=AT + 1e6), ON_NODE_00)], {"late": steps(1000)})
    case.history = {"late": JobHistory(user_counts=Counts(1, 1))}
    kept = case.decisions()["late"]
    assert kept.action is Action.KEEP
    assert "met at its own 1 PS + 1 worker" in kept.reason
    case.jobs = [(job("late", finish_by=AT + 4000), ON_NODE_00)]
    assert case.decisions()["late"].action is Action.GROW


def test_a_job_that_was_moved_often_keeps_what_a_deadline_would_need() -> None:
    """It gives to waiting jobs, and to none that grows."""
    big, late = job("big", (2, 4)), job("late", finish_by=AT + 5000)
    case = Case([(big, FULL[:6]), (late, FULL[6:])], {"big": steps(1000), "late": steps(1000)})
    assert case.decisions()["big"].action is Action.SHRINK
    case.history = {"big": OFTEN}
    found = case.decisions()
    assert found["big"].action is Action.KEEP
    assert found["late"].action is Action.KEEP
