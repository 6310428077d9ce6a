"""A quota of the namespace limits what the controller does, and gangs do not lock each other."""

import pytest

from autoscaler.decide import _Cluster
from autoscaler.web.copies import copy_of_profiles
from autoscaler.web.rows import row_of
from optimus.jobs import Counts
from optimus.kube.suspension import read_suspension
from tests.unit.autoscaler.fake_job import SUSPENDED_BY
from tests.unit.autoscaler.quota_cluster import GOAL, QuotaScene


def test_a_job_never_gets_more_than_the_quota_leaves_and_its_user_gets_an_event() -> None:
    made = QuotaScene(cpu="5")
    job = made.submit("a", 1, 1, **GOAL)
    job.annotate(max_ps=None, max_workers=None, target_loss="0.12")
    made.harness.run(200)
    assert sum(job.counts) <= 5
    assert job.counts != Counts(1, 1)
    message = made.message("a", "QuotaReached")
    assert "quota training of namespace team leaves 0 of requests.cpu, and " in message
    assert "RollingBack" not in made.cluster.reasons("a")
    del made.cluster.hard["training"]
    made.harness.run(200)
    assert sum(job.counts) > 5, "it is the quota that held it back"


def test_a_raised_quota_brings_the_next_interval_forward_and_what_others_use_does_not() -> None:
    made = QuotaScene(cpu="5")
    made.submit("a", 1, 1, **GOAL)

    def allowed() -> object:
        return _Cluster(made.cluster.observe(made.cluster.at), {}, 0.0).allowed

    before = allowed()
    made.cluster.other_pods = 2
    assert allowed() == before
    made.allow("6", "cpu")
    assert allowed() != before


# --- gangs that each hold a part


@pytest.mark.parametrize(
    "name", ["pods", "count/pods", "cpu", "limits.cpu", "memory", "requests.nvidia.com/gpu"]
)
def test_of_two_gangs_that_hold_halves_of_a_quota_the_later_makes_way_for_the_first(
    name: str,
) -> None:
    made = QuotaScene()
    made.two_halves(name)
    made.harness.run(18)
    reason = made.harness.status("qa").reason
    assert "2 of its 4 pods cannot be created" in reason
    assert "quota training of namespace team allows 4" in reason
    assert "qa holds 2" in reason
    assert "qb holds 2" in reason
    made.harness.run(100)
    assert made.whole() == {"qa"}
    assert made.paused() == {"qb"}
    mark = made.cluster.jobs["qb"].manifest["metadata"]["annotations"][SUSPENDED_BY]
    preemption = read_suspension(mark).preemption
    assert preemption is not None
    assert (preemption.job, preemption.by_quota) == ("team/qa", True)
    made.harness.run(200)
    assert made.paused() == {"qb"}, "it stays so while the first needs the quota"
    made.end("qa")
    made.harness.run(60)
    assert made.whole() == {"qb"}
    assert made.cluster.reasons("qb").count("Preempted") == 1


def test_a_job_of_another_kind_is_made_way_for_and_told_what_to_do() -> None:
    made = QuotaScene()
    made.two_halves(kinds=("PyTorchJob", "TFJob"))
    made.harness.run(18)
    copies = copy_of_profiles(made.cluster.observe(made.cluster.at)).jobs.values()
    row = next(row_of(each) for each in copies if each.key.name == "qa")
    assert row.needs.startswith("2 of its 4 pods cannot be created: it needs 4 of pods, quota")
    assert "quota training of namespace team allows 4, of which qa holds 2" in row.needs
    made.harness.run(82)
    assert made.paused() == {"qb"}
    made.cluster.jobs["qa"].changed()  # the operator tries it again
    made.harness.run(10)
    assert made.whole() == {"qa"}
    other = QuotaScene()
    other.two_halves(kinds=("TFJob", "PyTorchJob"))
    other.harness.run(60)
    assert not other.paused()
    assert "kubectl patch pytorchjob qb -n team" in other.message("qb", "HoldsQuota")


def test_three_gangs_run_one_after_the_other_and_nobody_is_paused_in_vain() -> None:
    made = QuotaScene()
    for number, name in enumerate("abc"):
        made.allow(str(2 * number + 2))
        made.submit(name, 1, 3, **GOAL)
    made.harness.run(100)
    assert made.whole() == {"a"}
    assert made.paused() == {"c"}, "what the last one holds is enough"
    for ended, whole in (("a", "b"), ("b", "c")):
        made.end(ended)
        made.harness.run(100)
        assert whole in made.whole()


def test_a_gang_too_large_for_the_quota_does_not_hold_the_others() -> None:
    made = QuotaScene(pods="4")
    made.submit("large", 1, 5, **GOAL)
    made.submit("small", 1, 1, **GOAL)
    assert [made.pods("large"), made.pods("small")] == [4, 0]
    made.harness.run(100)
    assert made.whole() == {"small"}
    assert made.paused() == {"large"}
    made.end("small")
    made.harness.run(30)
    assert not made.paused()
    made.submit("next", 1, 2, **GOAL)
    made.harness.run(100)
    assert made.whole() == {"next"}


def test_nobody_is_paused_where_a_gang_that_runs_holds_the_rest() -> None:
    made = QuotaScene(pods="4")
    made.submit("runs", 1, 1, **GOAL)
    made.submit("waits", 1, 3, **GOAL)
    made.submit("last", 1, 1, **GOAL)
    made.harness.run(100)
    assert made.whole() == {"runs"}
    assert not made.paused()
    made.end("runs")
    made.harness.run(100)
    assert "waits" in made.whole()


def test_a_gang_that_is_behind_does_not_take_what_was_freed_for_the_first() -> None:
    made = QuotaScene()
    made.two_halves()
    made.submit("last", 1, 1, **GOAL)
    made.harness.run(100)
    assert made.whole() == {"qa"}


def test_a_gang_that_lacks_something_else_keeps_nobody_paused() -> None:
    made = QuotaScene()
    made.two_halves()
    made.harness.run(30)
    assert made.paused() == {"qb"}
    made.cluster.never.add("qa")
    made.harness.run(400)
    assert made.whole() == {"qb"}


@pytest.mark.parametrize("pods", ["8", None])
def test_a_quota_that_grows_or_goes_ends_the_pause(pods: str | None) -> None:
    made = QuotaScene()
    made.two_halves()
    made.harness.run(100)
    made.cluster.hard = {} if pods is None else {"training": {"pods": pods}}
    made.harness.run(60)
    assert made.whole() == {"qa", "qb"}
    assert not made.paused()


def test_a_quota_that_shrinks_below_every_gang_pauses_nobody() -> None:
    made = QuotaScene()
    made.two_halves()
    made.allow("3")
    made.harness.run(60)
    assert not made.paused()


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({"workload": "w"}, id="a job without a goal"),
        pytest.param({**GOAL, "rescale": "never"}, id="one that may not be stopped"),
        pytest.param({**GOAL, "manage": "recommend"}, id="one that is only recommended to"),
    ],
)
def test_a_job_that_may_not_be_paused_gets_an_event(annotations: dict[str, str]) -> None:
    made = QuotaScene()
    made.two_halves(later=annotations)
    made.harness.run(60)
    assert not made.paused()
    message = made.message("qb", "HoldsQuota")
    assert "suspend it until qa runs (kubectl patch tfjob qb -n team --type merge" in message
    assert '"suspend":true' in message
    assert "qb holds 2" in made.message("qb", "PodsNotCreated")


def test_the_reason_of_a_new_job_whose_pods_are_refused_says_so() -> None:
    """Whatever refuses them: it was never rescaled."""
    made = QuotaScene(cpu="64")
    job = made.submit("a", 1, 3, **GOAL)
    job.pods.clear()
    made.cluster.operator_is_away = True
    made.harness.run(60)
    reason = made.harness.status("a").reason
    assert reason.startswith("4 of its 4 pods cannot be created")
    assert "rescale" not in reason
    assert "kubectl describe tfjob a -n team" in reason
