"""What a suspension leaves of a job's own limits, and how long none is resumed after a break."""

from dataclasses import replace

import pytest

from autoscaler.executor import limits_left
from optimus.kube.errors import ErrorKind
from optimus.rescale.machine import advance
from optimus.rescale.words import Observe, Observed, Step, Suspend
from tests.unit.kube.job_json import job_json, read
from tests.unit.rescale.test_executor import AT, Setting
from tests.unit.rescale.test_machine import (
    ALL_BEFORE,
    CONFIG,
    EMPTY_FOR_LONG,
    NO_PODS,
    RUNNING,
    SUSPEND,
    SUSPENDED,
    only,
)

STARTED = "2026-01-01T00:00:00Z"
STARTED_AT = 1_767_225_600.0


@pytest.mark.parametrize(
    ("policy", "restarts", "left"),
    [
        ({}, 3, {}),
        ({"activeDeadlineSeconds": 3600}, 0, {"activeDeadlineSeconds": 2400}),
        ({"activeDeadlineSeconds": 1200}, 0, {"activeDeadlineSeconds": 1}),
        ({"backoffLimit": 6}, 2, {"backoffLimit": 4}),
        ({"backoffLimit": 6}, 0, {}),
        ({"backoffLimit": 6}, 9, {"backoffLimit": 1}),
        ({"backoffLimit": 0}, 1, {}),
        (
            {"activeDeadlineSeconds": 3600, "backoffLimit": 2},
            1,
            {"activeDeadlineSeconds": 2400, "backoffLimit": 1},
        ),
    ],
)
def test_what_is_left_of_the_limits_of_a_job_that_was_active_for_1200_s(
    policy: dict[str, int], restarts: int, left: dict[str, int]
) -> None:
    raw = job_json()
    raw["spec"]["runPolicy"], raw["status"] = policy, {"startTime": STARTED}
    assert limits_left(read(raw), STARTED_AT + 1200.4, restarts) == left


def test_the_restarts_of_an_elastic_job_are_carried_over_in_its_own_field() -> None:
    job = replace(read(job_json()), max_restarts=10)
    assert limits_left(job, STARTED_AT, 3) == {"maxRestarts": 7}
    assert limits_left(job, STARTED_AT, 12) == {"maxRestarts": 1}


def test_a_job_that_the_operator_has_not_begun_has_used_nothing() -> None:
    raw = job_json()
    raw["spec"]["runPolicy"] = {"activeDeadlineSeconds": 3600}
    assert limits_left(read(raw), STARTED_AT, 0) == {}


def test_a_suspension_carries_the_restarts_of_all_pods() -> None:
    pods = replace(ALL_BEFORE, restarts=2, all_restarts=5)
    _, instructions = advance(SUSPEND, Observed(1001.0, RUNNING, pods), CONFIG)
    assert only(instructions) == Suspend("i7", "5", 5)


def test_the_limits_are_shortened_in_the_patch_that_suspends() -> None:
    setting = Setting()
    job = replace(
        setting.api.stored, active_deadline_seconds=600, backoff_limit=6, started_at=AT - 100
    )
    setting.api.stored = setting.state.training_job = job
    setting.execute(Suspend("i7", job.resource_version, 2))
    limits = ("activeDeadlineSeconds", 500), ("backoffLimit", 4)
    assert setting.api.asked[-1] == ("suspend", "1", "i7", *limits)
    (event,) = [each for each in setting.cluster.events if each[1] == "LimitsCarriedOver"]
    assert "activeDeadlineSeconds is 500, of 600" in event[2]
    assert "backoffLimit is 4, of 6" in event[2]


@pytest.mark.parametrize(("since_break", "resumes"), [(0.0, False), (29.0, False), (30.0, True)])
def test_after_a_break_no_job_is_resumed_for_longer_than_a_moment(
    since_break: float, resumes: bool
) -> None:
    observed = Observed(1001.0, SUSPENDED, NO_PODS, since_break)
    _, instructions = advance(EMPTY_FOR_LONG, observed, CONFIG)
    assert only(instructions) == ("resume" if resumes else None)


@pytest.mark.parametrize("read", ["pods", "job"])
def test_a_read_that_fails_is_a_break(read: str) -> None:
    setting = Setting(Step.EMPTY)
    setting.api.unreadable[read] = ErrorKind.TRANSIENT
    setting.advance()
    setting.api.unreadable.clear()
    observed = setting.execute(Observe(uncached=True))
    assert isinstance(observed, Observed)
    assert observed.since_break_seconds == 0.0


def test_a_break_of_a_watch_is_one_too() -> None:
    setting = Setting(Step.EMPTY)
    setting.observation = replace(setting.observation, since_break_seconds=4.0)
    observed = setting.execute(Observe(uncached=True))
    assert isinstance(observed, Observed)
    assert observed.since_break_seconds == 4.0
