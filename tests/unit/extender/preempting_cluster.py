"""The extender on a cluster whose autoscaler pauses jobs for others."""

from dataclasses import dataclass, field, replace
from typing import Any

from extender.preempted_room import PreemptedRoom
from extender.settings import Settings
from optimus.jobs import Counts, Job, JobKey, ReplicaSpec
from optimus.kube.contract import Phase
from optimus.kube.pods import Pod
from optimus.kube.profiles import JobRef, ProfileStatus, TrainingProfile
from optimus.kube.suspension import Preemption, SuspensionMark
from optimus.kube.training_jobs import TrainingJob
from optimus.rescale.words import PauseReason
from optimus.resources import Resources
from tests.unit.extender.fake_cluster import FakeCluster


@dataclass
class PreemptingCluster:
    """Jobs of one-CPU replicas, by name, in namespace ``ns``."""

    nodes: dict[str, int]
    jobs: dict[str, TrainingJob] = field(default_factory=dict)
    profiles: dict[str, TrainingProfile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cluster = FakeCluster(self.nodes)
        self._lead()
        self.state.leads = True

    def _lead(self) -> None:
        self.planner, self.state = self.cluster.planner, self.cluster.state
        limit = Settings().rescale_hold_seconds
        self.kept = PreemptedRoom(self.state, lambda: tuple(self.jobs.values()), limit)
        self.cluster.leading.before_leading = self.kept.adopt

    def restart(self) -> None:
        """Another process leads, which has to read everything again."""
        pods, now = dict(self.cluster.pods), self.cluster.now
        self.cluster = FakeCluster(self.nodes, now=now)
        self._lead()
        for job in self.jobs.values():
            self.cluster.handlers.job(None, job)
        for profile in self.profiles.values():
            self.cluster.handlers.profile(None, profile)
        for pod in pods.values():
            self.cluster.change(pod)
        self.cluster.leading.begin()

    def submit(self, name: str, ps: int = 1, workers: int = 1, **fields: Any) -> None:
        """A new job with all its pods."""
        spec = ReplicaSpec(Resources(cpu=1, pods=1))
        job = Job(
            key=JobKey("ns", name),
            uid=f"uid-{name}",
            kind="TFJob",
            created_at=self.cluster.now,
            counts=Counts(ps, workers),
            ps=spec,
            worker=spec,
        )
        made = TrainingJob(
            kind="TFJob",
            namespace="ns",
            name=name,
            uid=job.uid,
            resource_version="1",
            created_at=self.cluster.now,
            job=job,
        )
        self._set_job(made)
        self.cluster.job(name, ps, workers, **fields)
        self.cluster.plan()

    def run(self, name: str, ps: int = 1, workers: int = 1, **fields: Any) -> None:
        """A job whose pods are bound."""
        self.submit(name, ps, workers, **fields)
        for pod in self.pods(name):
            assert self.cluster.place(pod.name), f"{pod.name} has no node"

    def _set_job(self, job: TrainingJob) -> None:
        before = self.jobs.get(job.name)
        self.jobs[job.name] = job
        self.cluster.handlers.job(before, job)

    # --- what the autoscaler and the operator do

    def pause(
        self,
        name: str,
        gang: str,
        *,
        is_stored: bool = True,
        seconds: float = 0.0,
        by_quota: bool = False,
    ) -> None:
        """Suspend and mark a job, so many seconds ago; ``is_stored``: its profile says so, too."""
        at = float(int(self.cluster.now - seconds))
        decided = Preemption(f"ns/{gang}", f"uid-{gang}", at, by_quota)
        if is_stored:
            self._set_profile(name, ProfileStatus(phase=Phase.PAUSED))
        mark = SuspensionMark(decided.text, "one", PauseReason.GANG)
        job = self.jobs[name]
        assert job.job is not None
        paused = replace(job.job, suspended=True, preempted_for=decided.job)
        self._set_job(replace(job, suspended=True, suspension=mark, job=paused))

    def resume(self, name: str) -> None:
        """Resume a job."""
        job = self.jobs[name]
        assert job.job is not None
        resumed = replace(job.job, suspended=False, preempted_for="")
        self._set_job(replace(job, suspended=False, suspension=None, job=resumed))

    def _set_profile(self, name: str, status: ProfileStatus) -> None:
        before = self.profiles.get(name)
        self.profiles[name] = TrainingProfile(
            uid=f"p-{name}",
            namespace="ns",
            name=name,
            job=JobRef("TFJob", name, f"uid-{name}"),
            status=status,
            resource_version="1",
        )
        self.cluster.handlers.profile(before, self.profiles[name])

    def delete_pods(self, name: str) -> None:
        """The pods of a suspended job are gone."""
        self.cluster.delete(*(pod.name for pod in self.pods(name)))

    # --- time

    def step(self, times: int = 1) -> None:
        """Planning, then what is kept, each second."""
        for _ in range(times):
            self.cluster.now += 1
            self.cluster.plan()
            self.kept.step()
            self.cluster.assert_not_overcommitted()

    # --- what is seen

    def pods(self, name: str) -> list[Pod]:
        uid = f"uid-{name}"
        pods = self.cluster.pods.values()
        return [pod for pod in pods if pod.replica and pod.replica.job_uid == uid]

    def reason(self, pod: str) -> set[str]:
        result = self.cluster.ask(pod, list(self.nodes))
        return set(result.refused.values())
