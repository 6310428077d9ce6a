"""Hundreds of jobs of one namespace, whatever they are made to do, leave time to the others."""

from dataclasses import dataclass

from optimus.kube.events import EventType, Subject
from optimus.kube.pods import Pod
from optimus.kube.profiles import NameTaken, ProfileStatus, TrainingProfile
from optimus.kube.results import Refused, Written
from optimus.kube.training_jobs import TrainingJob
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job

MANY = 300
NONE_OF_A_JOB_FITS = 1


@dataclass
class SlowApi(FakeCluster):
    """Each call of the API server takes so long."""

    call_seconds: float = 0.02

    def emit(
        self, job: Subject, kind: EventType, reason: str, message: str
    ) -> Written | Refused | None:
        self.at += self.call_seconds
        return super().emit(job, kind, reason, message)

    def create(self, job: TrainingJob) -> TrainingProfile | NameTaken | Refused:
        self.at += self.call_seconds
        return super().create(job)

    def write_status(self, profile: TrainingProfile, status: ProfileStatus) -> Written | Refused:
        self.at += self.call_seconds
        return super().write_status(profile, status)

    def pods_of(self, job: TrainingJob) -> tuple[Pod, ...] | Refused:
        self.at += self.call_seconds
        return super().pods_of(job)

    def set_goal_met(self, pod: Pod, at: str | None) -> Written | Refused:
        self.at += self.call_seconds
        return super().set_goal_met(pod, at)


def many(cluster: FakeCluster, **annotations: str) -> list[FakeJob]:
    return [cluster.submit(tf_job(f"many-{number}", 1, 1, **annotations)) for number in range(MANY)]


def tick_seconds(cluster: FakeCluster, harness: ControllerHarness) -> float:
    began = cluster.at
    harness.controller.tick()
    return cluster.at - began


def test_invalid_annotations_of_many_jobs_hold_up_neither_ticks_nor_another_namespace() -> None:
    cluster = SlowApi(cpus=NONE_OF_A_JOB_FITS)
    harness = ControllerHarness(cluster)
    jobs = many(cluster, target_loss="x")
    cluster.submit(tf_job("z", 1, 1, "other", target_loss="x"))
    assert tick_seconds(cluster, harness) < 2
    assert "LeftAlone" in cluster.reasons("z")
    for flip in range(5):
        for job in jobs:
            job.annotate(target_loss=f"x{flip}")
        assert tick_seconds(cluster, harness) < 2


def test_reports_on_many_jobs_come_in_turn_with_those_of_another_namespace() -> None:
    cluster = SlowApi(cpus=NONE_OF_A_JOB_FITS)
    harness = ControllerHarness(cluster)
    many(cluster, target_loss="0.1")
    cluster.submit(tf_job("z", 1, 1, "other", target_loss="0.1"))
    assert tick_seconds(cluster, harness) < 5
    assert "z" in cluster.profiles


def test_suspensions_of_many_jobs_leave_time_to_that_of_another_namespace() -> None:
    """A mark on a suspended job makes the autoscaler resume it, which takes several calls."""
    cluster = SlowApi(cpus=8)
    harness = ControllerHarness(cluster)
    jobs = many(cluster, target_loss="0.1", suspended_by="forged")
    jobs.append(cluster.submit(tf_job("z", 1, 1, "other", target_loss="0.1", suspended_by="id")))
    for job in jobs:
        job.manifest["spec"]["runPolicy"]["suspend"] = True
    cluster.pass_time(1.0)
    for _ in range(4):
        assert tick_seconds(cluster, harness) < 8
    assert not jobs[-1].suspended


def test_goals_that_many_jobs_meet_at_once_do_not_hold_up_a_tick() -> None:
    cluster = SlowApi(cpus=MANY, call_seconds=0.0)
    harness = ControllerHarness(cluster)
    jobs = [
        cluster.submit(tf_job(f"j{number}", 1, 9, target_epochs="0.1", at_target="complete"))
        for number in range(MANY // 10)
    ]
    harness.run(40)
    assert all(_is_annotated(job) for job in jobs), "the pods of all are told at last"
    cluster.call_seconds = 0.02
    for job in jobs:
        job.annotate(at_target="continue")
    assert tick_seconds(cluster, harness) < 5


def _is_annotated(job: FakeJob) -> bool:
    return all("annotations" in pod["metadata"] for pod in job.pods)
