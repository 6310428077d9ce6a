"""A policy by which jobs take turns, on a cluster: they are paused and resumed by their shares."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from autoscaler.jobs.managed import Holds
from optimus.allocation import PolicyMemory
from optimus.allocation.policy import Service
from optimus.kube.contract import Phase
from optimus.kube.errors import ErrorKind
from optimus.kube.nodes import ClusterNode
from optimus.kube.pods import Pod
from optimus.kube.profile_codec import unpack
from optimus.kube.profiles import NodeKind
from optimus.kube.training_jobs import TrainingJob
from optimus.lifecycle import JobRecord, received_until
from optimus.nodes import NODE_KIND_LABEL, Node
from optimus.rescale.disruption import UNLIMITED, DisruptionLimits, Limit
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
    drained: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    """Kinds on which no pod is placed, although the nodes seem to be free."""

    def decoded(self) -> tuple[list[TrainingJob], list[ClusterNode], list[Pod]]:
        jobs, _, pods = super().decoded()
        nodes = [
            Node(
                kind,
                Resources(cpu=1000 * cpus, pods=110),
                labels={NODE_KIND_LABEL: kind},
                cordoned=kind in self.drained,
            )
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
            if (
                kind not in self.drained | self.closed
                and is_allowed
                and taken[kind] + sum(fake.counts) <= cpus
            ):
                super()._make_pods(fake)
                for pod in fake.pods:
                    pod["spec"]["nodeName"] = kind
                return


class Killed(BaseException):
    """The autoscaler's process ends."""


@dataclass
class KillingCluster(FakeCluster):
    """A cluster that ends the autoscaler's process before a write."""

    ends_after: int | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "writes" and self.ends_after is not None and value > self.ends_after:
            raise Killed


def taking_turns(
    cluster: FakeCluster,
    holds: Holds = PAUSES,
    disruption: DisruptionLimits = UNLIMITED,
    **options: Any,
) -> ControllerHarness:
    timing = replace(TIMING, holds=holds, disruption=disruption)
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


def service_of(cluster: FakeCluster, name: str) -> Service:
    """What a job has received, with the turn that it has now."""
    return received_until(record_of(cluster, name), cluster.at)


def received(cluster: FakeCluster) -> dict[str, float]:
    return {name: service_of(cluster, name).seconds for name in cluster.profiles}


def test_jobs_of_which_one_fits_get_equal_parts_of_the_time(cluster: FakeCluster) -> None:
    harness = taking_turns(cluster)
    jobs = submit(cluster, *NAMES)
    harness.run(1800)
    seconds = received(cluster)
    assert all(job.runs > 2 for job in jobs)
    assert max(seconds.values()) < 1.3 * min(seconds.values()), seconds  # rounds of 48 s


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
    # It goes on with the round that has begun, which ends when it would have.
    assert harness.intervals > 0
    assert json.loads(cluster.lease)["data"] == before["data"]
    assert {name: dict(record_of(cluster, name).remembered) for name in NAMES} == parts
    ends_at = before["data"]["cluster"]["round_at"] + 48
    harness.run(int(ends_at - cluster.at) - 2)
    assert json.loads(cluster.lease)["data"] == before["data"]
    harness.run(4)
    assert json.loads(cluster.lease)["data"]["cluster"]["round_at"] == pytest.approx(ends_at, abs=2)


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
    harness.run_until("a", Phase.WAITING_FOR_ITS_TURN)


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


def test_what_another_policy_or_somebody_else_has_written_is_left_out(cluster: FakeCluster) -> None:
    parts = {"a": PolicyMemory("x", 2, {"s": 1}), "b": PolicyMemory("y", 2, {"s": 2})}
    assert PolicyMemory.joined("x", "{", parts).data == {"jobs": {"a": {"s": 1}}}
    stored = PolicyMemory("x", 2, {"at": 5}).as_json()
    assert PolicyMemory.joined("x", stored, parts).data == {"at": 5, "jobs": {"a": {"s": 1}}}
    assert PolicyMemory.joined("z", stored, parts).data == {"jobs": {}}
    harness = taking_turns(cluster)
    cluster.lease = "written by somebody else"
    submit(cluster, *NAMES)
    harness.run_until("a", Phase.WAITING_FOR_ITS_TURN)


def test_jobs_are_held_to_the_kind_of_nodes_that_they_are_granted() -> None:
    cluster = KindsCluster(kinds={"fast": 4, "slow": 4}, cpus=8)
    harness = taking_turns(cluster)
    jobs = submit(cluster, *NAMES)
    for _ in range(450):
        harness.run(2)
        for job in jobs:
            status = cluster.profiles[job.name].status
            kind = None if status.rescale else status.node_kind
            if job.pods and kind is not None and status.phase is Phase.TRAINING:
                assert {pod["spec"]["nodeName"] for pod in job.pods} == {kind.value}
    by_kind = {name: service_of(cluster, name).by_kind for name in NAMES}
    sums = [sum(each.values()) for each in by_kind.values()]
    assert 0 < max(sums) < 1.4 * min(sums), by_kind
    assert {kind for each in by_kind.values() for kind in each} == {"fast", "slow"}


def test_a_job_that_waits_is_told_its_share_what_it_has_received_and_its_turn(
    cluster: FakeCluster,
) -> None:
    harness = taking_turns(cluster)
    submit(cluster, *NAMES)
    status = harness.run_until("a", Phase.WAITING_FOR_ITS_TURN)
    assert status.reason.startswith("paused by the policy until it is its turn: not its turn")
    assert "its share is 33%, it has run for " in status.reason
    assert "its turn is expected at 2027-01-15T08:" in status.reason
    (told,) = [text for name, *each, text in cluster.events if (name, each) == ("a", ["Paused"])]
    assert told.startswith("not its turn")


def test_turns_are_not_held_back_by_the_disruption_budget(cluster: FakeCluster) -> None:
    budget = DisruptionLimits(Limit(1), Limit(1))
    harness = taking_turns(cluster, disruption=budget)
    cluster.cpus = 8
    jobs = [cluster.submit(tf_job(name, 1, 3)) for name in ("a", "b", "c", "d")]
    for job in jobs:
        job.annotate(**USUAL)
    harness.run(24)
    harness.run_until("a", Phase.SUSPENDING, Phase.WAITING_FOR_ITS_TURN)
    assert [job.suspended for job in jobs[:2]] == [True, True]


@pytest.mark.parametrize("write", range(14))
def test_one_that_ends_at_any_write_leaves_nothing_that_the_next_does_not_end(write: int) -> None:
    """Also between what is stored of the policy and what is done."""
    cluster = KillingCluster()
    harness = taking_turns(cluster)
    jobs = submit(cluster, *NAMES)
    harness.run_until("a", Phase.TRAINING)
    harness.run(40)
    cluster.ends_after = cluster.writes + write
    with pytest.raises(Killed):
        harness.run(200)
    cluster.ends_after = None
    harness.restart()
    harness.run(400)
    assert all(job.runs for job in jobs)
    assert sum(bool(job.pods) and not job.suspended for job in jobs) <= 1
    seconds = received(cluster)
    assert all(each > 0 for each in seconds.values()), seconds


def test_a_new_job_starts_to_be_measured_where_others_fill_the_cluster(
    cluster: FakeCluster,
) -> None:
    """Nothing is known of its length before it runs, by which the policy decides."""
    harness = taking_turns(cluster, policy="gavel-sjf")
    (job,) = submit(cluster, "a")
    harness.run_until("a", Phase.TRAINING)
    harness.run(40)
    (other,) = submit(cluster, "b")
    harness.run(60)
    assert other.runs
    assert job.suspended


def test_a_job_is_released_from_a_kind_that_has_no_room_for_long() -> None:
    cluster = KindsCluster(kinds={"fast": 4, "slow": 4}, closed={"fast", "slow"}, cpus=8)
    harness = taking_turns(cluster)
    (job,) = submit(cluster, "a")
    harness.run(30, tick=5)
    held_to = harness.status("a").node_kind
    assert held_to is not None
    (other,) = cluster.kinds.keys() - {held_to.value}
    cluster.closed.remove(other)
    harness.run(540, tick=20)
    assert not job.pods
    harness.run(80, tick=5)
    assert {pod["spec"]["nodeName"] for pod in job.pods} == {other}
    assert cluster.reasons("a").count("KindReleased") == 1
