"""Rows of the table of jobs."""

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from autoscaler.web.rows import NOT_RUNNING, RUNNING, Waits, row_of
from optimus.errors import NotReady
from optimus.jobs import Counts, FixedRole, Role
from optimus.kube.contract import Phase
from optimus.kube.profiles import Condition, ConditionType, ProfileStatus, Truth
from optimus.kube.times import LAST_SECONDS
from optimus.kube.waiting_events import JobAhead, Wait
from optimus.models.convergence import TimeToGoal
from optimus.models.forecast import Forecast, time_left
from tests.cases import cases
from tests.unit.autoscaler.web.sample_cluster import SampleCluster


@cases(
    ("wait", "shown"),
    {
        "nothing more is known": (Wait(text="t"), Waits("t")),
        "behind jobs": (
            Wait(
                text="t",
                ahead=tuple(JobAhead(f"team/{at}", keeps) for at, keeps in enumerate((3, 1, 0, 0))),
                jobs_ahead=9,
            ),
            Waits("t", "team/0 (3 nodes kept free), team/1 (1 node kept free), team/2 and 6 more"),
        ),
        "with an expected time": (
            Wait(text="t", awaits="team/c", expected_at="2027-01-15T08:00:12Z"),
            Waits("t", "", 1_800_000_012.0, "team/c"),
        ),
        "a job without a forecast has to end": (
            Wait(text="t", awaits="team/c"),
            Waits("t", awaits="team/c"),
        ),
    },
)
def test_a_row_says_for_whom_its_job_waits_and_until_when(wait: Wait, shown: Waits) -> None:
    copy = SampleCluster(4).copy().jobs["uid-0"]
    assert row_of(copy._replace(wait=wait)).waits == shown


def test_the_quota_that_refuses_pods_is_said_before_that_they_do_not_exist() -> None:
    quota = "1 of its 3 pods cannot be created: it needs 3 of pods, quota q allows 2"
    found = needs(
        status={"phase": Phase.WAITING, "reason": quota},
        wait=Wait(text="waits for 1 of 3 pods that do not exist: worker-1"),
    )
    assert found[1] == quota


def test_a_job_is_shown_as_the_kind_that_its_user_knows() -> None:
    copy = SampleCluster(4).copy().jobs["uid-0"]._replace(kind="JobSet")
    assert row_of(copy).kind == "JobSet"
    assert row_of(copy._replace(submitted_kind="TrainJob")).kind == "TrainJob"


def test_the_interval_is_that_of_the_work_left() -> None:
    for copy in SampleCluster(12).copy().jobs.values():
        if isinstance(copy.forecast, Forecast) and copy.forecast.low_epochs:
            found = time_left(copy.forecast, Counts(2, 2))
            assert found is not None
            forecast = copy.forecast
            assert forecast.remaining_epochs is not None
            assert forecast.low_epochs is not None
            assert forecast.high_epochs is not None
            of = found.median / forecast.remaining_epochs
            assert found.low == pytest.approx(forecast.low_epochs * of, rel=0.01)
            assert found.high == pytest.approx(forecast.high_epochs * of, rel=0.01)


def test_a_job_that_is_over_has_no_time_left() -> None:
    for copy in SampleCluster(40).copy().jobs.values():
        row = row_of(copy)
        if row.phase in (Phase.COMPLETED, Phase.FAILED, Phase.LEFT_ALONE):
            assert (row.remaining, row.ends_at) == (None, None)
        if row.phase == Phase.WAITING:
            assert row.ends_at is None
            assert row.waits is not None


def test_a_job_without_end_has_one_that_a_browser_can_show() -> None:
    """``new Date`` fails beyond the year 275760, and the page shows the rows of all users."""
    copy = next(
        each for each in SampleCluster(12).copy().jobs.values() if row_of(each).ends_at is not None
    )
    status = msgspec.structs.replace(copy.status, remaining_seconds=1e99)
    endless = copy._replace(status=status, forecast=None)
    assert row_of(endless).ends_at == LAST_SECONDS


def test_a_row_of_a_job_without_parameter_servers_counts_its_master() -> None:
    copy = SampleCluster(4).copy().jobs["uid-0"]
    assert copy.job is not None
    assert row_of(copy).replicas == {}
    master = FixedRole(Role.MASTER, 1, copy.job.worker)
    job = replace(copy.job, counts=Counts(0, 3), fixed=(master,), chief_trains=True)
    placed = copy._replace(job=job, status=ProfileStatus(), forecast=None)
    assert row_of(placed).replicas == {"master": 1, "worker": 3}


def test_a_job_that_is_only_placed_has_ended_when_its_operator_says_so() -> None:
    rows = {
        each.name: each for each in map(row_of, SampleCluster(0, others=True).copy().jobs.values())
    }
    assert rows["gpt-placed"].phase == RUNNING
    assert (rows["gpt-ended"].phase, rows["gpt-ended"].outlook) == (Phase.COMPLETED, "")
    assert rows["gpt-ended"].reason == "PyTorchJob gpt-ended successfully completed."
    assert (rows["resnet-short"].remaining, rows["resnet-short"].outlook) == (None, "goal not met")


def outlook(**fields: Any) -> tuple[bool, str]:
    """Whether a time is shown, and what is said of the goal."""
    found = SampleCluster(4).copy().jobs["uid-0"]
    row = row_of(found._replace(**fields))
    return row.remaining is not None, row.outlook


def test_a_row_says_what_there_is_to_say_of_its_goal() -> None:
    found = SampleCluster(4).copy().jobs["uid-0"]
    assert isinstance(found.forecast, Forecast)
    assert found.job is not None
    none = ProfileStatus(phase=Phase.TRAINING)
    at_target = msgspec.structs.replace(found.status, phase=Phase.AT_TARGET)
    met = Condition(ConditionType.GOAL_MET, Truth.TRUE, "GoalMet", "", "2027-01-15T08:00:00Z")
    by_profile = msgspec.structs.replace(none, conditions=(met,), remaining_seconds=0)
    expected = replace(found.forecast, is_expected=True)
    assert outlook() == (True, "")
    assert outlook(forecast=expected) == (True, "estimated")
    assert outlook(forecast=replace(found.forecast, goal_met=True)) == (False, "goal met")
    assert outlook(status=at_target) == (False, "goal met")
    assert outlook(status=by_profile, forecast=None) == (False, "goal met"), "on a standby"
    assert outlook(status=none, forecast=NotReady("3 samples")) == (False, "no forecast yet")
    assert outlook(job=replace(found.job, goal=None), forecast=None, status=none) == (
        False,
        "no goal",
    )


def needs(**fields: Any) -> tuple[int, str]:
    """How urgently somebody has to look at a job that trains, with these fields, and why."""
    found = SampleCluster(4).copy().jobs["uid-0"]
    status = msgspec.structs.replace(found.status, **fields.pop("status", {}))
    row = row_of(found._replace(status=status, **fields))
    return row.rank, row.needs


def test_who_needs_somebody_says_why_the_most_urgent_first() -> None:
    wait, rarely = Wait(text="waits: 1 PS lacks a place"), np.array([0.03])
    forecast = SampleCluster(4).copy().jobs["uid-0"].forecast
    assert isinstance(forecast, Forecast)
    found = [
        needs(status={"phase": Phase.FAILING, "reason": "crashes"}),
        needs(status={"reason": "crashed"}, outcome="Failed"),
        needs(wait=Wait(text="waits: too large", never=True)),
        needs(status={"phase": Phase.LEFT_ALONE, "reason": "no number"}),
        needs(status={"deadline": "12:00: at risk: late"}),
        needs(forecast=replace(forecast, time_to_goal=TimeToGoal(np.array([60.0]), rarely))),
        needs(status={"complaint": "no losses"}),
        needs(wait=wait),
    ]
    assert [each[1] for each in found] == [
        "crashes",
        "crashed",
        "too large",
        "no number",
        "deadline 12:00: at risk: late",
        "goal unlikely: 3 %",
        "no losses",
        "1 PS lacks a place",
    ]
    ranks = [each[0] for each in found]
    assert ranks == sorted(ranks)
    assert needs() == needs(outcome="Succeeded") == (0, "")


def test_a_job_without_a_profile_is_shown_as_its_pods_are() -> None:
    copy = SampleCluster(4).copy().jobs["uid-0"]
    copy = copy._replace(status=ProfileStatus(), forecast=None)
    row = row_of(copy._replace(failure="j-0: exit code 1"))
    assert (row.phase, row.needs) == ("Failing", "j-0: exit code 1")
    assert row_of(copy._replace(wait=Wait(text="t"))).phase == Phase.WAITING
    assert row_of(copy._replace(pods=())).phase == NOT_RUNNING
