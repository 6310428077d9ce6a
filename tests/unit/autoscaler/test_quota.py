"""A quota of the namespace limits what the controller does, and Events say so."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from autoscaler.cluster import Observation
from autoscaler.decide import _Cluster
from optimus.jobs import Counts
from optimus.kube.admission import Admission, Namespaces
from optimus.kube.quotas import LimitRange, ResourceQuota
from optimus.resources import Resources
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job

GOAL = {"target_loss": "0.12", "training_mode": "sync", "global_batch_size": "64"}


@dataclass
class QuotaCluster(FakeCluster):
    """A fake cluster with a quota of so many CPUs, observed as the caches observe it."""

    room: int = 5
    names: Sequence[str] = ("requests.cpu",)
    most: list[Counts] = field(default_factory=list)

    def observe(self, at: float) -> Observation:
        jobs, _, _ = self.decoded()
        found = super().observe(at)
        used = sum(len(fake.pods) for fake in self.jobs.values())
        amount = Resources(dict.fromkeys(self.names, self.room * 1000))
        quota = ResourceQuota(
            namespace="team",
            name="compute",
            limited=tuple(self.names),
            hard=amount,
            used=Resources(dict.fromkeys(self.names, used * 1000)),
        )
        none: tuple[LimitRange, ...] = ()
        spaces, admission = Namespaces.of([quota], none, ()), Admission()
        quotas = admission.quotas(jobs, found.pods, spaces)
        return replace(
            found,
            snapshot=replace(found.snapshot, quotas=quotas),
            refused=admission.refused(jobs, spaces),
        )


def run(cluster: QuotaCluster, job: FakeJob, seconds: int) -> tuple[ControllerHarness, int]:
    """Runs the controller; returns the most pods that the job has asked for."""
    harness, most = ControllerHarness(cluster, expects=False), 0
    for _ in range(seconds):
        cluster.pass_time(1.0)
        harness.controller.tick()
        if not job.suspended:
            most = max(most, sum(job.counts))
    return harness, most


def test_a_job_never_gets_more_than_the_quota_leaves_and_its_user_gets_an_event() -> None:
    cluster = QuotaCluster(room=5)
    job = cluster.submit(tf_job("a", 1, 1, **GOAL))
    _, most = run(cluster, job, 200)
    assert most == 5
    (event,) = {message for _, reason, message in cluster.events if reason == "QuotaReached"}
    assert "quota compute of namespace team leaves 0 of requests.cpu, and " in event
    assert "RollingBack" not in cluster.reasons("a")
    without = FakeCluster()
    free = without.submit(tf_job("a", 1, 1, **GOAL))
    harness = ControllerHarness(without, expects=False)
    most_without = 0
    for _ in range(200):
        without.pass_time(1.0)
        harness.controller.tick()
        most_without = max(most_without, sum(free.counts))
    assert most_without > 5, "it is the quota that holds it back"


def test_a_job_whose_pods_would_be_refused_is_not_stopped() -> None:
    cluster = QuotaCluster(room=50, names=("limits.cpu",))
    job = cluster.submit(tf_job("a", 1, 1, **GOAL))
    run(cluster, job, 120)
    assert job.runs == 1
    assert job.counts == Counts(1, 1)
    assert cluster.reasons("a").count("PodsWouldBeRefused") == 1
    assert "quota compute wants limits.cpu to be stated" in cluster.profiles["a"].status.reason


def test_a_raised_quota_brings_the_next_interval_forward_and_what_others_use_does_not() -> None:
    cluster = QuotaCluster(room=5)
    cluster.submit(tf_job("a", 1, 1, **GOAL))

    def allowed() -> object:
        return _Cluster(cluster.observe(cluster.at), {}, 0.0).allowed

    cluster.pass_time(1.0)
    before = allowed()
    cluster.pass_time(1.0)
    assert allowed() == before
    cluster.room = 6
    assert allowed() != before
