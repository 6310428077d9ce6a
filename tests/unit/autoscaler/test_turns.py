"""A policy by which jobs take turns, on a cluster: they are paused and resumed by their shares."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

from autoscaler.jobs.managed import Holds
from optimus.allocation import PolicyMemory
from optimus.kube.contract import Phase
from optimus.kube.errors import ErrorKind
from optimus.kube.nodes import ClusterNode
from optimus.kube.pods import Pod
from optimus.kube.profile_codec import unpack
from optimus.kube.profiles import NodeKind
from optimus.kube.training_jobs import TrainingJob
from optimus.lifecycle import JobRecord
from optimus.nodes import NODE_KIND_LABEL, Node
from optimus.rescale.words import PauseReason
from optimus.resources import Resources
from tests.unit.autoscaler.controller_harness import TIMING, ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job

USUAL = {"training_mode": "sync", "target_loss": "0.001", "rescale": "any"}
PAUSES = Holds(pauses=frozenset({PauseReason.POLICY}))
NAMES = ("a", "b", "c")


@dataclass
class KindsCluster(FakeCluster):
    """A cluster with a node of each of several kinds; each job has all its pods on one of them."""

    kinds: dict[str, int] = field(default_factory=dict)
    """CPUs by kind."""

    def decoded(self) -> tuple[list[TrainingJob], list[ClusterNode], list[Pod]]:
        jobs, _, pods = super().decoded()
        nodes = [
            Node(kind, Resources(cpu=1000 * cpus, pods=110), labels={NODE_KIND_LABEL: kind})
            for kind, cpus in self.kinds.items()
        ]
        return jobs, [ClusterNode(name=node.name, node=node) for node in nodes], pods

    def _make_pods(self, fake: FakeJob) -> None:
        binding = self.profiles[fake.name].status.node_kind if fake.name in self.profiles else None
        taken = dict.fromkeys(self.kinds, 0)
        for each in self.jobs.values():
            for pod in each.pods:
                taken[pod["spec"]["nodeName"]] += 1
        for kind, cpus in self.kinds.items():
            is_allowed = binding is None or binding == NodeKind(NODE_KIND_LABEL, kind)
            if is_allowed and taken[kind] + sum(fake.counts) <= cpus:
                super()._make_pods(fake)
                for pod in fake.pods:
                    pod["spec"]["nodeName"] = kind
                return


def taking_turns(cluster: FakeCluster, holds: Holds = PAUSES, **options: Any) -> ControllerHarness:
    timing = replace(TIMING, holds=holds)
    given: dict[str, Any] = {"policy": "gavel-las", "instance": "one", "measures": False, **options}
    return ControllerHarness(cluster, timing=timing, **given)


def submit(cluster: FakeCluster, *names: str) -> list[FakeJob]:
    """Jobs of which each fills four cores."""
    cluster.cpus = cluster.cpus if isinstance(cluster, KindsCluster) else 4
    jobs = [cluster.submit(tf_job(name, 1, 3)) for name in names]
    for job in jobs:
        job.annotate(**USUAL)
    return jobs


def record_of(cluster: FakeCluster, name: str) -> JobRecord:
    return unpack(cluster.profiles[name].status.state, name, cluster.at).record


def received(cluster: FakeCluster) -> dict[str, float]:
    return {name: record_of(cluster, name).received_seconds for name in cluster.profiles}


def test_jobs_of_which_one_fits_get_equal_parts_of_the_time(cluster: FakeCluster) -> None:
    harness = taking_turns(cluster)
    jobs = submit(cluster, *NAMES)
    harness.run(900)
    seconds = received(cluster)
    assert all(job.runs > 2 for job in jobs)
    assert max(seconds.values()) < 1.4 * min(seconds.values()), seconds


def test_each_job_goes_on_where_it_was_paused(cluster: FakeCluster) -> None:
    harness = taking_turns(cluster)
    a, *_ = submit(cluster, *NAMES)
    harness.run_until("a", Phase.PAUSED)
    saved = a.saved
    harness.run_until("a", Phase.TRAINING)
    assert a.step >= saved > 0


def test_a_new_leader_goes_on_with_what_the_policy_remembers(cluster: FakeCluster) -> None:
    harness = taking_turns(cluster)
    submit(cluster, *NAMES)
    harness.run(200)
    before = json.loads(cluster.lease)
    parts = {name: dict(record_of(cluster, name).remembered) for name in NAMES}
    assert before["policy"] == "gavel-las"
    assert "jobs" not in before["data"]
    assert all(part["policy"] == "gavel-las" and part["data"] for part in parts.values())
    harness.restart()
    harness.run(2)
    # Decided anew, on the same: shares are not set again, as the jobs are the same.
    assert json.loads(cluster.lease)["data"] == before["data"]
    assert {name: record_of(cluster, name).remembered for name in NAMES} == parts


def test_restarts_do_not_change_what_jobs_get(cluster: FakeCluster) -> None:
    harness = taking_turns(cluster)
    submit(cluster, *NAMES)
    for passed in (70, 90, 110, 130, 150, 170, 190, 210):
        harness.run(passed)
        harness.restart()
    harness.run(2)
    seconds = received(cluster)
    assert max(seconds.values()) < 1.4 * min(seconds.values()), seconds


def test_nothing_is_done_before_what_the_policy_remembers_is_stored(cluster: FakeCluster) -> None:
    harness = taking_turns(cluster)
    jobs = submit(cluster, *NAMES)
    harness.run_until("a", Phase.TRAINING)
    cluster.refuse = ErrorKind.TRANSIENT
    suspended = [job.suspended for job in jobs]
    stored = cluster.lease
    harness.run(100)
    assert (suspended, stored) == ([job.suspended for job in jobs], cluster.lease)
    cluster.refuse = None
    harness.run_until("a", Phase.PAUSED)


def test_what_cannot_be_read_of_the_lease_is_known_before_anything_is_decided(
    cluster: FakeCluster,
) -> None:
    harness = taking_turns(cluster)
    submit(cluster, *NAMES)
    harness.run(200)
    harness.restart()
    cluster.unreachable = True
    harness.run(20)
    assert harness.intervals == 0
    cluster.unreachable = False
    harness.run(20)
    assert harness.intervals > 0


def test_what_another_policy_or_somebody_else_has_written_is_left_out(
    cluster: FakeCluster,
) -> None:
    parts = {"a": PolicyMemory("x", 2, {"s": 1}), "b": PolicyMemory("y", 2, {"s": 2})}
    assert PolicyMemory.joined("x", "{", parts).data == {"jobs": {"a": {"s": 1}}}
    stored = PolicyMemory("x", 2, {"at": 5}).as_json()
    assert PolicyMemory.joined("x", stored, parts).data == {"at": 5, "jobs": {"a": {"s": 1}}}
    assert PolicyMemory.joined("z", stored, parts).data == {"jobs": {}}
    harness = taking_turns(cluster)
    cluster.lease = "written by somebody else"
    submit(cluster, *NAMES)
    harness.run_until("a", Phase.PAUSED)


def test_jobs_are_held_to_the_kind_of_nodes_that_they_are_granted() -> None:
    cluster = KindsCluster(kinds={"fast": 4, "slow": 4}, cpus=8)
    harness = taking_turns(cluster)
    jobs = submit(cluster, *NAMES)
    for _ in range(250):
        harness.run(2)
        for job in jobs:
            status = cluster.profiles[job.name].status
            kind = None if status.rescale else status.node_kind
            if job.pods and kind is not None and status.phase is Phase.TRAINING:
                assert {pod["spec"]["nodeName"] for pod in job.pods} == {kind.value}
    by_kind = {name: record_of(cluster, name).received for name in NAMES}
    sums = [sum(each.values()) for each in by_kind.values()]
    assert 0 < max(sums) < 1.4 * min(sums), by_kind
    assert {kind for each in by_kind.values() for kind in each} == {"fast", "slow"}


def test_paused_jobs_are_resumed_where_the_policy_takes_no_turns_any_more(
    cluster: FakeCluster,
) -> None:
    harness = taking_turns(cluster)
    jobs = submit(cluster, *NAMES)
    harness.run_until("a", Phase.PAUSED)
    other = taking_turns(cluster, Holds(), policy="optimus", instance="two")
    other.run(200)
    assert not any(job.suspended for job in jobs)
    assert all(cluster.profiles[name].status.node_kind is None for name in NAMES)
