"""What a job's user reads at each moment of its life: true then, not only when the last interval
was planned."""

import re

from tests.unit.autoscaler.mayor import ControllerHarness
from tests.unit.autoscaler.town import FakeCluster
from tests.unit.autoscaler.trainee import FakeJob, tf_job


def measured(town: FakeCluster) -> FakeJob:
    return town.submit(
        tf_job(
            "a", 1, 1, target_loss="0.3", training_mode="sync", at_target="suspend", rescale="any"
        )
    )


def events(town: FakeCluster, reason: str) -> list[str]:
    return [message for _, said, message in town.told if said == reason]


def test_while_its_speed_is_measured_it_says_at_which_counts(
    town: FakeCluster, mayor: ControllerHarness
) -> None:
    job = measured(town)
    status = mayor.rule_until("a", "Profiling")
    assert status.reason == f"measures its speed at {job.counts}"


def test_a_move_is_told_as_it_begins_and_once_all_pods_run(
    town: FakeCluster, mayor: ControllerHarness
) -> None:
    measured(town)
    mayor.rule_until("a", "Suspended", seconds=600)
    first, *_, last = events(town, "Rescaling")
    assert re.match(
        r"1 PS \+ 1 worker -> \d+ PS \+ \d+ workers?: run 1 measures its speed at ", first
    ), first
    assert re.match(r"\d+ PS \+ \d+ workers? -> suspended: its goal is met", last), last
    rescaled = events(town, "Rescaled")
    assert rescaled
    assert all(
        re.search(r": all its pods run, \d+ s after it was decided$", each) for each in rescaled
    ), rescaled


def test_it_says_who_suspended_it(town: FakeCluster, mayor: ControllerHarness) -> None:
    job = measured(town)
    mayor.rule_until("a", "Suspended", seconds=600)
    assert mayor.status("a").reason == "suspended: its goal is met"
    (goal,) = events(town, "SuspendedAtTarget")
    assert goal.startswith("its goal is met; ")
    job.manifest["spec"]["runPolicy"]["suspend"] = False
    job.changed()
    mayor.rule(3)
    assert not job.suspended
    job.manifest["spec"]["runPolicy"]["suspend"] = True
    job.changed()
    mayor.rule(3)
    assert mayor.status("a").reason == "suspended by its user"
