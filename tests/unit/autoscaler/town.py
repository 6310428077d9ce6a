"""A cluster in miniature behind the controller's seams: jobs that train, an operator, an API that keeps books.

Everything the controller reads is made from the JSON that a real API server would hold. A job's training follows a
stated law: loss = 1 / (0.5 k + 1) + 0.05 after k epochs of ten steps; its speed is 1 / (2 / w + 0.1 w / p + 0.1).
"""

import json
from dataclasses import dataclass, field
from typing import Any

from autoscaler.clocks import Clocks
from autoscaler.controller import Controller, Parts, Rhythm
from autoscaler.deciding import Deciding, DecisionRules
from autoscaler.log_reading import LogReading
from autoscaler.metrics import Metrics
from autoscaler.observation import Observation
from autoscaler.report import status_of
from autoscaler.reporting import Reporting
from autoscaler.rescale_words import RescaleRules
from autoscaler.rescaling import Hooks, Rescaling
from kube.errors import ErrorKind
from kube.events import EventType, Subject
from kube.left_alone import JobRules
from kube.nodes import ClusterNode
from kube.outcomes import Refused, Written
from kube.pods import Pod, decode_pod
from kube.profiles import JobRef, NameTaken, ProfileStatus, TrainingProfile
from kube.times import format_second
from kube.training_jobs import TrainingJob, decode_job
from scheduling.interval import IntervalRules
from scheduling.jobs import Counts, JobKey
from scheduling.models.predict import forecast_job
from scheduling.nodes import Node
from scheduling.placement.theorem1 import Theorem1
from scheduling.policies.optimus import OptimusPolicy
from scheduling.profiling import ProfilingRules
from scheduling.progress.record import LogLine
from scheduling.resources import Resources

STEPS_PER_EPOCH = 10
BEGINNING = 1_800_000_000.0


@dataclass
class Trainee:
    """One job: what the API server stores of it, and the training behind it."""

    manifest: dict[str, Any]
    pods: list[dict[str, Any]] = field(default_factory=list)
    step: float = 0.0
    saved: int = 0
    lines: list[LogLine] = field(default_factory=list)
    runs: int = 0
    left_at: float = 0.0
    version: int = 1

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def replicas(self) -> dict[str, Any]:
        specs: dict[str, Any] = self.manifest["spec"]["tfReplicaSpecs"]
        return specs

    @property
    def counts(self) -> Counts:
        return Counts(self.replicas["PS"]["replicas"], self.replicas["Worker"]["replicas"])

    @property
    def suspended(self) -> bool:
        return bool(self.manifest["spec"]["runPolicy"].get("suspend"))

    @property
    def leaving(self) -> bool:
        return any("deletionTimestamp" in pod["metadata"] for pod in self.pods)

    def speed(self) -> float:
        """Steps per second."""
        ps, workers = self.counts
        return 1 / (2 / workers + 0.1 * workers / ps + 0.1)

    def changed(self) -> None:
        self.version += 1
        self.manifest["metadata"]["resourceVersion"] = str(self.version)

    def record(self) -> TrainingJob:
        return decode_job("TFJob", json.dumps(self.manifest).encode(), rules=JobRules())


def tf_job(name: str, ps: int, workers: int, **annotations: str) -> Trainee:
    """A TFJob with cpu requests of 1 for each PS and worker, annotated (dashes as underscores) under optimus.dl/."""
    template = {
        "spec": {
            "schedulerName": "optimus-scheduler",
            "containers": [{"name": "tensorflow", "resources": {"requests": {"cpu": "1"}}}],
        }
    }
    metadata = {
        "name": name,
        "namespace": "team",
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "creationTimestamp": format_second(BEGINNING),
        "annotations": {f"optimus.dl/{key.replace('_', '-')}": value for key, value in annotations.items()},
    }
    specs = {"PS": {"replicas": ps, "template": template}, "Worker": {"replicas": workers, "template": template}}
    return Trainee({"metadata": metadata, "spec": {"runPolicy": {}, "tfReplicaSpecs": specs}, "status": {}})


@dataclass
class Town:
    """The cluster, and every seam of the controller towards it."""

    cpus: int = 16
    at: float = BEGINNING
    trainees: dict[str, Trainee] = field(default_factory=dict)
    profiles: dict[str, TrainingProfile] = field(default_factory=dict)
    told: list[tuple[str, str, str]] = field(default_factory=list)
    deaf_logs: set[str] = field(default_factory=set)
    refuse: ErrorKind | None = None
    mute: bool = False
    """Events and profiles are refused."""
    stubborn: bool = False
    """The status of profiles is refused as what can never succeed."""
    checkpoints: bool = True
    checkpoints_of: set[str] | None = None
    day_offset: float = 0.0
    quota: int | None = None
    lingering_seconds: float = 0.0
    """So long pods that were told to end still take their room."""
    writes: int = 0
    asked: int = 0

    def submit(self, trainee: Trainee) -> Trainee:
        self.trainees[trainee.name] = trainee
        return trainee

    # -- time
    def pass_time(self, seconds: float) -> None:
        """Let the operator act, the pods start and the training go on."""
        self.at += seconds
        for trainee in self.trainees.values():
            self._operate(trainee)
            self._train(trainee, seconds)

    def _operate(self, trainee: Trainee) -> None:
        conditions = trainee.manifest["status"].setdefault("conditions", [])
        if trainee.suspended:
            self._end_pods(trainee)
            trainee.manifest["status"]["conditions"] = [{"type": "Suspended", "status": "True"}]
            return
        if conditions and conditions[0]["type"] == "Suspended":
            trainee.manifest["status"]["conditions"] = []
        if not trainee.pods and self._room() >= sum(trainee.counts):
            self._make_pods(trainee)

    def _end_pods(self, trainee: Trainee) -> None:
        if trainee.pods and not trainee.leaving:
            trainee.left_at = self.at + self.lingering_seconds
            for pod in trainee.pods:
                pod["metadata"]["deletionTimestamp"] = format_second(self.at)
        if self.at >= trainee.left_at:
            trainee.pods.clear()

    def _room(self) -> int:
        return self.cpus - sum(len(trainee.pods) for trainee in self.trainees.values())

    def _make_pods(self, trainee: Trainee) -> None:
        trainee.runs += 1
        trainee.step = float(trainee.saved)
        trainee.lines = []
        counts = trainee.counts
        cluster = {"ps": ["h"] * counts.ps, "worker": ["h"] * counts.workers}
        for role, count in (("ps", counts.ps), ("worker", counts.workers)):
            for index in range(count):
                trainee.pods.append(_pod(trainee, role, index, json.dumps({"cluster": cluster})))
        if self.quota is not None and len(trainee.pods) > self.quota:
            # The operator may not make more pods, and the extender waits for all of the gang.
            del trainee.pods[self.quota :]
            for pod in trainee.pods:
                pod["status"]["phase"] = "Pending"
                del pod["spec"]["nodeName"]

    def _train(self, trainee: Trainee, seconds: float) -> None:
        is_running = trainee.pods and all(pod["status"]["phase"] == "Running" for pod in trainee.pods)
        if not is_running or trainee.leaving:
            return
        before = int(trainee.step)
        began, speed = trainee.step, trainee.speed()
        trainee.step += seconds * speed
        for step in range(before + 1, int(trainee.step) + 1):
            saves = self.checkpoints if self.checkpoints_of is None else trainee.name in self.checkpoints_of
            if saves and step % 5 == 0:
                trainee.saved = step
            loss = 1 / (0.5 * step / STEPS_PER_EPOCH + 1) + 0.05
            text = f"epoch={step // STEPS_PER_EPOCH + 1} step={step} loss={loss:.6f}"
            text += f" checkpoint={trainee.saved}" if trainee.saved else ""
            trainee.lines.append(LogLine(self.at - seconds + (step - began) / speed, text))

    # -- Observer
    def observe(self, at: float) -> Observation:
        nodes = [ClusterNode(name="n", node=Node("n", self._capacity()))]
        jobs = [trainee.record() for trainee in self.trainees.values()]
        pods = [decode_pod(json.dumps(pod).encode()) for each in self.trainees.values() for pod in each.pods]
        return Observation.of(at, jobs, nodes, pods, list(self.profiles.values()))

    def _capacity(self) -> Resources:
        return Resources(cpu=1000 * self.cpus, pods=110)

    # -- Reader
    def job(self, kind: str, key: JobKey) -> TrainingJob | Refused:
        found = self.trainees.get(key.name)
        return found.record() if found else Refused(ErrorKind.NOT_FOUND, f"{kind} {key} is not there")

    def pods_of(self, job: TrainingJob) -> tuple[Pod, ...] | Refused:
        return tuple(decode_pod(json.dumps(pod).encode()) for pod in self.trainees[job.name].pods)

    # -- Writer
    def suspend(self, job: TrainingJob, interval_id: str) -> Written | Refused:
        return self._write(job, {"suspend": True}, interval_id)

    def resize_and_resume(self, job: TrainingJob, counts: Counts) -> Written | Refused:
        outcome = self._write(job, {"suspend": False}, None)
        if isinstance(outcome, Written):
            replicas = self.trainees[job.name].replicas
            replicas["PS"]["replicas"], replicas["Worker"]["replicas"] = counts
        return outcome

    def unmark(self, job: TrainingJob) -> Written | Refused:
        return self._write(job, {}, None)

    def _write(self, job: TrainingJob, policy: dict[str, bool], mark: str | None) -> Written | Refused:
        trainee = self.trainees[job.name]
        if self.refuse is not None:
            return Refused(self.refuse, "refused, as the test wants it")
        if job.resource_version != str(trainee.version):
            return Refused(ErrorKind.CONFLICT, "the job has changed")
        self.writes += 1
        trainee.manifest["spec"]["runPolicy"].update(policy)
        annotations = trainee.manifest["metadata"]["annotations"]
        annotations.pop("optimus.dl/suspended-by", None)
        if mark is not None:
            annotations["optimus.dl/suspended-by"] = mark
        trainee.changed()
        return Written(str(trainee.version))

    # -- PodLogs
    def read(self, pod: Pod, *, since: float | None = None) -> list[LogLine] | Refused:
        if pod.owner is None or pod.replica is None or pod.replica.role != "worker":
            return []
        if pod.owner.name in self.deaf_logs:
            raise RuntimeError("this log breaks its reader")
        return [line for line in self.trainees[pod.owner.name].lines if since is None or line.at >= since]

    # -- Profiles
    def create(self, job: TrainingJob) -> TrainingProfile | NameTaken | Refused:
        self.asked += 1
        if self.mute:
            return Refused(ErrorKind.TRANSIENT, "no answer")
        held = self.profiles.get(job.name)
        if held is not None and held.job.uid != job.uid:
            return NameTaken(held)
        profile = TrainingProfile(
            uid=f"profile-{job.uid}",
            namespace=job.namespace,
            name=job.name,
            job=JobRef(job.kind, job.name, job.uid),
            status=ProfileStatus(),
        )
        return self.profiles.setdefault(job.name, profile)

    def write_status(self, profile: TrainingProfile, status: ProfileStatus) -> Written | Refused:
        if profile.name not in self.profiles:
            return Refused(ErrorKind.NOT_FOUND, "the profile is gone")
        if self.stubborn:
            return Refused(ErrorKind.INVALID, "too large")
        self.writes += 1
        self.profiles[profile.name] = TrainingProfile(
            **{name: getattr(profile, name) for name in profile.__struct_fields__} | {"status": status}
        )
        return Written("1")

    def delete(self, profile: TrainingProfile) -> Written | Refused:
        if self.profiles.get(profile.name) is profile:
            del self.profiles[profile.name]
        return Written()

    # -- Events
    def emit(self, job: Subject, kind: EventType, reason: str, message: str) -> Written | Refused | None:
        if self.mute:
            return Refused(ErrorKind.TRANSIENT, "no answer")
        self.told.append((job.name, reason, message))
        return Written()

    def reasons(self, name: str) -> list[str]:
        """The reasons of a job's Events, oldest first."""
        return [reason for subject, reason, _ in self.told if subject == name]


def _pod(trainee: Trainee, role: str, index: int, config: str) -> dict[str, Any]:
    name = f"{trainee.name}-{role}-{index}"
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": trainee.name, "controller": True}
    container = {
        "name": "tensorflow",
        "resources": {"requests": {"cpu": "1"}},
        "env": [{"name": "TF_CONFIG", "value": config}],
    }
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"{name}-{trainee.runs}",
            "labels": {
                "training.kubeflow.org/job-name": trainee.name,
                "training.kubeflow.org/replica-type": role,
                "training.kubeflow.org/replica-index": str(index),
            },
            "ownerReferences": [owner | {"uid": f"uid-{trainee.name}"}],
        },
        "spec": {"nodeName": "n", "containers": [container]},
        "status": {"phase": "Running"},
    }


RHYTHM = Rhythm(tick_seconds=1, interval_seconds=20, early_interval_seconds=5, half_bound_seconds=30)


class Mayor:
    """Runs a controller on a town; ``restart`` kills it and starts another, which knows only what is stored."""

    def __init__(self, town: Town, *, dry_run: bool = False, rhythm: Rhythm = RHYTHM) -> None:
        self.town = town
        self._dry_run = dry_run
        self._rhythm = rhythm
        self.restart()

    def restart(self) -> None:
        town, self.metrics = self.town, Metrics()
        logs = LogReading(town, readers=1, poll_seconds=1)
        reporting = Reporting(town, town, self.metrics, spacing_seconds=5, timer=lambda: town.at)
        hooks = Hooks(
            store=lambda state: reporting.store(state, town.at, status_of(state, town.at)),
            tell=reporting.tell,
            read_logs=lambda state: state.run is None or logs.read_now(state.log, state.run),
            ended=reporting.ended,
        )
        rescaling = Rescaling(
            town, town, hooks, RescaleRules(fresh_seconds=10, start_seconds=60, checkpoint_warning_seconds=100)
        )
        rules = DecisionRules(
            OptimusPolicy(),
            Theorem1(),
            forecast_job,
            IntervalRules(rescale_seconds=5, least_seconds_between_rescales=10),
            ProfilingRules(steady_seconds=5, run_limit_seconds=30, widest=6),
            stale_seconds=130,
        )
        deciding = Deciding(rules, self.metrics, dry_run=self._dry_run)
        parts = Parts(town, logs, deciding, rescaling, reporting, self.metrics)
        self.controller = Controller(
            parts, self._rhythm, Clocks(lambda: town.at + town.day_offset, lambda: town.at), dry_run=self._dry_run
        )

    @property
    def intervals(self) -> float:
        """How many intervals were planned."""
        return self.metrics.registry.get_sample_value("optimus_autoscaler_intervals_total") or 0.0

    def rule(self, seconds: int) -> None:
        """Tick once a second."""
        for _ in range(seconds):
            self.town.pass_time(1.0)
            self.controller.tick()

    def rule_until(self, name: str, *phases: str, seconds: int = 400) -> ProfileStatus:
        """Tick until the job's profile shows one of these phases."""
        for _ in range(seconds):
            self.rule(1)
            if name in self.town.profiles and self.status(name).phase in phases:
                return self.status(name)
        shown = self.status(name) if name in self.town.profiles else None
        raise AssertionError(f"{name} did not come to {phases} within {seconds} s: {shown}")

    def status(self, name: str) -> ProfileStatus:
        """What the job's profile says."""
        return self.town.profiles[name].status
