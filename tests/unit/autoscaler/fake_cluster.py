"""A fake cluster behind the controller's seams: jobs that train, an operator, an API server.

Everything the controller reads is made from the JSON that a real API server would hold.
"""

import json
import marshal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import msgspec

from autoscaler.cluster import NodeList, Observation, PodIndex
from optimus.jobs import Counts, JobKey
from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.events import EventType, Subject
from optimus.kube.nodes import ClusterNode
from optimus.kube.pod_usage import PodUsage
from optimus.kube.pods import Pod, decode_pod
from optimus.kube.profiles import JobRef, NameTaken, ProfileStatus, TrainingProfile
from optimus.kube.results import Refused, Written
from optimus.kube.suspension import SuspensionMark
from optimus.kube.times import format_second
from optimus.kube.training_jobs import TrainingJob
from optimus.nodes import NODE_KIND_LABEL, Node
from optimus.progress.types import LogLine, LogRead
from optimus.rescale.words import PauseReason
from optimus.resources import MEMORY, Resources
from tests.unit.autoscaler.fake_job import START_AT, STEPS_PER_EPOCH, FakeJob, pod_of, torch_pods
from tests.unit.autoscaler.fake_workloads import FakeWorkloads


@dataclass
class FakeCluster:
    """The cluster, and every seam of the controller towards it."""

    cpus: int = 16
    at: float = START_AT
    jobs: dict[str, FakeJob] = field(default_factory=dict)
    profiles: dict[str, TrainingProfile] = field(default_factory=dict)
    seen_profiles: dict[str, TrainingProfile] | None = None
    """What the watch of profiles shows, where it lags behind."""
    events: list[tuple[str, str, str]] = field(default_factory=list)
    broken_logs: set[str] = field(default_factory=set)
    refuse: ErrorKind | None = None
    refuses_reports: bool = False
    """Events and profiles are refused."""
    refuses_status: bool = False
    """The status of profiles is refused as what can never succeed."""
    checkpoints: bool = True
    checkpoints_of: set[str] | None = None
    saving_on_stop: set[str] = field(default_factory=set)
    """The jobs that save when they are stopped."""
    day_offset: float = 0.0
    quota: int | None = None
    most_lines: int = 1_000_000
    """So many lines, the oldest, one read of a log returns."""
    lingering_seconds: float = 0.0
    """So long pods that are being deleted still take their room."""
    breaks: Callable[[Counts], bool] = lambda _: False
    """At which counts the containers of workers are killed for their memory."""
    loads: Callable[[Counts], bool] = lambda _: True
    """At which counts what was saved can be loaded."""
    unreachable: bool = False
    """Reads of jobs and pods are not answered."""
    silent_seconds: float = 0.0
    """So long ago the watches brought something last."""
    operator_is_away: bool = False
    instance: str = ""
    """Whose marks the writes set."""
    lease: str = ""
    """What the policy remembers of the whole cluster."""
    kind_orders: str = ""
    """On which kinds of nodes new jobs are to start."""
    used: dict[str, int] = field(default_factory=dict)
    """The bytes that each pod uses; without any there is no metrics API."""
    workloads: FakeWorkloads = field(default_factory=FakeWorkloads)
    writes: int = 0
    create_calls: int = 0
    _index: PodIndex = field(default_factory=PodIndex)
    _shown: dict[str, Pod] = field(default_factory=dict)
    _nodes: NodeList = field(default_factory=lambda: NodeList((), {}))

    def submit(self, fake: FakeJob) -> FakeJob:
        self.jobs[fake.name] = fake
        return fake

    def read_usage(self) -> PodUsage:
        """What the pods use now."""
        if not self.used:
            raise KubeError(ErrorKind.NOT_FOUND, "there is no metrics.k8s.io")
        pods = (pod["metadata"] for fake in self.jobs.values() for pod in fake.pods)
        return {
            (pod["namespace"], pod["name"]): {
                "tensorflow": Resources({MEMORY: self.used[pod["name"]]})
            }
            for pod in pods
            if pod["name"] in self.used
        }

    # -- time
    def pass_time(self, seconds: float) -> None:
        """Let the operator act, the pods start and the training go on."""
        self.at += seconds
        for fake in self.jobs.values():
            if not self.operator_is_away:
                self._operate(fake)
            self._train(fake, seconds)

    def _operate(self, fake: FakeJob) -> None:
        conditions = fake.manifest["status"].setdefault("conditions", [])
        if fake.suspended:
            self._end_pods(fake)
            fake.manifest["status"]["conditions"] = [{"type": "Suspended", "status": "True"}]
            return
        if conditions and conditions[0]["type"] == "Suspended":
            fake.manifest["status"]["conditions"] = []
        if not fake.pods and self._room() >= sum(fake.counts):
            self._make_pods(fake)

    def _end_pods(self, fake: FakeJob) -> None:
        if fake.pods and not fake.leaving:
            fake.left_at = self.at + self.lingering_seconds
            if fake.name in self.saving_on_stop:
                fake.saved = int(fake.step)
            for pod in fake.pods:
                pod["metadata"]["deletionTimestamp"] = format_second(self.at)
        if self.at >= fake.left_at:
            fake.pods.clear()

    def _room(self) -> int:
        return self.cpus - sum(len(fake.pods) for fake in self.jobs.values())

    def _make_pods(self, fake: FakeJob) -> None:
        fake.runs += 1
        fake.saved *= self.loads(fake.counts)
        fake.step = float(fake.saved)
        fake.lines = []
        if fake.kind == "PyTorchJob":
            fake.pods = torch_pods(fake, self.at)
            return
        counts = fake.counts
        spec: dict[str, Any] = {"ps": ["h"] * counts.ps, "worker": ["h"] * counts.workers}
        if fake.is_dynamic:
            spec["worker"] = {"0": "h"}
        for role, count in (("ps", counts.ps), ("worker", counts.workers)):
            for index in range(count):
                fake.pods.append(pod_of(fake, role, index, json.dumps({"cluster": spec}), self.at))
        if self.quota is not None and len(fake.pods) > self.quota:
            # The operator may not make more pods, and the extender waits for all of the gang.
            del fake.pods[self.quota :]
            for pod in fake.pods:
                pod["status"]["phase"] = "Pending"
                del pod["spec"]["nodeName"]

    def _train(self, fake: FakeJob, seconds: float) -> None:
        is_running = fake.pods and all(pod["status"]["phase"] == "Running" for pod in fake.pods)
        if not is_running or fake.leaving:
            return
        if self.breaks(fake.counts):
            self._break(fake)
            return
        before = int(fake.step)
        began, speed = fake.step, fake.speed()
        fake.step += seconds * speed
        for step in range(before + 1, int(fake.step) + 1):
            saves = (
                self.checkpoints
                if self.checkpoints_of is None
                else fake.name in self.checkpoints_of
            )
            if saves and step % 5 == 0:
                fake.saved = step
            loss = 1 / (0.5 * step / STEPS_PER_EPOCH + 1) + 0.05
            text = f"epoch={step // STEPS_PER_EPOCH + 1} step={step} loss={loss:.6f}"
            text += f" checkpoint={fake.saved}" if fake.saved else ""
            fake.lines.append(LogLine(self.at - seconds + (step - began) / speed, text))

    def _break(self, fake: FakeJob) -> None:
        """Its workers have used up their memory; the kubelet starts them again and again."""
        for pod in fake.pods:
            if "-worker-" in pod["metadata"]["name"]:
                (status,) = pod["status"]["containerStatuses"]
                ended = {"exitCode": 137, "reason": "OOMKilled"}
                status["restartCount"] += 1
                status["lastState"] = {"terminated": ended}

    # -- Observer
    def decoded(self) -> tuple[list[TrainingJob], list[ClusterNode], list[Pod]]:
        """What the watches have decoded."""
        jobs = [fake.decoded() for fake in self.jobs.values()]
        nodes = [ClusterNode(name="n", node=Node("n", self._capacity()))]
        stored = [pod for fake in self.jobs.values() for pod in fake.pods]
        return jobs, nodes, [_pod(pod) for pod in stored]

    def observe(self, at: float) -> Observation:
        profiles = self.profiles if self.seen_profiles is None else self.seen_profiles
        jobs, nodes, pods = self.decoded()
        self._note({pod.uid: pod for pod in pods})
        if tuple(node.node for node in nodes) != self._nodes.nodes:
            self._nodes = NodeList.of(nodes, NODE_KIND_LABEL)
        found = Observation.of(at, jobs, self._nodes, self._index.freeze(), list(profiles.values()))
        return replace(found, silent_seconds=self.silent_seconds, workloads=self.workloads.all())

    def _note(self, pods: dict[str, Pod]) -> None:
        """What has changed, as the watch of pods notes it."""
        before, self._shown = self._shown, pods
        for uid in before.keys() | pods.keys():
            if before.get(uid) is not pods.get(uid):
                self._index.note(before.get(uid), pods.get(uid))

    def _capacity(self) -> Resources:
        return Resources(cpu=1000 * self.cpus, pods=110)

    # -- Reader
    def job(self, kind: str, key: JobKey) -> TrainingJob | Refused:
        found = self.jobs.get(key.name)
        if self.unreachable:
            return Refused(ErrorKind.TRANSIENT, "no answer")
        return (
            found.decoded() if found else Refused(ErrorKind.NOT_FOUND, f"{kind} {key} is not there")
        )

    def pods_of(self, job: TrainingJob) -> tuple[Pod, ...] | Refused:
        if self.unreachable:
            return Refused(ErrorKind.TRANSIENT, "no answer")
        return tuple(map(_pod, self.jobs[job.name].pods))

    # -- Writer
    def suspend(
        self,
        job: TrainingJob,
        interval_id: str,
        limits: Mapping[str, int],
        pause: PauseReason | None = None,
    ) -> Written | Refused:
        mark = SuspensionMark(interval_id, self.instance, pause)
        return self._write(job, {"suspend": True, **limits}, mark.text)

    def resize_and_resume(self, job: TrainingJob, counts: Counts) -> Written | Refused:
        return self._set_counts(job, counts, self._write(job, {"suspend": False}, None))

    def _set_counts(
        self, job: TrainingJob, counts: Counts, outcome: Written | Refused
    ) -> Written | Refused:
        if isinstance(outcome, Written):
            replicas = self.jobs[job.name].replicas
            replicas["Worker"]["replicas"] = counts.workers
            if "PS" in replicas:
                replicas["PS"]["replicas"] = counts.ps
        return outcome

    def unmark(self, job: TrainingJob) -> Written | Refused:
        return self._write(job, {}, None)

    def _write(
        self, job: TrainingJob, policy: dict[str, int], mark: str | None
    ) -> Written | Refused:
        fake = self.jobs[job.name]
        if self.refuse is not None:
            return Refused(self.refuse, "refused, as the test wants it")
        if job.resource_version != str(fake.version):
            return Refused(ErrorKind.CONFLICT, "the job has changed")
        self.writes += 1
        fake.manifest["spec"]["runPolicy"].update(policy)
        annotations = fake.manifest["metadata"]["annotations"]
        annotations.pop("optimus.dl/suspended-by", None)
        if mark is not None:
            annotations["optimus.dl/suspended-by"] = mark
        fake.changed()
        return Written(str(fake.version))

    # -- PodAnnotator
    def set_goal_met(self, pod: Pod, at: str | None) -> Written | Refused:
        if self.refuse is not None:
            return Refused(self.refuse, "refused, as the test wants it")
        stored = next(
            each
            for fake in self.jobs.values()
            for each in fake.pods
            if each["metadata"]["uid"] == pod.uid
        )
        annotations = stored["metadata"].setdefault("annotations", {})
        annotations.pop("optimus.dl/goal-met", None)
        if at is not None:
            annotations["optimus.dl/goal-met"] = at
        self.writes += 1
        return Written()

    # -- PodLogs
    def read(
        self, pod: Pod, *, since: float | None = None, last_lines: int | None = None
    ) -> LogRead | Refused:
        if pod.owner is None or pod.replica is None or pod.replica.role != "worker":
            return LogRead([])
        if pod.owner.name in self.broken_logs:
            raise RuntimeError("this log breaks its reader")
        lines = [
            line for line in self.jobs[pod.owner.name].lines if since is None or line.at >= since
        ]
        if last_lines is not None:
            return LogRead(lines[-last_lines:], skipped=len(lines) > last_lines)
        return LogRead(lines[: self.most_lines], len(lines) > self.most_lines)

    # -- Profiles
    def create(self, job: TrainingJob) -> TrainingProfile | NameTaken | Refused:
        self.create_calls += 1
        if self.refuses_reports:
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
            resource_version="1",
        )
        return self.profiles.setdefault(job.name, profile)

    def stored(self, profile: TrainingProfile) -> TrainingProfile | Refused:
        return self.profiles.get(profile.name) or Refused(ErrorKind.NOT_FOUND, "it is gone")

    def write_status(self, profile: TrainingProfile, status: ProfileStatus) -> Written | Refused:
        if profile.name not in self.profiles:
            return Refused(ErrorKind.NOT_FOUND, "the profile is gone")
        if self.refuses_status:
            return Refused(ErrorKind.INVALID, "too large")
        held = self.profiles[profile.name]
        if profile.resource_version not in ("", held.resource_version):
            return Refused(ErrorKind.CONFLICT, "the profile has changed")
        self.writes += 1
        version = str(int(held.resource_version or 0) + 1)
        self.profiles[profile.name] = msgspec.structs.replace(
            held, status=status, resource_version=version
        )
        return Written(version)

    def delete(self, profile: TrainingProfile) -> Written | Refused:
        held = self.profiles.get(profile.name)
        if held is not None and held.uid == profile.uid:
            del self.profiles[profile.name]
        return Written()

    # -- ClusterMemory
    def remembered(self) -> str | Refused:
        return Refused(ErrorKind.TRANSIENT, "no answer") if self.unreachable else self.lease

    def remember(self, text: str) -> Written | Refused:
        if self.refuse is not None:
            return Refused(self.refuse, "refused, as the test wants it")
        self.lease = text
        self.writes += 1
        return Written()

    def order_kinds(self, text: str) -> Written | Refused:
        if self.refuse is not None:
            return Refused(self.refuse, "refused, as the test wants it")
        self.kind_orders = text
        return Written()

    # -- Events
    def emit(
        self, job: Subject, kind: EventType, reason: str, message: str
    ) -> Written | Refused | None:
        if self.refuses_reports:
            return Refused(ErrorKind.TRANSIENT, "no answer")
        self.events.append((job.name, reason, message))
        return Written()

    def messages(self, reason: str) -> list[str]:
        """What Events of a reason say, oldest first."""
        return [message for _, found, message in self.events if found == reason]

    def reasons(self, name: str) -> list[str]:
        """The reasons of a job's Events, oldest first."""
        return [reason for subject, reason, _ in self.events if subject == name]


def _pod(stored: dict[str, Any]) -> Pod:
    # Version 2 writes equal objects as equal bytes, in a fraction of the time of JSON.
    return _decoded(marshal.dumps(stored, 2))


@lru_cache(maxsize=1000)
def _decoded(stored: bytes) -> Pod:
    """Once for each change of a pod, as a reflector does it."""
    return decode_pod(json.dumps(marshal.loads(stored)).encode())
