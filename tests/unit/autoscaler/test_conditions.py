"""The conditions of a profile: what each says, and since when."""

from collections import defaultdict
from dataclasses import replace

import pytest

from autoscaler.jobs.state import TrackedJob
from autoscaler.profile.status import status_of
from optimus.errors import NotReady
from optimus.jobs import ConvergenceThreshold, Role
from optimus.kube.profiles import Condition, ConditionType, ProfileStatus, Truth
from optimus.kube.times import format_second, parse_instant
from optimus.models.forecast import Forecast, NoWorkLeft
from optimus.progress.types import LogLine, PodRun
from tests.cases import cases
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import START_AT, tf_job

F, P, G = ConditionType.FORECAST, ConditionType.PLACED, ConditionType.GOAL_MET


def a_state() -> TrackedJob:
    seen = tf_job("a", 1, 2, target_loss="0.3").decoded()
    assert seen.active is not None
    return TrackedJob.first_seen(seen, seen.active, None, START_AT)


def shown(status: ProfileStatus) -> dict[ConditionType, Condition]:
    return {each.type: each for each in status.conditions}


def forecast(*, met: bool) -> Forecast:
    return Forecast(NoWorkLeft(), 12.4, goal_met=met, progress_fraction=1.0 if met else 0.4)


@cases(
    ("found", "status", "reason"),
    {
        "no interval yet": (None, Truth.UNKNOWN, "NotDecided"),
        "not ready": (NotReady("3 samples, 5 needed"), Truth.FALSE, "NotReady"),
        "fitted": (forecast(met=False), Truth.TRUE, "FromTraining"),
        "nothing remains": (forecast(met=True), Truth.TRUE, "GoalMet"),
    },
)
def test_a_forecast_is_there_or_its_lack_is_explained(
    found: Forecast | NotReady | None, status: Truth, reason: str
) -> None:
    state = a_state()
    state.forecasts.current = found
    condition = shown(status_of(state, START_AT))[F]
    assert (condition.status, condition.reason) == (status, reason)
    if isinstance(found, NotReady):
        assert condition.message == "3 samples, 5 needed"


def test_the_instant_is_that_of_the_last_change_of_the_status_alone() -> None:
    state = a_state()
    state.forecasts.current = NotReady("3 samples, 5 needed")
    first = shown(status_of(state, START_AT))[F]
    state.forecasts.current = NotReady("4 samples, 5 needed")
    second = shown(status_of(state, START_AT + 10))[F]
    assert second.message == "4 samples, 5 needed"
    assert second.last_transition_time == first.last_transition_time
    state.forecasts.current = forecast(met=False)
    third = shown(status_of(state, START_AT + 20))[F]
    assert third.last_transition_time == format_second(START_AT + 20)


def test_a_goal_that_is_met_stays_so_without_a_forecast_and_is_open_again_under_another() -> None:
    state = a_state()
    state.forecasts.current = forecast(met=True)
    met = shown(status_of(state, START_AT))[G]
    assert (met.status, met.message) == (Truth.TRUE, "loss <= 0.3 is met")
    state.forecasts.current = None
    assert shown(status_of(state, START_AT + 10))[G] == met
    state.job = replace(state.job, goal=ConvergenceThreshold(0.02))
    other = shown(status_of(state, START_AT + 20))[G]
    assert (other.status, other.message) == (Truth.FALSE, "falls < 2 % is not met yet")
    assert other.last_transition_time == format_second(START_AT + 20)


@pytest.mark.parametrize("restarts", [False, True])
def test_of_a_job_that_trains_to_its_goal_each_instant_goes_with_a_change_of_the_status(
    restarts: bool,
) -> None:
    """Also across a restart: what is stored is read, and nothing is begun again."""
    cluster = FakeCluster(cpus=12)
    harness = ControllerHarness(cluster)
    cluster.submit(tf_job("a", 1, 1, target_loss="0.12"))
    last: dict[ConditionType, Condition] = {}
    statuses = defaultdict[ConditionType, list[Truth]](list)
    for second in range(300):
        if restarts and second % 60 == 59:
            harness.restart()
        harness.run(1)
        if "a" not in cluster.profiles:
            continue
        for name, condition in shown(harness.status("a")).items():
            before = last.get(name)
            same = before is not None and before.status is condition.status
            if before is None or not same:
                statuses[name].append(condition.status)
                assert cluster.at - parse_instant(condition.last_transition_time) < 10
            else:
                assert condition.last_transition_time == before.last_transition_time
            last[name] = condition
    assert statuses[G] == [Truth.FALSE, Truth.TRUE]
    assert {Truth.TRUE, Truth.FALSE} <= set(statuses[P])
    assert {Truth.TRUE, Truth.FALSE} <= set(statuses[ConditionType.PROGRESSING])
    assert statuses[F][-1] is Truth.TRUE
    assert last[ConditionType.PROGRESSING].reason == "AtTarget"
    assert last[P].status is Truth.TRUE


@cases(
    ("epochs", "status", "message"),
    {
        "met since the last interval": (5, Truth.TRUE, "loss <= 0.3 is met"),
        "short of it": (3, Truth.FALSE, "loss <= 0.3 was not met when the job ended"),
        "nothing was read": (0, Truth.FALSE, "loss <= 0.3 is not met yet"),
    },
)
def test_a_job_that_has_ended_is_judged_by_the_end_of_its_log(
    epochs: int, status: Truth, message: str
) -> None:
    state = a_state()
    state.forecasts.current = forecast(met=False)
    lines = [LogLine(START_AT + n, f"epoch={n} loss={1 / n}") for n in range(1, epochs + 1)]
    state.log.observe("a-worker-0", Role.WORKER, 0, state.job.counts, lines, PodRun("u"))
    state.training_job = replace(state.training_job, outcome="Succeeded")
    condition = shown(status_of(state, START_AT + 10))[G]
    assert (condition.status, condition.message) == (status, message)


def test_a_suspended_job_is_not_placed_and_is_written_for_decisions_alone() -> None:
    cluster = FakeCluster(cpus=12)
    harness = ControllerHarness(cluster)
    fake = cluster.submit(tf_job("a", 1, 1, target_loss="0.12"))
    harness.run_until("a", "Training", "Profiling")
    fake.manifest["spec"]["runPolicy"] = {"suspend": True}
    harness.run_until("a", "Suspended")
    harness.run(30)
    for name in (P, ConditionType.PROGRESSING):
        condition = shown(harness.status("a"))[name]
        assert (condition.status, condition.reason) == (Truth.FALSE, "Suspended")
    conditions = harness.status("a").conditions
    writes, intervals = cluster.writes, harness.intervals
    harness.run(300)
    assert cluster.writes - writes <= harness.intervals - intervals
    assert harness.status("a").conditions == conditions


def test_of_a_job_that_is_left_alone_nothing_is_known() -> None:
    cluster = FakeCluster(cpus=12)
    harness = ControllerHarness(cluster)
    cluster.submit(tf_job("a", 1, 1, target_loss="low"))
    harness.run(10)
    conditions = harness.status("a").conditions
    assert {(each.status, each.reason) for each in conditions} == {(Truth.UNKNOWN, "LeftAlone")}
    assert all("optimus.dl/target-loss" in each.message for each in conditions)
    writes = cluster.writes
    harness.run(60)
    assert cluster.writes == writes
