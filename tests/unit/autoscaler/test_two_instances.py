"""Two autoscalers one after the other, or by mistake at once; and jobs of which only a mark is
left."""

import random

import pytest

from autoscaler.jobs.managed import FOREIGN_SUSPENSION_SECONDS
from optimus.jobs import Role
from optimus.kube.profile_codec import MOST_STORED, SavedState, pack, unpack
from optimus.kube.profiles import TrainingProfile
from optimus.progress.pod_progress import PodState
from optimus.progress.state import LogState
from tests.cases import cases
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import SUSPENDED_BY, FakeJob, tf_job


def submitted(cluster: FakeCluster, **annotations: str) -> FakeJob:
    options = {"target_loss": "0.12", "training_mode": "sync", **annotations}
    return cluster.submit(tf_job("a", 1, 1, **options))


def mark(job: FakeJob) -> str | None:
    found: str | None = job.manifest["metadata"]["annotations"].get(SUSPENDED_BY)
    return found


def suspend(job: FakeJob, text: str) -> None:
    """As an autoscaler does it."""
    job.manifest["spec"]["runPolicy"]["suspend"] = True
    job.manifest["metadata"]["annotations"][SUSPENDED_BY] = text
    job.changed()


def test_the_next_leader_completes_the_rescale_and_says_that_it_writes(
    cluster: FakeCluster,
) -> None:
    job = submitted(cluster)
    ControllerHarness(cluster, instance="one").run_till(lambda: job.suspended)
    assert (mark(job) or "").split()[1:] == ["one"]
    runs, rescale = job.runs, cluster.profiles["a"].status.rescale
    assert rescale is not None
    second = ControllerHarness(cluster, instance="two")
    second.run(4, tick=1)
    assert (job.suspended, job.runs) == (False, runs + 1)
    assert job.counts == rescale.target
    assert cluster.profiles["a"].status.written_by == "two"


def test_the_next_leader_writes_the_profile_before_it_touches_the_job(cluster: FakeCluster) -> None:
    job = submitted(cluster)
    ControllerHarness(cluster, instance="one").run_till(lambda: job.suspended)
    version, stored = job.version, cluster.profiles["a"]
    cluster.refuses_status = True
    ControllerHarness(cluster, instance="two").run(10)
    assert (job.version, cluster.profiles["a"]) == (version, stored)


def test_what_the_former_leader_wrote_last_is_read_before_it_is_overwritten(
    cluster: FakeCluster,
) -> None:
    job = submitted(cluster)
    first = ControllerHarness(cluster, instance="one")
    first.run_till(lambda: job.suspended)
    cluster.seen_profiles = dict(cluster.profiles)
    first.run_until("a", "Profiling")
    runs, stored = job.runs, cluster.profiles["a"].status
    assert stored.rescale is None
    second = ControllerHarness(cluster, instance="two")
    second.run(3)
    assert job.runs == runs, "the rescale of the old copy is over"
    cluster.seen_profiles = None
    second.run(3)
    saved = unpack(stored.state, "a", cluster.at)
    known = second.state().record.profiled
    assert known[: len(saved.record.profiled)] == saved.record.profiled
    assert cluster.profiles["a"].status.written_by == "two"


def test_a_profile_that_the_watch_has_not_shown_yet_is_not_overwritten_unread(
    cluster: FakeCluster,
) -> None:
    job = submitted(cluster)
    cluster.seen_profiles = dict[str, TrainingProfile]()
    ControllerHarness(cluster, instance="one").run_till(lambda: job.suspended)
    target = cluster.profiles["a"].status.rescale
    assert target is not None
    ControllerHarness(cluster, instance="two").run(5)
    assert not job.suspended
    assert job.counts == target.target


def test_labels_that_a_user_changes_do_not_hold_up_the_profile(cluster: FakeCluster) -> None:
    submitted(cluster)
    harness = ControllerHarness(cluster, instance="one")
    harness.run_until("a", "Profiling")
    profile = cluster.profiles["a"]
    values = {name: getattr(profile, name) for name in profile.__struct_fields__}
    cluster.profiles["a"] = TrainingProfile(**values | {"resource_version": "777"})
    harness.run(10)
    assert int(cluster.profiles["a"].resource_version) > 777
    assert cluster.profiles["a"].status.written_by == "one"


def test_a_suspension_by_another_instance_is_left_to_it_for_a_minute(cluster: FakeCluster) -> None:
    job = submitted(cluster, rescale="never")
    harness = ControllerHarness(cluster, instance="one")
    harness.run_until("a", "Training")
    suspend(job, "i9 two")
    harness.run(round(FOREIGN_SUSPENSION_SECONDS) - 2)
    assert mark(job) == "i9 two"
    harness.run(10)
    assert not job.suspended
    assert mark(job) is None


@cases(
    ("text", "resumed"),
    {
        "for a rescale": ("i9 one", True),
        "by an earlier version": ("i9", True),
        "at its goal": ("i9 one for-good", False),
    },
)
def test_of_a_job_without_a_profile_the_mark_says_whether_it_is_resumed(
    cluster: FakeCluster, text: str, resumed: bool
) -> None:
    job = submitted(cluster, rescale="never")
    cluster.pass_time(1.0)
    suspend(job, text)
    ControllerHarness(cluster, instance="two").run(20)
    assert job.suspended is not resumed
    assert mark(job) == (None if resumed else text)


def test_a_job_that_is_no_longer_managed_and_lost_its_profile_is_resumed(
    cluster: FakeCluster,
) -> None:
    job = submitted(cluster)
    ControllerHarness(cluster, instance="one").run_till(lambda: job.suspended)
    job.annotate(target_loss=None)
    cluster.profiles.clear()
    ControllerHarness(cluster, instance="two").run(20)
    assert not job.suspended


@pytest.mark.parametrize("what", ["refuses_status", "refuses_reports"])
@pytest.mark.parametrize("by", ["the same instance", "the next leader"])
def test_a_profile_that_cannot_be_written_keeps_no_job_suspended(
    cluster: FakeCluster, what: str, by: str
) -> None:
    job = submitted(cluster)
    harness = ControllerHarness(cluster, instance="one")
    harness.run_till(lambda: job.suspended)
    setattr(cluster, what, True)
    if by == "the next leader":
        harness = ControllerHarness(cluster, instance="two")
    if what == "refuses_reports":
        cluster.profiles.clear()  # with their CRD
    harness.run(140)
    assert not job.suspended
    assert mark(job) is None
    if what == "refuses_status":
        assert "ProfileNotWritable" in cluster.reasons("a")


def test_the_state_of_a_job_is_stored_whatever_its_log_holds(cluster: FakeCluster) -> None:
    dice = random.Random(5)
    noise = ["".join(dice.choices("abcdefghijklmnop", k=100_000)) for _ in range(10)]
    log = LogState(pods=[PodState("w", Role.WORKER, 0, texts=noise)])
    saved = SavedState(log)
    small = SavedState(LogState(run="r"))
    assert unpack(pack(small), "a", 0.0).log.run == "r"
    packed = pack(saved, "a")
    assert len(packed) <= MOST_STORED
    assert unpack(packed, "a", 0.0).record == saved.record
