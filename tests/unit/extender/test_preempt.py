"""Whom kube-scheduler may evict, behind a scheduler that preempts."""

from collections.abc import Iterable, Mapping

from hypothesis import given
from hypothesis import strategies as st

from extender.preempt import Victims, allow_preemption
from optimus.jobs import Counts, Role
from optimus.kube.pods import Pod
from tests.cases import cases
from tests.unit.extender.fake_cluster import FakeCluster

HIGH = 1000


def victims(*pods: Pod, budget_violations: int = 0) -> Victims:
    return Victims(tuple(pod.uid for pod in pods), budget_violations)


def running(cluster: FakeCluster, job: str, *nodes: str) -> list[Pod]:
    """A job with a worker on each of these nodes."""
    cluster.spec(job, 0, len(nodes))
    gang = Counts(0, len(nodes))
    return [
        cluster.pod(job, Role.WORKER, index, gang, node=node, phase="Running")
        for index, node in enumerate(nodes)
    ]


def allowed(cluster: FakeCluster, pod: Pod, offered: Mapping[str, Victims]) -> set[str]:
    answer = allow_preemption(cluster.state, pod, offered)
    assert answer.items() <= dict(offered).items()
    return set(answer)


class TestGangs:
    @cases("whole", {"in part": False, "whole": True})
    def test_nobody_is_evicted_for_a_pod_of_a_gang(self, whole: bool) -> None:
        cluster = FakeCluster({"n": 1})
        (low,) = running(cluster, "low", "n")
        pod = cluster.pod("high", Role.WORKER, 0, Counts(0, 1 if whole else 2), priority=HIGH)
        assert allowed(cluster, pod, {"n": victims(low)}) == set()


class TestOtherPods:
    def test_nodes_without_pods_of_jobs_come_first(self) -> None:
        cluster = FakeCluster({"n1": 1, "n2": 1})
        (worker,) = running(cluster, "low", "n1")
        plain = cluster.other("plain", 1, "n2")
        pod = cluster.other("high", 1, priority=HIGH)
        assert allowed(cluster, pod, {"n1": victims(worker), "n2": victims(plain)}) == {"n2"}

    def test_disruption_budgets_come_before_jobs_as_they_do_for_kube_scheduler(self) -> None:
        cluster = FakeCluster({"n1": 1, "n2": 1})
        (worker,) = running(cluster, "low", "n1")
        plain = cluster.other("plain", 1, "n2")
        pod = cluster.other("high", 1, priority=HIGH)
        offered = {"n1": victims(worker), "n2": victims(plain, budget_violations=1)}
        assert allowed(cluster, pod, offered) == {"n1"}

    @cases(
        ("priority", "cpu", "expected"),
        {
            "a lower gang's reservation does not count": (HIGH, 2, {"n"}),
            "a higher gang's does": (10, 2, set()),
            "unless the victim leaves enough beside it": (10, 1, {"n"}),
        },
    )
    def test_where_room_stays_reserved_no_pod_is_evicted(
        self, priority: int, cpu: int, expected: set[str]
    ) -> None:
        cluster = FakeCluster({"n": 3})
        (low,) = running(cluster, "low", "n")
        (waiting,) = cluster.job("gang", 0, 1, cpu=2, priority=100)
        cluster.plan()
        assert cluster.planned_nodes() == {waiting: "n"}
        pod = cluster.other("pod", cpu, priority=priority)
        assert allowed(cluster, pod, {"n": victims(low)}) == expected

    @given(
        jobs=st.dictionaries(
            st.sampled_from("abcdef"), st.sets(st.sampled_from("123"), min_size=1)
        ),
        budgets=st.lists(st.integers(0, 2), min_size=3, max_size=3),
    )
    def test_no_node_that_is_left_harms_more_than_one_that_is_dropped(
        self, jobs: dict[str, set[str]], budgets: list[int]
    ) -> None:
        cluster = FakeCluster(dict.fromkeys("123", 9))
        pods = {name: running(cluster, name, *sorted(nodes)) for name, nodes in jobs.items()}
        offered = {
            node: victims(*on(pods.values(), node), budget_violations=budgets[index])
            for index, node in enumerate("123")
        }
        harm = {node: (found.budget_violations, len(found.uids)) for node, found in offered.items()}
        kept = allowed(cluster, cluster.other("high", 9, priority=HIGH), offered)
        assert kept == {node for node in offered if harm[node] == min(harm.values())}


def on(jobs: Iterable[list[Pod]], node: str) -> list[Pod]:
    return [pod for pods in jobs for pod in pods if pod.node == node]
