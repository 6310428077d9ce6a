"""Gangs of JobSets: their pods' labels and the JobSet together tell who belongs to one."""

from typing import Any

from extender.answers import FilterResult
from extender.http.app import Verbs
from extender.inspection import Inspector
from extender.notices import unrecognized_notices, waiting_notices
from optimus.jobs import JobKey
from optimus.kube.pods import Pod
from optimus.kube.training_jobs import TrainingJob
from tests.harness.jobsets import jobset, pod_of, replicated_job
from tests.unit.extender.fake_cluster import FakeCluster

NOT_SEEN = {"job ns/s itself has not been seen yet"}
INCOMPLETE = {"waiting for all pods of job ns/s"}
DEPENDS = [{"name": "a", "status": "Ready"}]


class SetCluster(FakeCluster):
    """A cluster that is asked as over HTTP."""

    def show(self, *pods: Pod) -> list[str]:
        for pod in pods:
            self.change(pod)
        return [pod.name for pod in pods]

    def jobset(self, after: TrainingJob | None, before: TrainingJob | None = None) -> None:
        self.handlers.job(before, after)

    def filter(self, pod: Pod, names: Any) -> FilterResult:
        return Verbs.of(self.parts).filter(pod, names)

    def reasons(self, name: str) -> set[str]:
        result = self.ask(name)
        assert result.kept == ()
        return {*result.refused.values()}


def pods(name: str, job: str, count: int, **fields: Any) -> list[Pod]:
    return [pod_of(name, job, 0, index, **fields) for index in range(count)]


def test_a_jobset_is_placed_whole_on_the_fewest_nodes_once_it_is_seen() -> None:
    cluster = SetCluster({"a": 2, "b": 3, "c": 2})
    names = cluster.show(*pods("s", "x", 3))
    assert cluster.reasons(names[0]) == NOT_SEEN
    cluster.jobset(jobset("s", replicated_job("x", 1, 3)))
    assert [cluster.place(name) for name in names] == ["b", "b", "b"]


def test_a_jobset_that_does_not_fit_waits_as_a_whole() -> None:
    cluster = SetCluster({"a": 2, "b": 2})
    cluster.jobset(jobset("s", replicated_job("x", 1, 3)))
    cluster.jobset(jobset("t", replicated_job("x", 1, 3)))
    first, second = cluster.show(*pods("s", "x", 3)), cluster.show(*pods("t", "x", 3))
    assert None not in [cluster.place(name) for name in first]
    assert [cluster.place(name) for name in second] == [None] * 3
    cluster.delete(*first)
    cluster.plan()
    assert None not in [cluster.place(name) for name in second]


def test_a_part_that_comes_later_is_not_waited_for() -> None:
    cluster = SetCluster({"a": 4})
    cluster.jobset(
        jobset("s", replicated_job("a", 1, 2), replicated_job("b", 1, 2, dependsOn=DEPENDS))
    )
    assert [cluster.place(name) for name in cluster.show(*pods("s", "a", 2))] == ["a", "a"]
    cluster.other("other", 1, "a")
    late = cluster.show(*pods("s", "b", 2))
    assert [cluster.place(name) for name in late] == [None, None]
    (notice,) = waiting_notices(Inspector(cluster.planner, 3600).waiting())
    assert (notice.kind, notice.name, notice.uid) == ("JobSet", "s", "uid-s")
    cluster.delete("other")
    cluster.plan()
    assert [cluster.place(name) for name in late] == ["a", "a"]
    states = [each.state for each in Inspector(cluster.planner, 3600).of_job(JobKey("ns", "s"))]
    assert states == ["running", "running"]


def test_a_restarted_jobset_is_placed_as_a_whole_again() -> None:
    cluster = SetCluster({"a": 3})
    one = jobset("s", replicated_job("x", 2, 1), replicated_job("y"))
    cluster.jobset(one)
    first = [pod_of("s", "x", index, 0) for index in range(2)] + [pod_of("s", "y", 0, 0)]
    assert [cluster.place(name) for name in cluster.show(*first)] == ["a"] * 3
    again = jobset("s", replicated_job("x", 2, 1), replicated_job("y"), restarts=1)
    cluster.jobset(again, one)
    cluster.delete(first[0].name)
    new = cluster.show(pod_of("s", "x", 0, 0, 1))
    # The old pods of the other Jobs are still there, and are no part of it any more.
    assert cluster.reasons(new[0]) == INCOMPLETE
    new += cluster.show(pod_of("s", "x", 1, 0, 1), pod_of("s", "y", 0, 0, 1))
    assert [cluster.place(name) for name in new] == [None] * 3
    cluster.delete(*(each.name for each in first[1:]))
    assert [cluster.place(name) for name in new] == ["a"] * 3


def test_a_jobset_that_has_ended_or_is_gone_leaves_nothing_behind() -> None:
    cluster = SetCluster({"a": 4})
    jobs = replicated_job("a", 1, 1), replicated_job("b", 1, 1, dependsOn=DEPENDS)
    running = jobset("s", *jobs)
    cluster.jobset(running)
    shown = cluster.show(*pods("s", "a", 1), *pods("s", "b", 1))
    assert [cluster.place(name) for name in shown] == ["a", "a"]
    assert {*cluster.state.cluster.jobs} == {"uid-s", "uid-s/b"}
    over = jobset("s", *jobs, conditions=["Completed"])
    cluster.jobset(over, running)
    assert cluster.state.cluster.jobs == {}
    cluster.delete(*shown)
    cluster.jobset(None, over)
    assert cluster.state.cluster.pods == {}
    assert cluster.state.cluster.have_run == set()
    assert cluster.handlers.job_sets._pods == {}


def test_pods_that_are_no_gang_pass_and_their_user_hears_why() -> None:
    cluster = SetCluster({"a": 1})
    cluster.jobset(jobset("s", replicated_job("x", 1, 2, completionMode="NonIndexed")))
    (name,) = cluster.show(pod_of("s", "x", 0, None))
    assert cluster.place(name) == "a"
    (notice,) = unrecognized_notices(cluster.state)
    assert (notice.kind, notice.uid, notice.reason) == ("JobSet", "uid-s", "GangNotRecognized")
    assert "completionMode Indexed" in notice.message
