"""Preemption of whole gangs, from the lack of capacity until the victims run again."""

import threading
from dataclasses import replace
from typing import Any

import pytest

from extender.gang_states import GangState
from extender.inspection import Inspector
from extender.preemption.controller import PreemptionController, PreemptionThread
from extender.settings import Settings
from optimus.jobs import (
    CountBounds,
    Counts,
    JobKey,
    NodeConstraints,
    Requirement,
    RescaleRule,
    TargetLoss,
)
from optimus.kube.budgets import Budget
from optimus.kube.errors import ErrorKind
from optimus.kube.pods import Pod
from optimus.kube.results import Refused
from optimus.kube.suspension import PreemptionMark, read_preemption
from optimus.kube.training_jobs import TrainingJob
from optimus.placement.rules import AffinityTerm, PodRules, PodSelector
from tests.unit.extender.preempting_cluster import PreemptingCluster, ProcessEnded


def two_jobs(**settings: Any) -> PreemptingCluster:
    """One node, full with one job; ``high`` waits for it."""
    made = PreemptingCluster({"a": 2}, Settings(preempt=True, **settings))
    made.run("low")
    made.submit("high", priority=5)
    return made


def test_a_lower_job_is_suspended_and_resumed_as_a_whole() -> None:
    made = two_jobs()
    made.step()
    assert made.preempted() == {"low"}
    mark = read_preemption(made.jobs["low"].preempted_for or "")
    assert mark == PreemptionMark("ns/high", "uid-high", made.cluster.now)
    made.settle()
    assert made.running() == {"high"}
    assert made.writes == ["suspend low", "resume low"]
    assert (made.jobs["low"].suspended, made.jobs["low"].preempted_for) == (False, None)
    assert {pod.node for pod in made.pods("low")} == {None}
    made.delete_job("high")
    made.settle()
    assert made.running() == {"low"}
    assert made.counted == [("placed", 1)]
    assert made.event_reasons("low") == ["Preempted", "Resumed"]
    assert made.message("high", "Preempting") == (
        "preempts ns/low (priority 0) for its 2 pods, which do not fit beside them at priority 5"
    )
    assert made.message("low", "Resumed") == (
        "resumed: ns/high has its nodes; its pods wait for capacity as a whole again"
    )


def test_without_the_setting_nobody_is_preempted() -> None:
    made = PreemptingCluster({"a": 2}, Settings())
    made.run("low")
    made.submit("high", priority=5)
    made.settle()
    assert made.running() == {"low"}


def test_without_the_setting_those_that_are_suspended_are_still_resumed() -> None:
    made = two_jobs()
    made.step()
    made.settings = Settings()
    made.restart()
    made.settle()
    assert made.running() == {"high"}
    assert made.writes == ["suspend low", "resume low"]


def test_while_victims_end_their_room_is_the_gangs() -> None:
    made = two_jobs()
    made.step()
    assert made.reason("high-ps-0") == {
        "waiting for the pods of preempted jobs to make room for job ns/high"
    }
    assert made.cluster.planned_nodes() == {}
    made.operator()
    first, second = made.pods("low")
    made.cluster.delete(first.name)
    other = made.cluster.other("o", 1)
    assert made.cluster.filter(other, ["a"]).kept == ()
    made.submit("small", 1, 0)
    made.step()
    assert made.cluster.planned_nodes() == {}
    made.cluster.delete(second.name)
    assert set(made.cluster.planned_nodes()) == {"high-ps-0", "high-worker-0"}
    assert made.cluster.filter(other, ["a"]).kept == ()


def test_a_resumed_job_has_no_pod_left_for_a_moment_before() -> None:
    made = two_jobs()
    made.step()
    made.operator()
    made.operator()
    for name in ("high-ps-0", "high-worker-0"):
        assert made.cluster.place(name)
    made.step()
    assert made.writes == ["suspend low"]
    made.step()
    assert made.writes == ["suspend low", "resume low"]


def test_a_pod_that_only_the_api_server_shows_delays_the_resumption() -> None:
    made = two_jobs()
    made.step()
    made.operator()
    left = made.pods("low")
    made.operator()
    for name in ("high-ps-0", "high-worker-0"):
        assert made.cluster.place(name)
    shown = list(left)
    made.controller._access = replace(
        made.controller._access,
        reader=_Shows(made, shown),
    )
    made.step(5)
    assert made.writes == ["suspend low"]
    shown.clear()
    made.step(3)
    assert made.writes == ["suspend low", "resume low"]


class _Shows:
    """A reader that lists these pods."""

    def __init__(self, made: PreemptingCluster, shown: list[Pod]) -> None:
        self.job, self._shown = made.job, shown

    def pods_of(self, job: TrainingJob) -> tuple[Pod, ...]:
        return tuple(self._shown)


# --- who is never preempted, and for whom nobody is


@pytest.mark.parametrize(
    ("priority", "fields"),
    [
        pytest.param(0, {}, id="for an equal priority"),
        pytest.param(-1, {}, id="for a lower one"),
        pytest.param(5, {"may_preempt": False}, id="with preemptionPolicy Never"),
    ],
)
def test_nobody_is_preempted(priority: int, fields: dict[str, Any]) -> None:
    made = PreemptingCluster({"a": 2})
    made.run("low")
    made.submit("high", priority=priority, **fields)
    made.settle()
    assert made.writes == []


def test_a_gang_that_does_not_fit_even_so_preempts_nobody() -> None:
    made = PreemptingCluster({"a": 2})
    made.run("low")
    made.submit("high", 1, 2, priority=5)
    made.settle()
    assert made.writes == []


def test_a_gang_that_is_not_whole_preempts_nobody() -> None:
    made = PreemptingCluster({"a": 2})
    made.run("low")
    made.submit("high", 1, 1, priority=5)
    made.cluster.delete("high-worker-0")
    made.settle()
    assert made.writes == []


def test_a_gang_that_kube_scheduler_refuses_for_another_reason_preempts_nobody() -> None:
    made = two_jobs()
    made.state.offers.does_not_fit("uid-high", made.cluster.now, 60.0)
    made.state.offers.offers_differ("uid-high", made.cluster.now, 60.0)
    assert made.state.offers.has_refused("uid-high") or made.state.offers.waits("uid-high")
    made.step(3)
    assert made.writes == []


@pytest.mark.parametrize(
    ("settings", "fields", "job"),
    [
        pytest.param({}, {"priority": 5}, {}, id="a gang of the same priority"),
        pytest.param({}, {"priority": 6}, {}, id="a gang of a higher one"),
        pytest.param(
            {"protected_classes": ("gold", "other")},
            {"priority_class": "gold"},
            {},
            id="a protected PriorityClass",
        ),
        pytest.param({}, {}, {"suspended_by": "i1"}, id="a job that the autoscaler moves"),
        pytest.param({}, {}, {"not_suspendable": "Kueue's"}, id="a job of another manager"),
        pytest.param({}, {}, {"outcome": "Succeeded"}, id="a job that has ended"),
        pytest.param({}, {"scheduler_name": "default"}, {}, id="a job of another scheduler"),
    ],
)
def test_never_a_victim(
    settings: dict[str, Any], fields: dict[str, Any], job: dict[str, Any]
) -> None:
    made = PreemptingCluster({"a": 2}, Settings(preempt=True, **settings))
    elsewhere = fields.get("scheduler_name")
    made.run("low", **{name: each for name, each in fields.items() if name != "scheduler_name"})
    if elsewhere:
        made.state.queue.asked.clear()
        for pod in made.pods("low"):
            made.cluster.change(pod, scheduler_name=elsewhere)
    made.change_job("low", **job)
    made.submit("high", priority=5)
    made.step(3)
    assert made.writes == []


def test_never_a_job_that_is_being_rescaled() -> None:
    made = PreemptingCluster({"a": 2})
    made.run("low")
    made.cluster.rescale("low", 1, 1, leaving=True)
    made.submit("high", priority=5)
    made.step(3)
    assert made.writes == []


def test_never_a_gang_of_which_one_pod_has_a_priority_as_high() -> None:
    made = PreemptingCluster({"a": 2})
    made.run("low")
    made.cluster.change(made.pods("low")[0], priority=5)
    made.submit("high", priority=5)
    made.step(3)
    assert made.writes == []


def test_never_pods_of_no_job() -> None:
    made = PreemptingCluster({"a": 2})
    made.cluster.other("o", 2, "a")
    made.submit("high", priority=5)
    made.step(3)
    assert made.writes == []


@pytest.mark.parametrize(("allowed", "victims"), [(1, set()), (2, {"low"})])
def test_a_disruption_budget_is_kept(allowed: int, victims: set[str]) -> None:
    made = two_jobs()
    made.budgets = (Budget("ns", "b", (), allowed), Budget("elsewhere", "b", (), 0))
    made.step()
    assert made.preempted() == victims


def test_budgets_that_cannot_be_read_preempt_nobody() -> None:
    made = two_jobs()
    made.budgets = Refused(ErrorKind.FORBIDDEN, "no right to list")
    made.step(3)
    assert made.writes == []


def test_a_victim_that_changes_meanwhile_is_left_alone_and_the_others_resumed() -> None:
    made = PreemptingCluster({"a": 2, "b": 2})
    made.run("one")
    made.run("two")
    made.submit("high", 2, 2, priority=5)
    made.refuses.add("two")
    made.step()
    assert made.preempted() == {"one"}
    assert made.state.reservation_count() == 0
    made.refuses.clear()
    made.settle()
    assert made.running() == {"one", "two"}
    assert made.writes == ["suspend one", "resume one"]
    assert made.counted[0] == ("failed", 0)


def test_nobody_is_suspended_where_the_room_is_taken_meanwhile() -> None:
    """Another scheduler binds a pod while victims are chosen."""
    made = PreemptingCluster({"a": 3})
    made.run("low")
    made.submit("high", 1, 2, priority=5)

    def budgets() -> tuple[Budget, ...]:
        if "o" not in made.cluster.pods:
            made.cluster.other("o", 1, "a")
        return ()

    made.controller._access = replace(made.controller._access, budgets=budgets)
    made.step(3)
    assert made.writes == []
    assert made.state.reservation_count() == 0


def test_pods_whose_jobs_are_not_known_yet_preempt_nobody() -> None:
    made = PreemptingCluster({"a": 1})
    made.cluster.job("high", 1, 1, priority=5)
    made.step(2)
    assert made.writes == []


def test_a_gang_that_keeps_apart_from_its_victims_gets_their_node() -> None:
    made = PreemptingCluster({"a": 2})
    made.cluster.node("a", 2, host="a")
    made.run("low", labels=(("app", "low"),))
    low = PodSelector((Requirement("app", "In", ("low",)),), ("ns",))
    apart = PodRules(anti_affinity=(AffinityTerm("host", low),))
    made.submit("high", priority=5, rules=apart)
    made.step()
    assert made.preempted() == {"low"}
    made.state.break_plan("uid-high")
    made.step()
    assert made.state.reservation_count() == 2, "planned again while the victim's pods are there"
    made.settle()
    assert made.running() == {"high"}


# --- who is chosen


def test_the_fewest_then_the_lowest_then_the_youngest() -> None:
    made = PreemptingCluster({"a": 2, "b": 2, "c": 4})
    made.run("old")
    made.cluster.now += 10
    made.run("young")
    made.run("large", 2, 2, priority=1)
    made.submit("small", priority=5)
    made.step()
    assert made.preempted() == {"young"}
    made.settle()
    made.submit("wide", 2, 2, priority=5)
    made.cluster.now += 20
    made.step()
    assert made.preempted() == {"large"}


def test_the_smaller_of_two_gangs_is_made_room_for_first() -> None:
    made = PreemptingCluster({"a": 4})
    made.run("low", 1, 3)
    made.submit("large", 1, 3, priority=5)
    made.cluster.now += 5
    made.submit("small", 1, 1, priority=5)
    made.step()
    assert made.event_reasons("small") == ["Preempting"]


def test_a_gang_past_the_age_limit_is_made_room_for_before_a_smaller_one() -> None:
    made = PreemptingCluster({"a": 4})
    made.run("low", 1, 3)
    made.submit("large", 1, 3, priority=5)
    made.cluster.now += made.settings.age_limit_seconds + 1
    made.submit("small", 1, 1, priority=5)
    made.step()
    assert made.event_reasons("large") == ["Preempting"]


def test_only_one_preemption_at_a_time_on_the_same_nodes() -> None:
    made = PreemptingCluster({"a": 2, "b": 2})
    made.run("one")
    made.run("two")
    made.submit("high", priority=5)
    made.submit("other", priority=5)
    made.step(3)
    assert len(made.preempted()) == 1
    made.settle(16)
    made.cluster.now += 20
    made.settle(8)
    assert made.running() == {"high", "other"}


def test_gangs_that_use_different_nodes_are_made_room_for_one_after_the_other() -> None:
    made = PreemptingCluster({"a": 2, "b": 2})
    for name in ("a", "b"):
        made.cluster.node(name, 2, pool=name)
        made.run(f"on-{name}", constraints=NodeConstraints((("pool", name),)))
    for name in ("a", "b"):
        made.submit(f"high-{name}", priority=5, constraints=NodeConstraints((("pool", name),)))
    made.step()
    assert made.preempted() == {"on-a"}
    made.step()
    assert made.preempted() == {"on-a", "on-b"}


def test_pods_that_are_being_deleted_make_room_first() -> None:
    made = PreemptingCluster({"a": 2, "b": 2})
    made.run("ending", priority=9)
    made.run("low")
    for pod in made.pods("ending"):
        made.cluster.change(pod, leaving=True)
    made.submit("high", priority=5)
    made.step(3)
    assert made.writes == []
    ending = [pod.name for pod in made.pods("ending")]
    made.cluster.delete(*ending)
    assert set(made.cluster.planned_nodes()) == {"high-ps-0", "high-worker-0"}


def test_a_gang_that_fits_by_now_is_left_to_the_planner() -> None:
    made = PreemptingCluster({"a": 2, "b": 2})
    made.run("low")
    made.run("other", priority=9)
    made.submit("high", priority=5)
    made.cluster.delete(*(pod.name for pod in made.pods("other")))
    made.controller.step()
    assert made.state.reservation_count() == 0
    made.step()
    assert made.state.reservation_count() == 2
    assert made.writes == []


def test_pods_that_never_end_are_not_waited_for_for_ever() -> None:
    made = PreemptingCluster({"a": 2, "b": 2}, Settings(preempt=True, preempt_seconds=5.0))
    made.run("ending", priority=9)
    made.run("low")
    for pod in made.pods("ending"):
        made.cluster.change(pod, leaving=True)
    made.submit("high", priority=5)
    made.step(5)
    assert made.writes == []
    made.step(8)
    assert made.writes == ["suspend low"]
    assert made.counted == []


# --- when it does not go as planned


def remembered(controller: PreemptionController) -> dict[str, int]:
    """How many entries a controller holds, by the field that holds them; no empty field."""
    sizes = {name: len(of) for name, of in vars(controller).items() if isinstance(of, dict | set)}
    return {name: size for name, size in sizes.items() if size}


@pytest.mark.parametrize("preempt", [True, False])
def test_nothing_is_remembered_of_jobs_that_are_gone(preempt: bool) -> None:
    made = two_jobs(preempt_seconds=10.0)
    made.step()
    made.settings = Settings(preempt=preempt, preempt_seconds=10.0)
    made.restart()
    for pod in made.pods("low"):
        made.cluster.delete(pod.name)
    made.cluster.node("a", 1)
    made.step(12)  # its conditions do not say that it is suspended: it is not resumed yet
    assert remembered(made.controller)
    made.delete_job("low")
    made.delete_job("high")
    made.step()
    assert not remembered(made.controller)


def test_a_victim_that_is_deleted_just_before_its_resumption_is_forgotten() -> None:
    made = two_jobs()
    made.step()
    made.operator()
    made.operator()
    for name in ("high-ps-0", "high-worker-0"):
        assert made.cluster.place(name)
    made.step()
    assert "_empty_since" in remembered(made.controller)
    made.delete_job("low")
    made.step()
    assert "_empty_since" not in remembered(made.controller)


def test_a_new_process_goes_on_between_suspension_and_binding() -> None:
    made = two_jobs()
    made.step()
    made.operator()
    made.restart()
    made.submit("small", 1, 0)
    made.step()
    assert made.state.reservation_count() == 2
    made.settle()
    assert made.running() == {"high"}
    assert made.writes == ["suspend low", "resume low"]


def test_a_new_process_keeps_the_room_from_the_first_moment_to_the_end_of_the_time() -> None:
    """Counted from the beginning of the preemption; 30 s are left to the one that ends it."""
    made = two_jobs(preempt_seconds=300.0)
    made.step()
    made.operator()
    made.cluster.now += 100
    made.restart()
    assert made.state.reservation_count() == 2
    made.cluster.now += 229
    made.planner.advance()
    assert made.state.reservation_count() == 2
    made.cluster.now += 1
    made.planner.advance()
    assert made.state.reservation_count() == 0


def test_victims_that_a_new_process_suspends_prolong_no_preemption() -> None:
    made = half_suspended()
    made.cluster.now += 100
    made.restart()
    made.step()
    assert made.preempted() == {"first", "second"}
    mark = read_preemption(made.jobs["first"].preempted_for or "")
    assert mark is not None
    held = made.state.reservations.ledger.of_job("uid-high")
    assert {each.expires_at for each in held} == {mark.at + made.settings.preempt_seconds + 30}


def half_suspended() -> PreemptingCluster:
    """Two jobs have to make room for ``high``; the process ends between the two."""
    made = PreemptingCluster({"a": 2, "b": 2})
    made.run("first")
    made.run("second")
    made.submit("high", 1, 3, priority=5)
    made.ends_before = {"second"}
    with pytest.raises(ProcessEnded):
        made.step()
    made.ends_before.clear()
    assert made.preempted() == {"first"}
    return made


@pytest.mark.parametrize("ended", [0, 1, 2])
def test_a_new_process_suspends_the_victims_that_the_last_one_had_not(ended: int) -> None:
    """Whether the pods of the first still run, are being deleted or are gone."""
    made = half_suspended()
    for _ in range(ended):
        made.operator()
    mark = made.jobs["first"].preempted_for
    made.restart()
    made.step(2)
    assert made.writes == ["suspend first", "suspend second"]
    assert made.jobs["second"].preempted_for == mark
    made.settle()
    assert made.running() == {"high"}
    assert made.counted == [("placed", 2)]
    assert made.event_reasons("second") == ["Preempted", "Resumed"]


def test_a_new_process_resumes_them_where_the_others_may_not_be_suspended_any_more() -> None:
    made = half_suspended()
    made.change_job("second", not_suspendable="Kueue manages it")
    made.restart()
    made.settle()
    assert made.running() == {"first", "second"}
    assert made.writes == ["suspend first", "resume first"]


def test_a_new_process_that_may_not_preempt_resumes_them() -> None:
    made = half_suspended()
    made.settings = Settings()
    made.restart()
    made.settle()
    assert made.running() == {"first", "second"}


def test_a_new_process_resumes_where_the_gang_has_gone() -> None:
    made = two_jobs()
    made.step()
    made.delete_job("high")
    made.restart()
    made.settle()
    assert made.running() == {"low"}
    assert made.writes == ["suspend low", "resume low"]


def test_a_gang_that_goes_away_meanwhile_leaves_its_room() -> None:
    made = two_jobs()
    made.step()
    made.delete_job("high")
    made.settle()
    assert made.running() == {"low"}
    assert made.counted == [("gone", 1)]


def test_victims_that_make_no_room_after_all_are_resumed() -> None:
    made = two_jobs()
    made.step()
    made.cluster.node("a", 1)
    made.operator()
    made.operator()
    made.step(4)
    assert made.state.reservation_count() == 0
    made.cluster.node("a", 2)
    made.settle()
    assert made.event_reasons("low") == ["Preempted", "Resumed"]
    assert "tried again after 60 s" in made.message("high", "PreemptionFailed")
    assert made.counted == [("failed", 1)]


def test_after_its_time_the_victims_are_resumed_and_the_gang_backs_off() -> None:
    made = two_jobs(preempt_seconds=10.0)
    made.step()
    for pod in made.pods("low"):
        made.cluster.change(pod, leaving=True)
    made.step(12)
    assert made.state.reservation_count() == 0
    assert made.event_reasons("high") == ["Preempting", "PreemptionFailed"]
    made.operator()
    made.step(2)
    assert made.writes == ["suspend low", "resume low"]
    made.operator()
    made.step(5)
    assert set(made.cluster.planned_nodes()) == {"high-ps-0", "high-worker-0"}


def test_a_job_that_its_user_resumes_is_only_unmarked() -> None:
    made = two_jobs()
    made.step()
    made.change_job("low", suspended=False)
    made.delete_job("high")
    made.settle()
    assert made.writes == ["suspend low", "unmark low"]


def test_a_suspension_without_the_annotation_is_its_users() -> None:
    made = two_jobs()
    made.step()
    made.change_job("low", preempted_for=None)
    made.settle()
    assert made.writes == ["suspend low"]
    assert made.jobs["low"].suspended


def test_a_mark_that_its_user_writes_is_no_way_around_the_queue() -> None:
    made = PreemptingCluster({"a": 4})
    made.run("own", 2, 2)
    made.submit("waits", 2, 2)
    made.step()
    made.submit("last", 2, 2)
    made.step()
    mark = PreemptionMark("ns/last", "uid-last", made.cluster.now).text
    made.change_job("own", suspended=True, preempted_for=mark)
    made.settle()
    assert made.running() == {"waits"}
    assert made.writes[-1] == "resume own"


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
def test_a_new_process_believes_no_mark_of_another_time(seconds: float) -> None:
    made = two_jobs()
    mark = PreemptionMark("ns/high", "uid-high", made.cluster.now + seconds).text
    made.change_job("low", suspended=True, preempted_for=mark)
    made.restart()
    assert made.state.future_room.awaits("uid-high") is None


def test_an_annotation_that_cannot_be_read_resumes_its_job() -> None:
    made = PreemptingCluster({"a": 2})
    made.submit("low")
    made.change_job("low", suspended=True, preempted_for="by hand")
    made.settle()
    assert made.running() == {"low"}


def test_a_process_that_does_not_lead_does_nothing() -> None:
    made = two_jobs()
    made.state.leads = False
    made.step(3)
    assert made.writes == []


def test_on_caches_that_are_too_old_nobody_is_preempted() -> None:
    made = two_jobs()
    made.state.why_too_old = lambda: "the copy of pods is 200 s old"
    made.step(3)
    assert made.writes == []
    made.state.why_too_old = lambda: None
    made.step()
    assert made.writes == ["suspend low"]


def test_each_preemption_in_vain_doubles_the_back_off() -> None:
    made = PreemptingCluster({"a": 2, "b": 2}, Settings(preempt=True, preempt_seconds=5.0))
    made.run("first")
    made.run("second")
    made.submit("high", priority=5)
    for _ in range(90):
        made.step()
        for name in made.preempted():
            for pod in made.pods(name):
                made.cluster.change(pod, leaving=True)
    assert made.preempted() == {"first", "second"}
    failed = [text for _, why, text in made.events if why == "PreemptionFailed"]
    assert [text.rpartition("; ")[2] for text in failed] == [
        "tried again after 60 s",
        "tried again after 120 s",
    ]


# --- elastic jobs


def elastic() -> PreemptingCluster:
    made = PreemptingCluster({"a": 4}, Settings(preempt=True, preempt_shrink_seconds=30.0))
    made.run_elastic("low", 1, 3)
    made.submit("high", 1, 1, priority=5)
    return made


def test_an_elastic_job_is_given_time_to_shrink() -> None:
    made = elastic()
    made.step(25)
    assert made.writes == []
    made.settle(16)
    assert made.writes == ["suspend low", "resume low"]
    assert made.running() == {"high"}


def test_an_elastic_job_that_shrinks_is_not_preempted() -> None:
    made = elastic()
    made.step(5)
    made.cluster.rescale("low", 1, 1, leaving=True)
    made.cluster.delete(*(pod.name for pod in made.pods("low")))
    made.cluster.rescale("low", 1, 1, leaving=False)
    made.step(2)
    assert {name.split("-")[0] for name in made.cluster.planned_nodes()} == {"high"}
    assert made.state.reservation_count() == 4
    assert made.writes == []


def test_while_it_is_being_rescaled_it_is_waited_for_longer() -> None:
    made = elastic()
    made.step(25)
    made.cluster.rescale("low", 1, 1, leaving=True)
    made.step(60)
    assert made.writes == []


def test_a_job_that_cannot_make_enough_room_by_shrinking_is_not_waited_for() -> None:
    made = PreemptingCluster({"a": 4}, Settings(preempt=True))
    bounds = CountBounds(min_workers=3)
    made.run("low", 1, 3, goal=TargetLoss(0.1), bounds=bounds)
    made.submit("high", 1, 1, priority=5)
    made.step()
    assert made.preempted() == {"low"}


def test_a_job_without_a_goal_is_not_waited_for() -> None:
    made = PreemptingCluster({"a": 4})
    made.run("low", 1, 3)
    made.submit("high", 1, 1, priority=5)
    made.step()
    assert made.preempted() == {"low"}
    assert Counts(1, 3) == made.jobs["low"].job.counts  # type: ignore[union-attr]  # it has one


def test_a_job_that_may_never_be_rescaled_is_not_waited_for() -> None:
    made = elastic()
    job = made.jobs["low"].job
    assert job is not None
    made.change_job("low", job=replace(job, rescale=RescaleRule.NEVER))
    made.step()
    assert made.preempted() == {"low"}


def test_nobody_else_is_preempted_while_the_elastic_job_is_being_rescaled() -> None:
    made = PreemptingCluster({"a": 4, "b": 2}, Settings(preempt=True, preempt_shrink_seconds=30.0))
    made.run_elastic("elastic", 1, 3)
    made.run("fixed")
    made.submit("high", 1, 1, priority=5)
    made.step(25)
    made.cluster.rescale("elastic", 1, 1, leaving=True)
    made.step(60)
    assert made.writes == []


# --- the reported states


def state_of(made: PreemptingCluster, name: str) -> tuple[GangState, str]:
    (found,) = Inspector(made.planner, 600.0).of_job(JobKey("ns", name))
    return found.state, found.sentence


def test_inspection_reports_both_jobs() -> None:
    made = two_jobs()
    made.step()
    assert state_of(made, "high") == (
        GangState.PREEMPTING,
        "waits for the end of the pods of ns/low, whose room is reserved for it",
    )
    made.operator()
    made.operator()
    assert state_of(made, "low") == (
        GangState.SUSPENDED,
        "is suspended for ns/high, a job of a higher priority, and is resumed by itself",
    )


def test_inspection_still_names_the_victims_once_a_lost_reservation_is_made_again() -> None:
    made = two_jobs()
    made.step()
    made.state.break_plan("uid-high")
    made.step()
    assert "of the pods of ns/low, whose" in state_of(made, "high")[1]


def test_inspection_reports_pods_that_end_anyway() -> None:
    made = PreemptingCluster({"a": 2, "b": 2})
    made.run("ending", priority=9)
    made.run("low")
    for pod in made.pods("ending"):
        made.cluster.change(pod, leaving=True)
    made.submit("high", priority=5)
    made.step()
    assert "the pods of jobs that end anyway" in state_of(made, "high")[1]


def test_inspection_reports_until_when_others_may_shrink() -> None:
    made = elastic()
    made.step()
    state, sentence = state_of(made, "high")
    assert state is GangState.WAITING
    until = "jobs of a lower priority may shrink for it until 00:17 UTC, then they are preempted"
    assert until in sentence
    made.settle(40)
    assert "shrink" not in state_of(made, "high")[1]


@pytest.mark.parametrize(
    ("seconds", "reported"),
    [
        pytest.param(30.0, False, id="their time is just over"),
        pytest.param(30.5, True, id="half a second is left"),
    ],
)
def test_inspection_reports_shrinking_until_the_time_for_it_is_over(
    seconds: float, reported: bool
) -> None:
    settings = Settings(preempt=True, preempt_shrink_seconds=seconds, protected_classes=("gold",))
    made = PreemptingCluster({"a": 4}, settings)
    made.run_elastic("low", 1, 3, priority_class="gold")
    made.submit("high", 1, 1, priority=5)
    made.step(31)
    assert ("may shrink" in state_of(made, "high")[1]) == reported
    made.step()
    assert "may shrink" not in state_of(made, "high")[1]


# --- its thread


class Steps:
    """Counts its steps, each of which fails."""

    def __init__(self) -> None:
        self.several = threading.Event()
        self.count = 0

    def step(self) -> None:
        self.count += 1
        if self.count == 3:
            self.several.set()
        raise RuntimeError("this step failed")


def test_the_thread_steps_again_and_again_whatever_fails_until_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("extender.preemption.controller.STEP_SECONDS", 0.001)
    steps = Steps()
    thread = PreemptionThread(steps)  # type: ignore[arg-type]  # it has the one method that is called
    thread.start()
    assert steps.several.wait(180)
    thread.stop()
    count = steps.count
    assert not thread._thread.is_alive()
    assert steps.count == count


def test_a_thread_that_was_never_started_can_be_stopped() -> None:
    steps = Steps()
    PreemptionThread(steps).stop()  # type: ignore[arg-type]  # it has the one method that is called
    assert steps.count == 0
