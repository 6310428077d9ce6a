"""What a job has beyond its own counts is lent: jobs that wait have their own counts first."""

from dataclasses import replace

from optimus.allocation import JobHistory
from optimus.interval import Action
from optimus.jobs import Counts, RescaleRule
from tests.cases import cases
from tests.unit.interval.cases import AT, FULL, Case
from tests.unit.interval.cluster import job, steps

SMALL = JobHistory(user_counts=Counts(1, 2), saves_on_stop=True)
NEW = JobHistory(user_counts=Counts(1, 3))


def grown(history: JobHistory) -> Case:
    """A full cluster of one job, and a new one of 1 PS + 3 workers."""
    case = Case([(job("big", (3, 5)), FULL), (job("new", (1, 3)), [])], {"big": steps(1000)})
    case.history = {"big": history, "new": NEW}
    return case


def test_a_job_that_waits_starts_at_its_own_counts_on_what_was_lent() -> None:
    decisions = grown(SMALL).decisions()
    assert decisions["big"].action is Action.SHRINK
    assert "which waits for its 1 PS + 3 workers" in decisions["big"].reason
    assert decisions["new"].counts == Counts(1, 3)


@cases(
    "history",
    {
        "its own counts are as many": replace(SMALL, user_counts=Counts(3, 5)),
        "it loses what it has trained": replace(SMALL, saves_on_stop=False),
    },
)
def test_where_nothing_is_lent_it_starts_at_its_minimum(history: JobHistory) -> None:
    assert grown(history).decisions()["new"].counts == Counts(1, 1)


def test_within_its_cooldown_a_job_gives_back_and_does_not_grow() -> None:
    case = grown(replace(SMALL, last_rescaled_at=AT - 20))
    assert case.decisions()["new"].counts == Counts(1, 3)
    case.jobs = case.jobs[:1]
    assert case.decisions()["big"].action is Action.KEEP


@cases(
    ("own", "action"),
    {
        "the other has all of its own": (Counts(1, 1), Action.KEEP),
        "the other has not": (Counts(2, 4), Action.SHRINK),
    },
)
def test_nobody_goes_below_its_own_counts_for_growth_beyond_those_of_another(
    own: Counts, action: Action
) -> None:
    case = Case([(job("b", (2, 4)), FULL), (job("a"), ["node-01"] * 2)])
    case.known = {"a": steps(400), "b": steps(400)}
    case.history = {"b": JobHistory(user_counts=Counts(2, 4)), "a": JobHistory(user_counts=own)}
    assert case.decisions()["b"].action is action


def test_a_job_that_may_always_be_stopped_lends_too() -> None:
    case = grown(replace(SMALL, saves_on_stop=False))
    big, where = case.jobs[0]
    case.jobs[0] = replace(big, rescale=RescaleRule.ANY), where
    assert case.decisions()["new"].counts == Counts(1, 3)
