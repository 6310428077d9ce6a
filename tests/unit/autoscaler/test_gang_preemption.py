"""Preemption of whole gangs, from the lack of capacity until the paused jobs run again."""

from typing import Any

import pytest

from optimus.jobs import Counts
from optimus.kube.contract import Phase
from optimus.kube.suspension import Preemption, SuspensionMark
from optimus.rescale.words import PauseReason
from tests.unit.autoscaler.fake_job import FakeJob, tf_job
from tests.unit.autoscaler.preempting_cluster import CONFIG, PreemptingCluster, ProcessEnded


def two_jobs(**settings: Any) -> PreemptingCluster:
    """One node, full with one job; ``high`` waits for it."""
    made = PreemptingCluster({"a": 2}, CONFIG._replace(**settings))
    made.run("low")
    made.submit("high", priority=5)
    return made


def test_a_lower_job_is_paused_and_resumed_as_a_whole() -> None:
    made = two_jobs()
    made.step()
    assert made.preempted() == {"low"}
    at = float(int(made.cluster.at))
    assert made.paused_for("low") == Preemption("team/high", "uid-high", at)
    assert made.mark_of("low").endswith(" one paused-for-gang")
    made.step()
    profile = made.cluster.profiles["low"].status
    assert profile.phase is Phase.PAUSED
    assert profile.reason == "paused for team/high; resumed by itself"
    made.step(5)
    assert made.running() == {"high"}
    assert made.patches == ["suspend low", "resume low"]
    assert (made.job("low").suspended, made.mark_of("low")) == (False, "")
    made.end("high")
    made.step(2)
    assert made.running() == {"low"}
    assert made.counted() == {"placed": 1}
    assert made.events("low") == ["Preempted", "Resumed"]
    assert made.message("high", "Preempting") == (
        "preempts team/low (priority 0) for its 2 pods, which do not fit beside them at priority 5"
    )


def elastic_job(**annotations: str) -> FakeJob:
    """A managed job that could do with one PS and one worker."""
    return tf_job("low", 1, 3, target_loss="0.001", training_mode="sync", **annotations)


def test_a_managed_job_keeps_its_record_and_waits_for_no_checkpoint() -> None:
    made = PreemptingCluster({"a": 4})
    made.submit_job(elastic_job(min_workers="3", rescale="checkpoint"))
    made.step(2)
    made.submit("high", priority=5)
    made.step(8)
    assert made.running() == {"high"}
    assert made.patches == ["suspend low", "resume low"]
    assert made.cluster.profiles["low"].status.phase is Phase.WAITING
    made.end("high")
    made.step(2)
    assert made.running() == {"low"}
    assert made.job("low").counts == Counts(1, 3)


# --- who is never preempted, and for whom nobody is


@pytest.mark.parametrize(
    ("priority", "spec"),
    [
        pytest.param(0, {}, id="for an equal priority"),
        pytest.param(-1, {}, id="for a lower one"),
        pytest.param(5, {"preemptionPolicy": "Never"}, id="with preemptionPolicy Never"),
        pytest.param(5, {"schedulingGates": [{"name": "g"}]}, id="with a scheduling gate"),
        pytest.param(5, {"schedulerName": "other"}, id="of another scheduler"),
    ],
)
def test_nobody_is_preempted(priority: int, spec: dict[str, Any]) -> None:
    made = PreemptingCluster({"a": 2})
    made.run("low")
    made.submit("high", priority=priority, **spec)
    made.step(8)
    assert made.patches == []


def test_a_gang_that_does_not_fit_even_so_preempts_nobody() -> None:
    made = PreemptingCluster({"a": 2})
    made.run("low")
    made.submit("high", 1, 2, priority=5)
    made.step(8)
    assert made.patches == []


def test_a_gang_that_kube_scheduler_has_not_tried_preempts_nobody() -> None:
    made = two_jobs()
    made.cluster.pass_time(1)
    made.harness.controller.tick()
    assert made.patches == []


@pytest.mark.parametrize(
    ("spec", "policy"),
    [
        pytest.param({"priority": 5}, {}, id="a gang of the same priority"),
        pytest.param({"priority": 6}, {}, id="a gang of a higher one"),
        pytest.param({}, {"managedBy": "kueue"}, id="a job of another manager"),
        pytest.param({}, {"ttlSecondsAfterFinished": 9}, id="one that cannot be suspended"),
        pytest.param({"schedulerName": "other"}, {}, id="a job of another scheduler"),
    ],
)
def test_never_a_victim(spec: dict[str, Any], policy: dict[str, Any]) -> None:
    made = PreemptingCluster({"a": 2})
    low = made.run("low", **spec)
    low.manifest["spec"]["runPolicy"] |= policy
    low.changed()
    made.submit("high", priority=5)
    made.step(3)
    assert made.patches == []


def test_never_a_gang_of_which_one_pod_has_a_priority_as_high() -> None:
    made = PreemptingCluster({"a": 2})
    made.run("low").pods[0]["spec"]["priority"] = 5
    made.submit("high", priority=5)
    made.step(3)
    assert made.patches == []


def test_what_its_user_wants_protects_a_job_no_more_than_its_priority() -> None:
    made = PreemptingCluster({"a": 4})
    made.submit_job(elastic_job(min_workers="3", rescale="never", pause="true"))
    made.step(2)
    made.submit("high", priority=5)
    made.step(5)
    assert made.patches == ["suspend low", "resume low"]


def test_a_victim_that_changes_meanwhile_is_left_alone_and_the_others_resumed() -> None:
    made = PreemptingCluster({"a": 2, "b": 2})
    made.run("one")
    made.run("two")
    made.submit("high", 2, 2, priority=5)
    made.settle_scheduler()
    made.cluster.refuses.add("two")
    made.step(8)
    assert "suspend two" not in made.patches
    assert made.events("high") == ["Preempting", "PreemptionFailed"]
    assert made.running() == {"one", "two"}
    assert made.patches == ["suspend one", "resume one"]
    assert made.counted() == {"failed": 1}


# --- who is chosen


def test_the_youngest_of_the_lowest_priority_first_and_nobody_in_vain() -> None:
    made = PreemptingCluster({"a": 2, "b": 2, "c": 4})
    made.run("old")
    made.cluster.pass_time(10)
    made.run("young")
    made.run("large", 2, 2, priority=1)
    made.submit("small", priority=5)
    made.step()
    assert made.preempted() == {"young"}
    made.step(6)
    assert made.running() == {"old", "large", "small"}
    made.submit_on("c", "wide", priority=5)
    made.step(2)
    assert made.preempted() == {"large"}, "what old would leave is on another node"


def test_the_higher_then_the_older_of_two_gangs_is_made_room_for_first() -> None:
    made = PreemptingCluster({"a": 4})
    made.run("low", 1, 3)
    made.submit("older", 1, 3, priority=5)
    made.settle_scheduler()
    made.submit("small", priority=5)
    made.step()
    assert made.events("older") == ["Preempting"]


def test_only_one_preemption_at_a_time() -> None:
    made = PreemptingCluster({"a": 2, "b": 2})
    made.run("one")
    made.run("two")
    made.submit("high", priority=5)
    made.submit("other", priority=5)
    made.step()
    assert len(made.preempted()) == 1
    made.harness.controller.tick()
    assert len(made.preempted()) == 1
    made.step(16)
    assert made.running() == {"high", "other"}


def test_pods_that_are_being_deleted_make_room_first() -> None:
    made = PreemptingCluster({"a": 2, "b": 2})
    made.run("ending", priority=9)
    made.run("low")
    made.delete_pods("ending")
    made.submit("high", priority=5)
    made.step(3)
    assert made.patches == []


def test_what_the_extender_has_planned_for_others_is_not_counted_on() -> None:
    made = PreemptingCluster({"a": 2, "b": 2})
    made.run("low")
    made.submit("planned", priority=9)
    made.submit("high", priority=5)
    made.cluster.pass_time(2)
    made.cluster.refuse_all()
    for pod in made.job("planned").pods:
        pod["status"]["nominatedNodeName"] = "b"
    made.harness.controller.tick()  # the planned one is looked at first
    made.harness.controller.tick()
    assert made.preempted() == {"low"}


# --- when it does not go as planned


def half_paused() -> PreemptingCluster:
    """Two jobs have to make room for ``high``; the process ends between the two."""
    made = PreemptingCluster({"a": 2, "b": 2})
    made.run("second")
    made.run("first")
    made.submit("high", 1, 3, priority=5)
    made.cluster.ends_before = {"second"}
    with pytest.raises(ProcessEnded):
        made.step()
    made.cluster.ends_before.clear()
    assert made.preempted() == {"first"}
    return made


@pytest.mark.parametrize("profile", ["stored", "lost"])
def test_a_new_process_pauses_the_victims_that_the_last_one_had_not(profile: str) -> None:
    made = half_paused()
    if profile == "lost":
        del made.cluster.profiles["second"]
    decided = made.paused_for("first")
    made.restart()
    made.step()
    for _ in range(4):
        if "second" not in made.preempted():
            made.step()
    assert made.paused_for("second") == decided
    made.step(6)
    assert made.patches[:2] == ["suspend first", "suspend second"]
    assert made.running() == {"high"}
    assert made.counted() == {"placed": 1}
    assert made.events("second")[-2:] == ["Preempted", "Resumed"]


def test_a_new_process_that_may_not_preempt_resumes_them() -> None:
    made = half_paused()
    made.config = None
    made.restart()
    made.step(4)
    assert made.running() == {"first", "second"}
    assert not made.cluster.profiles


def test_a_gang_that_goes_away_meanwhile_leaves_its_room() -> None:
    made = two_jobs()
    made.step()
    made.end("high")
    made.step(4)
    assert made.running() == {"low"}
    assert made.counted() == {"gone": 1}


def test_jobs_that_make_no_room_after_all_are_resumed() -> None:
    made = two_jobs()
    made.step()
    made.cluster.nodes["a"] = 1
    made.step(5)
    made.cluster.nodes["a"] = 2
    assert made.events("low") == ["Preempted", "Resumed"]
    assert "tried again after 600 s" in made.message("high", "PreemptionFailed")
    assert made.counted() == {"failed": 1}


def test_after_its_time_the_jobs_are_resumed_and_the_gang_backs_off() -> None:
    made = two_jobs(seconds=10.0)
    made.cluster.lingering_seconds = 14
    made.step(6)
    assert made.events("high") == ["Preempting", "PreemptionFailed"]
    assert made.job("low").suspended, "its pods have not ended"
    made.step(6)
    assert made.patches == ["suspend low", "resume low"]
    made.cluster.lingering_seconds = 0
    made.step(8)
    assert made.running() == {"high"}


def test_a_job_that_its_user_resumes_is_only_unmarked() -> None:
    made = two_jobs()
    made.step()
    low = made.job("low")
    low.manifest["spec"]["runPolicy"]["suspend"] = False
    low.changed()
    made.end("high")
    made.step(4)
    assert made.patches == ["suspend low", "unmark low"]


@pytest.mark.parametrize("instance", ["one", "another"])
def test_a_mark_that_its_user_writes_pauses_nobody(instance: str) -> None:
    made = PreemptingCluster({"a": 2})
    low = made.run("low")
    made.submit("waits", priority=5)
    made.config = None
    made.restart()
    made.step()
    made.harness.restart()
    mark = Preemption("team/waits", "uid-waits", made.cluster.at)
    low.annotate(suspended_by=SuspensionMark(mark.text, instance, PauseReason.GANG).text)
    low.manifest["spec"]["runPolicy"]["suspend"] = True
    low.changed()
    made.step(8)
    assert made.patches == ["resume low"]
    assert "PreemptionFailed" not in made.cluster.reasons("waits")


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
def test_a_new_process_believes_no_mark_of_another_time(seconds: float) -> None:
    made = two_jobs()
    made.step(2, lingers=["low"])
    decided = made.paused_for("low")
    assert decided is not None
    text = decided._replace(at=decided.at + seconds).text
    made.job("low").annotate(suspended_by=SuspensionMark(text, "one", PauseReason.GANG).text)
    made.restart()
    made.step(8)
    assert made.patches == ["suspend low", "resume low"]
    assert "PreemptionFailed" not in made.cluster.reasons("high")


def test_a_process_with_old_caches_preempts_nobody() -> None:
    made = two_jobs()
    made.cluster.silent_seconds = 200
    made.step(3)
    assert made.patches == []
    made.cluster.silent_seconds = 0
    made.step()
    assert made.patches == ["suspend low"]


def test_what_paused_jobs_leave_is_not_for_others_to_grow_into() -> None:
    made = PreemptingCluster({"a": 2, "b": 4})
    made.submit_job(elastic_job(min_workers="1", rescale="any"), priority=9)
    made.run("fixed")
    made.submit("high", priority=5)
    made.cluster.binds_high = False
    made.step(2)
    assert made.preempted() == {"fixed"}
    controller = made.harness.controller
    states, observation = controller.managed.states, made.cluster.observe(made.cluster.at)
    asked = made.state("low"), Counts(1, 5), made.cluster.at
    found = controller._decider.counts_found(states, observation, *asked)
    assert found.counts == Counts(1, 3)
