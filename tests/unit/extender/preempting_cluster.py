"""A fake cluster with jobs that can be suspended, and an operator that deletes and makes pods."""

from dataclasses import dataclass, field, replace
from typing import Any

from extender.preemption.controller import Access, PreemptionController
from extender.settings import Settings
from optimus.jobs import CountBounds, Counts, Goal, Job, JobKey, ReplicaSpec, TargetLoss
from optimus.kube.budgets import Budget
from optimus.kube.errors import ErrorKind
from optimus.kube.events import EventType
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written
from optimus.kube.suspension import read_preemption
from optimus.kube.training_jobs import TrainingJob
from optimus.resources import Resources
from tests.unit.extender.fake_cluster import FakeCluster

REFUSED = Refused(ErrorKind.CONFLICT, "the job has changed")


class ProcessEnded(BaseException):
    """The extender's process has ended."""


@dataclass
class PreemptingCluster:
    """Jobs of one-CPU replicas unless said otherwise, by name, in namespace ``ns``."""

    nodes: dict[str, int]
    settings: Settings = field(default_factory=lambda: Settings(preempt=True))
    jobs: dict[str, TrainingJob] = field(default_factory=dict)
    budgets: tuple[Budget, ...] | Refused = ()
    events: list[tuple[str, str, str]] = field(default_factory=list)
    """Job, reason and message."""

    refuses: set[str] = field(default_factory=set)
    """Jobs whose patches are refused."""

    ends_before: set[str] = field(default_factory=set)
    """Jobs before whose suspension the process ends."""

    goal: Goal = field(default_factory=lambda: TargetLoss(0.1))
    """Of elastic jobs."""

    counted: list[tuple[str, int]] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cluster = FakeCluster(self.nodes, settings=self.settings)
        self.planner, self.state = self.cluster.planner, self.cluster.state
        self.adoption, self.nominations = self.cluster.adoption, self.cluster.nominations
        self.state.leads = True
        self.fields: dict[str, dict[str, Any]] = {}
        self.cpu: dict[str, int] = {}
        self.lead()

    def lead(self) -> None:
        """A new process, with nothing but the cluster."""
        access = Access(
            lambda: tuple(self.jobs.values()),
            self,
            self,
            lambda: self.budgets,
            self._emit,
            lambda outcome, victims: self.counted.append((outcome, victims)),
        )
        self.controller = PreemptionController(self.state, access, self.settings)
        self.adoption.before_leading = self.controller.adopt

    def restart(self) -> None:
        """Another process leads, which has to read everything again."""
        settings, pods, now = self.settings, dict(self.cluster.pods), self.cluster.now
        self.cluster = FakeCluster(self.nodes, settings=settings, now=now)
        self.planner, self.state = self.cluster.planner, self.cluster.state
        self.adoption, self.nominations = self.cluster.adoption, self.cluster.nominations
        for job in self.jobs.values():
            self.cluster.handlers.job(None, job)
        for pod in pods.values():
            self.cluster.change(pod)
        self.lead()
        self.adoption.adopt_nominations()

    # --- what users and the operator do

    def submit(
        self,
        name: str,
        ps: int = 1,
        workers: int = 1,
        cpu: int = 1,
        *,
        goal: Goal | None = None,
        bounds: CountBounds | None = None,
        **fields: Any,
    ) -> None:
        """A new job with all its pods."""
        self.fields[name], self.cpu[name] = fields, cpu
        spec = ReplicaSpec(Resources(cpu=cpu, pods=1))
        job = Job(
            key=JobKey("ns", name),
            uid=f"uid-{name}",
            kind="TFJob",
            created_at=self.cluster.now,
            counts=Counts(ps, workers),
            ps=spec,
            worker=spec,
            goal=goal,
            bounds=bounds or CountBounds(),
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
        self.set_job(made)
        self._make_pods(name)
        self.planner.advance()

    def run(self, name: str, ps: int = 1, workers: int = 1, cpu: int = 1, **fields: Any) -> None:
        """A job whose pods are bound."""
        self.submit(name, ps, workers, cpu, **fields)
        self.bind(name)

    def run_elastic(self, name: str, ps: int, workers: int, **fields: Any) -> None:
        """A managed job that could do with one PS and one worker."""
        self.run(name, ps, workers, goal=self.goal, **fields)

    def bind(self, name: str) -> None:
        for pod in self.pods(name):
            assert self.cluster.place(pod.name), f"{pod.name} has no node"

    def set_job(self, job: TrainingJob) -> None:
        before = self.jobs.get(job.name)
        self.jobs[job.name] = job
        self.cluster.handlers.job(before, job)

    def change_job(self, name: str, **fields: Any) -> TrainingJob:
        job = self.jobs[name]
        version = str(int(job.resource_version) + 1)
        job = replace(job, resource_version=version, **fields)
        if job.job is not None:
            mark = read_preemption(job.preempted_for or "")
            by = "" if mark is None else mark.job
            job = replace(job, job=replace(job.job, suspended=job.suspended, preempted_for=by))
        self.set_job(job)
        return job

    def delete_job(self, name: str) -> None:
        job = self.jobs.pop(name)
        self.cluster.delete(*(pod.name for pod in self.pods(name)))
        self.cluster.handlers.job(job, None)

    def operator(self) -> None:
        """The pods of suspended jobs begin to end, those that did are gone; a resumed job gets
        new ones."""
        for name, job in self.jobs.items():
            leaving = [pod.name for pod in self.pods(name) if pod.leaving]
            self.cluster.delete(*leaving)
            if not job.suspended:
                if not self.pods(name):
                    self.change_job(name, conditions=frozenset())
                    self._make_pods(name)
                continue
            if "Suspended" not in job.conditions:
                self.change_job(name, conditions=frozenset({"Suspended"}))
            for pod in self.pods(name):
                self.cluster.change(pod, leaving=True)

    def _make_pods(self, name: str) -> None:
        job = self.jobs[name].job
        assert job is not None
        self.cluster.job(name, *job.counts, self.cpu[name], **self.fields[name])

    # --- time

    def step(self, times: int = 1, seconds: float = 1.0) -> None:
        """Planning, then the controller, each second."""
        for _ in range(times):
            self.cluster.now += seconds
            self.planner.advance()
            self.controller.step()
            self.cluster.assert_not_overcommitted()

    def settle(self, times: int = 8) -> None:
        """The same with the operator at work, and pods bound where they are planned."""
        for _ in range(times):
            self.step()
            self.operator()
            self.place_planned()

    def place_planned(self) -> None:
        """kube-scheduler tries every pod that is nominated, or whose reservation has expired."""
        planned = self.cluster.planned_nodes()
        paused = {name for uid in self.state.queue.paused for name in self._names(uid)}
        for name in sorted({*planned, *paused}):
            if self.cluster.pods[name].node is None:
                self.cluster.place(name)

    def _names(self, uid: str) -> list[str]:
        return [pod.name for pod in self.pods(uid.removeprefix("uid-"))]

    # --- what is seen

    def pods(self, name: str) -> list[Pod]:
        uid = f"uid-{name}"
        pods = self.cluster.pods.values()
        return [pod for pod in pods if pod.replica and pod.replica.job_uid == uid]

    def running(self) -> set[str]:
        """The jobs whose pods all have a node."""
        return {
            name
            for name in self.jobs
            if self.pods(name) and all(pod.node and not pod.leaving for pod in self.pods(name))
        }

    def preempted(self) -> set[str]:
        """The jobs that are suspended for another."""
        return {name for name, job in self.jobs.items() if job.preempted_for and job.suspended}

    def event_reasons(self, name: str) -> list[str]:
        return [reason for job, reason, _ in self.events if job == name]

    def message(self, name: str, reason: str) -> str:
        (found,) = [text for job, why, text in self.events if (job, why) == (name, reason)]
        return found

    def reason(self, pod: str) -> set[str]:
        result = self.cluster.ask(pod, list(self.nodes))
        return set(result.refused.values())

    # --- Reader, Writer and Events of the controller

    def job(self, kind: str, key: JobKey) -> TrainingJob | Refused:
        assert kind == "TFJob"
        return self.jobs.get(key.name) or Refused(ErrorKind.NOT_FOUND, "gone")

    def pods_of(self, job: TrainingJob) -> tuple[Pod, ...] | Refused:
        return tuple(self.pods(job.name))

    def preempt(self, job: TrainingJob, mark: str) -> Written | Refused:
        if job.name in self.ends_before:
            raise ProcessEnded
        if job.name in self.refuses or job != self.jobs[job.name]:
            return REFUSED
        self.writes.append(f"suspend {job.name}")
        self.change_job(job.name, suspended=True, preempted_for=mark)
        return Written()

    def end_preemption(self, job: TrainingJob, *, resume: bool) -> Written | Refused:
        if job.name in self.refuses or job != self.jobs[job.name]:
            return REFUSED
        self.writes.append(f"{'resume' if resume else 'unmark'} {job.name}")
        suspended = False if resume else job.suspended
        self.change_job(job.name, suspended=suspended, preempted_for=None)
        return Written()

    def _emit(self, job: TrainingJob, kind: EventType, reason: str, message: str) -> object:
        assert kind in EventType
        self.events.append((job.name, reason, message))
        return None
