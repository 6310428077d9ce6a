"""A cluster as the loop would copy it for the page: jobs in every phase, with real fits."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random

import msgspec
import numpy as np

from autoscaler.cluster import Observation
from autoscaler.web.copies import ClusterCopy, JobCopy
from optimus.errors import NotReady
from optimus.interval import Action, Decision
from optimus.jobs import (
    Batch,
    BatchScope,
    CountBounds,
    Counts,
    FixedRole,
    Goal,
    Job,
    JobKey,
    ReplicaSpec,
    Role,
    TargetEpochs,
    TargetLoss,
    TargetMetric,
    TrainingMode,
    goal_text,
)
from optimus.kube.contract import RESCALING, Phase
from optimus.kube.pods import ContainerState, Pod
from optimus.kube.profiles import ProfileStatus
from optimus.kube.times import format_second
from optimus.kube.waiting_events import JobAhead, Wait
from optimus.lifecycle import JobRecord
from optimus.models.forecast import Forecast, forecast_job
from optimus.nodes import Node, Taint
from optimus.progress.types import LossPoint, MetricSeries, SpeedSample, TrainingProgress
from optimus.rescale.words import RescaleRecord, Step
from optimus.resources import Resources
from optimus.snapshot import BoundPod, ClusterSnapshot, ReplicaId

AT = 1_800_000_000.0
HOSTILE = '<img src=x onerror="document.title=1">${7*7}</script><script>document.title=1</script>'
WAIT = Wait(
    text=(
        "waits: 3 workers of 4 cpu lack a place (2 of 16 nodes hold one; cpu is short); behind "
        "team-b/resnet-1 (4 nodes), for which nodes are kept free; since 10:31 UTC; capacity is "
        "expected at about 11:05 UTC, when team-a/lm-4 ends"
    ),
    ahead=(JobAhead("team-b/resnet-1", 4),),
    jobs_ahead=1,
    awaits="team-a/lm-4",
    expected_at="2027-01-15T11:05:00Z",
)
_CRASHES = ContainerState(AT - 40, restarts=7, error="exit code 137 (OOMKilled)")
_MEASURED = (Counts(1, 1), Counts(1, 2), Counts(2, 2), Counts(2, 4), Counts(3, 6))
_NAMES = ("resnet", "lm", "ctr", "bert", "vgg", "seq2seq", "dcgan", "wide-deep")
_GOALS: tuple[Goal, ...] = (
    TargetLoss(0.15),
    TargetMetric("accuracy", 0.92, at_least=True),
    TargetEpochs(60),
    TargetLoss(0.3),
)
_PHASES = (
    *[Phase.TRAINING] * 11,
    *[Phase.WAITING] * 3,
    Phase.PROFILING,
    Phase.STARTING,
    Phase.AT_TARGET,
    Phase.COMPLETED,
    Phase.FAILED,
    Phase.LEFT_ALONE,
)


NOT_MADE = NotReady("no forecast was made")


def speed_at(counts: Counts) -> float:
    """The true speed of every job."""
    return 1 / (1.2 / counts.workers + 0.05 * counts.workers / counts.ps + 0.03 * counts.workers)


@cache
def training(kind: int, epochs: int) -> TrainingProgress:
    """The training of a kind of job after so many epochs."""
    random = np.random.default_rng(kind)
    k = np.arange(1, epochs + 1)
    loss = 2.2 / (0.35 * k + 1) + 0.08
    loss *= np.exp(0.02 * random.standard_normal(epochs))
    accuracy = 1 - 0.7 / (0.28 * k + 1) + 0.004 * random.standard_normal(epochs)
    points = tuple(
        LossPoint(float(y), float(x), int(100 * x)) for x, y in zip(k, loss, strict=True)
    )
    risen = tuple(LossPoint(float(y), float(x)) for x, y in zip(k, accuracy, strict=True))
    samples = tuple(
        SpeedSample(
            each, speed_at(each) * float(random.uniform(0.97, 1.03)), 60.0, AT - 900 + 60 * n
        )
        for n, each in enumerate(_MEASURED)
    )
    return TrainingProgress(
        losses=points,
        epoch=float(epochs),
        step=100 * epochs,
        steps_per_epoch=100.0,
        samples=samples,
        trained_seconds=60.0 * epochs,
        metrics=(MetricSeries("validation accuracy", evaluated=True, rises=True, points=risen),),
    )


@cache
def _fitted(kind: int, epochs: int) -> Forecast | NotReady:
    return forecast_job(job_of(0, kind), training(kind, epochs))


def job_of(number: int, kind: int, **fields: object) -> Job:
    """One job of a kind."""
    request = ReplicaSpec(Resources(cpu=2000, memory=4 * 2**30))
    job = Job(
        key=JobKey(f"team-{'abc'[number % 3]}", f"{_NAMES[kind % len(_NAMES)]}-{number}"),
        uid=f"uid-{number}",
        kind="TFJob" if kind % 2 else "MXJob",
        created_at=AT - 4000 + number,
        counts=_MEASURED[2 + number % 3],
        ps=request,
        worker=ReplicaSpec(Resources({"cpu": 4000, "memory": 8 * 2**30, "nvidia.com/gpu": 1})),
        goal=_GOALS[kind % len(_GOALS)],
        mode=TrainingMode.SYNC,
    )
    return replace(job, **fields)  # type: ignore[arg-type]  # the test's own fields


@dataclass
class SampleCluster:
    """So many jobs on nodes that hold most of them; ``copy`` is the cluster some time later."""

    jobs: int = 24
    seed: int = 1
    hostile: bool = False
    extreme: bool = False
    """With a job in every phase, long names, large and small figures, and a large node."""

    others: bool = False
    """With jobs that are only placed, without PSs, and jobs that have ended."""

    untrained: bool = False
    """With a job of which nothing is known yet: a pod of it cannot be created."""

    _copies: dict[str, JobCopy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        random = Random(self.seed)
        count = max(self.jobs // 2, 4) if self.jobs else 4
        self.nodes = tuple(
            Node(
                f"node-{n:03}",
                Resources({"cpu": 48_000, "memory": 192 * 2**30, "pods": 110, "nvidia.com/gpu": 8}),
                {"kind": "large" if n % 3 else "small"},
                (Taint("maintenance", "", "NoSchedule"),) if n == 3 else (),
                n == 3,
            )
            for n in range(count)
        )
        self._free = {node.name: 8 for node in self.nodes}
        for number in range(self.jobs):
            copy = self._made(number, random)
            self._copies[copy.uid] = copy
        if self.others:
            self._add_others()
        if self.untrained:
            job = job_of(9_000, 0, key=JobKey("team-a", "untrained"))
            reason = "1 of its 3 pods cannot be created: it needs 3 of pods, quota q allows 2"
            status = ProfileStatus(phase=Phase.WAITING, reason=reason, goal="loss 0.15")
            found = JobCopy(job.key, job.uid, job.kind, job.created_at, job, status)
            pods = (self._pod(job, Role.PS, 0, None),)
            found = found._replace(pods=pods, progress=TrainingProgress(), forecast=NOT_MADE)
            self._copies[job.uid] = found
        if self.hostile:
            self._add_hostile()
        if self.extreme:
            self._add_extreme()

    def _made(self, number: int, random: Random) -> JobCopy:
        kind, phase = number % 8, _PHASES[number * 7 % len(_PHASES)]
        deadline = AT + 4200 if number % 8 == 0 else None
        job, epochs = job_of(number, kind, finish_by=deadline), 6 + 2 * (number % 6)
        progress, forecast = training(kind, epochs), _fitted(kind, epochs)
        runs = phase in (Phase.TRAINING, Phase.PROFILING, Phase.AT_TARGET, Phase.STARTING)
        pods = self._placed(job) if runs else ()
        if runs and not any(pod.node for pod in pods):
            phase = Phase.WAITING
        target = Counts(job.counts.ps, job.counts.workers + 2)
        reason = f"worker {job.counts.workers} saves 212 s of 1840 s; 4 more jobs would gain less"
        decision = Decision(
            job.key, job.uid, job.counts, job.counts, Action.KEEP, reason, saves_seconds=212.0
        )
        rescale = None
        if phase is Phase.STARTING:
            decision = replace(decision, counts=target, action=Action.GROW)
            rescale = RescaleRecord(
                "2027-01-15T08:00:00Z", AT - 20, job.counts, target, reason, Step.START, AT - 5
            )
        status = self._status(job, phase, progress, forecast)
        is_known = phase not in (Phase.COMPLETED, Phase.FAILED, Phase.LEFT_ALONE)
        return JobCopy(
            job.key,
            job.uid,
            job.kind,
            job.created_at,
            job,
            status,
            pods,
            WAIT if phase is Phase.WAITING else None,
            progress if is_known else None,
            forecast if is_known and phase is not Phase.PROFILING else None,
            decision if is_known else None,
            AT - 30,
            JobRecord(rescales=number % 4, prices=(38.0, 52.0)[: number % 3]),
            rescale,
        )

    def _status(
        self, job: Job, phase: Phase, progress: TrainingProgress, forecast: Forecast | NotReady
    ) -> ProfileStatus:
        known = forecast if isinstance(forecast, Forecast) else None
        reasons = {
            Phase.WAITING: WAIT.text,
            Phase.FAILED: "a worker has ended with exit code 137 (OOMKilled)",
            Phase.LEFT_ALONE: "optimus.dl/target-loss 'low' is no number",
            Phase.PROFILING: f"measuring its speed at {job.counts}",
        }
        return ProfileStatus(
            phase=phase,
            reason=reasons.get(
                phase, f"more than {job.counts.workers} workers would save less than 5 %"
            ),
            interval_id="2027-01-15T08:00:00Z",
            decided_at=format_second(AT - 30),
            ps=job.counts.ps,
            workers=job.counts.workers,
            loss=float(f"{progress.losses[-1].loss:.4g}"),
            metric="validation accuracy 0.8312" if isinstance(job.goal, TargetMetric) else "",
            goal=goal_text(job.goal),
            progress_percent=None if known is None else round(100 * known.progress_fraction),
            steps_per_second=float(f"{speed_at(job.counts):.4g}"),
            remaining_seconds=None if known is None else round(known.at(job.counts)),
            rescales=2,
            trained_seconds=progress.trained_seconds,
            complaint="its log has no epochs" if phase is Phase.PROFILING else "",
        )

    def _placed(self, job: Job) -> tuple[Pod, ...]:
        """Pods on the nodes that have most GPUs free; none where they do not fit."""
        names = sorted(self._free, key=lambda name: -self._free[name])[:2]
        if sum(self._free[name] for name in names) < job.counts.workers:
            return tuple(self._pod(job, Role.WORKER, n, None) for n in range(job.counts.workers))
        pods = [self._pod(job, Role.PS, n, names[n % 2]) for n in range(job.counts.ps)]
        for each in job.fixed:
            self._free[names[0]] -= 1
            pods.append(self._pod(job, each.role, 0, names[0]))
        for n in range(job.counts.workers):
            name = max(names, key=self._free.__getitem__)
            self._free[name] -= 1
            pods.append(self._pod(job, Role.WORKER, n, name))
        return tuple(pods)

    def _pod(self, job: Job, role: Role, index: int, node: str | None) -> Pod:
        spec = job.ps if role is Role.PS else job.worker
        name = f"{job.key.name}-{role}-{index}"
        return Pod(
            uid=f"{job.uid}-{role}-{index}",
            namespace=job.key.namespace,
            name=name,
            created_at=AT - 100,
            replica=ReplicaId(job.uid, role, index),
            node=node,
            phase="Running" if node else "Pending",
            resources=spec.resources + Resources(pods=1),
            constraints=spec.constraints,
            container=_CRASHES if name == "resnet-0-worker-1" else ContainerState(AT - 90),
        )

    def _add_others(self) -> None:
        """Jobs that are only placed, and jobs that have ended: short of the goal, and unmanaged."""
        spec = ReplicaSpec(Resources({"cpu": 4000, "memory": 8 * 2**30, "nvidia.com/gpu": 1}))
        for number, (name, kind, outcome) in enumerate(
            [
                ("gpt-placed", "PyTorchJob", None),
                ("mpi-placed", "JobSet", None),
                ("gpt-ended", "PyTorchJob", "Succeeded"),
                ("resnet-short", "TFJob", "Succeeded"),
            ],
            7_000,
        ):
            is_managed, status = name == "resnet-short", ProfileStatus()
            leads = (FixedRole(Role.MASTER, 1, spec),) if kind == "PyTorchJob" else ()
            job = job_of(number, 2, key=JobKey("team-a", name), worker=spec)
            job = replace(job, kind=kind, created_at=AT - 4000)
            if not is_managed:
                counts = Counts(0, 3 if leads else 4)
                job = replace(job, goal=None, counts=counts, fixed=leads, chief_trains=True)
            progress = training(2, 24)
            message = f"{kind} {name} successfully completed." if outcome else ""
            if is_managed:
                status = self._status(job, Phase.COMPLETED, progress, _fitted(2, 24))
                status = msgspec.structs.replace(status, reason=message)
            self._copies[job.uid] = JobCopy(
                job.key,
                job.uid,
                kind,
                job.created_at,
                job,
                status,
                () if outcome else self._placed(job),
                progress=progress if is_managed else None,
                forecast=_fitted(2, 24) if is_managed else None,
                outcome=outcome,
                message=message,
            )

    def add_led(self) -> None:
        """Add a PyTorchJob of a Master and workers that is managed."""
        job = job_of(8_000, 4, key=JobKey("team-a", "gpt-led"))
        leads = (FixedRole(Role.MASTER, 1, job.worker),)
        bounds = CountBounds(0, 0, 1, 15, shares=64, leads=1)
        job = replace(job, kind="PyTorchJob", counts=Counts(0, 3), fixed=leads, bounds=bounds)
        job = replace(job, chief_trains=True, batch=Batch(64, BatchScope.JOB))
        samples = [
            SpeedSample(Counts(0, n), 1 / (2 / (n + 1) + 0.05 * n), 60.0, AT - 900 + 60 * n)
            for n in (1, 3, 7)
        ]
        progress = replace(training(4, 12), samples=tuple(samples))
        status = self._status(replace(job, counts=Counts(1, 3)), Phase.TRAINING, progress, NOT_MADE)
        forecast = forecast_job(job, progress)
        self._copies[job.uid] = JobCopy(
            job.key,
            job.uid,
            job.kind,
            job.created_at,
            job,
            msgspec.structs.replace(status, ps=0),
            self._placed(job),
            progress=progress,
            forecast=forecast,
        )

    def _add_hostile(self) -> None:
        """A job of which every text is an attack, and one that is broken in every way."""
        bad = job_of(9_000, 0, key=JobKey("team-a", HOSTILE), workload=HOSTILE)
        status = ProfileStatus(
            phase=Phase.TRAINING,
            reason=HOSTILE,
            goal=HOSTILE,
            metric=HOSTILE,
            complaint=HOSTILE,
            deadline=HOSTILE,
            straggler=HOSTILE,
            saves_on_stop=HOSTILE,
        )
        broken = job_of(9_001, 1, key=JobKey("team-b", "broken"))
        diverged = TrainingProgress(
            losses=(LossPoint(2.0, 1.0),), diverged=True, diagnostic="the losses are no numbers"
        )
        for job, shown, progress, forecast in (
            (bad, status, training(0, 8), NotReady(HOSTILE)),
            (broken, ProfileStatus(), diverged, NotReady("the last losses are no numbers")),
        ):
            pods = self._placed(job)
            self._copies[job.uid] = JobCopy(
                job.key,
                job.uid,
                job.kind,
                job.created_at,
                job,
                shown,
                pods,
                Wait(text=HOSTILE, ahead=(JobAhead(HOSTILE, 0),)) if job is bad else None,
                progress,
                forecast,
                Decision(job.key, job.uid, job.counts, job.counts, Action.KEEP, HOSTILE),
                AT,
                JobRecord(),
            )

    def _add_extreme(self) -> None:
        """Jobs whose texts and figures are as long as they can be, one in each phase."""
        huge = {"cpu": 24_000_000, "memory": 20_000 * 2**40, "nvidia.com/gpu": 123_456}
        name = "node-" + "with-a-name-of-sixty-three-letters-" + "x" * 23
        labels = {"kind": "a-kind-of-node-with-a-long-name.example.com"}
        self.nodes = (Node(name, Resources({**huge, "pods": 110}), labels), *self.nodes)
        for number, phase in enumerate(Phase, 8_000):
            job = job_of(number, number % 8)
            key = JobKey("a-namespace-of-many-letters", f"{phase.lower()}-{'y' * 40}-{number}")
            counts, target = Counts(1234, 5678), Counts(2345, 6789)
            job = replace(job, key=key, counts=counts, finish_by=AT + 90_000)
            sentence = f"{self._long_reason(job)}; {WAIT.text}"
            status = msgspec.structs.replace(
                self._status(job, phase, training(0, 12), _fitted(0, 12)),
                reason=sentence,
                loss=1.234e-07 if number % 2 else 123_456_789.0,
                metric=f"{'validation_' * 4}accuracy 0.123456" if number % 3 == 0 else "",
                goal=f"{'validation_' * 4}accuracy >= 0.987654",
                deadline="at risk: 90 % by 2027-01-17T08:00:00Z",
                steps_per_second=123_456.7,
                rescales=1234,
                target_ps=target.ps if phase in RESCALING else None,
                target_workers=target.workers if phase in RESCALING else None,
                trained_seconds=8_640_000.0,
                complaint=sentence if phase is Phase.PROFILING else "",
                straggler=sentence if phase is Phase.TRAINING else "",
            )
            pods = (
                self._pod(job, Role.PS, 1233, name),
                self._pod(job, Role.WORKER, 5677, name),
                self._pod(job, Role.SCHEDULER, 0, name),
            )
            decision = Decision(job.key, job.uid, counts, target, Action.CHANGE, sentence)
            known = _fitted(0, 12)
            if isinstance(known, Forecast):
                known = replace(known, remaining_steps=1e9, goal_met=phase is Phase.AT_TARGET)
            record = JobRecord(rescales=1234, profiled=(Counts(1, 2),) * 4, prices=(4321.0,))
            self._copies[job.uid] = JobCopy(
                job.key,
                job.uid,
                job.kind,
                job.created_at,
                job,
                status,
                pods,
                WAIT if phase is Phase.WAITING else None,
                training(0, 12),
                known,
                decision,
                AT - 90_000,
                record,
                RescaleRecord("r", AT - 200, counts, target, sentence, Step.START, AT - 5)
                if phase in RESCALING
                else None,
            )

    @property
    def extreme_job(self) -> JobKey:
        """One whose rescale is in progress."""
        jobs = self._copies.values()
        return next(each.key for each in jobs if each.uid >= "uid-8" and each.rescale is not None)

    def _long_reason(self, job: Job) -> str:
        return f"1234 PS + 5678 workers of {job.key} would save 123456 s of 9876543 s (1.2 %)"

    def copy(self, tick: int = 0, *, seconds: float = 2.0) -> ClusterCopy:
        """The cluster after so many ticks: every fifth job has a new loss at each."""
        random = Random(self.seed + tick)
        for uid, each in list(self._copies.items()) if tick else ():
            if each.status.phase is Phase.TRAINING and random.random() < 0.2 and each.status.loss:
                loss = float(f"{each.status.loss * random.uniform(0.99, 1.005):.4g}")
                status = msgspec.structs.replace(each.status, loss=loss)
                self._copies[uid] = each._replace(status=status)
        at, jobs = AT + seconds * tick, dict(self._copies)
        pods = [pod for each in jobs.values() for pod in each.pods if pod.node is not None]
        bound = (BoundPod(pod.uid, pod.node or "", pod.resources, pod.replica) for pod in pods)
        known = (each.job for each in jobs.values() if each.job is not None)
        snapshot = ClusterSnapshot.of(at, known, self.nodes, bound)
        kinds = {node.name: node.labels["kind"] for node in self.nodes}
        by_job = {each.uid: each.pods for each in jobs.values()}
        observation = Observation(at, snapshot, {}, by_job, node_kinds=kinds)
        return ClusterCopy(at, leads=True, observation=observation, jobs=jobs)


class SampleSource:
    """An API server that has Events on every job, and logs of PyTorchJobs; ``reads`` are the paths
    asked for."""

    def __init__(self) -> None:
        self.reads: list[str] = []

    def get(
        self,
        what: str,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        read_seconds: float | None = None,
        most_bytes: int | None = None,
    ) -> bytes:
        """The body of a GET."""
        self.reads.append(path)
        if path.endswith("/log"):
            return _LOG if "/gpt-" in path else b""
        events = [_event("Warning", "FailedCreatePod", HOSTILE, AT - 400, 3)]
        events += [_event("Normal", "Rescaled", "2 PS + 2 workers: it saves 212 s", AT - 30)]
        if "kind=Pod" in dict(query)["fieldSelector"]:
            again = "Back-off restarting failed container mxnet in pod resnet-0-worker-1"
            events = [_event("Warning", "BackOff", again, AT - 60, 7, "resnet-0-worker-1")]
            events += [_event("Normal", "Killing", "other", AT - 50, 1, "resnet-1-worker-1")]
        return msgspec.json.encode({"metadata": {"resourceVersion": "9"}, "items": events})


def _event(
    kind: str, reason: str, message: str, at: float, count: int = 1, about: str = "resnet-0"
) -> dict[str, object]:
    return {
        "involvedObject": {"name": about},
        "type": kind,
        "reason": reason,
        "message": message,
        "count": count,
        "lastTimestamp": format_second(at),
        "source": {"component": "optimus-autoscaler" if about == "resnet-0" else "kubelet"},
    }


_LOG = "".join(
    f"{format_second(AT - 30.0 * (12 - n))} epoch={n} step={10 * n} loss={0.4 + 1.6 / n:.4f}\n"
    if n
    else f"{format_second(AT - 360)} epochs=40\n"
    for n in range(13)
).encode()


def sample_display() -> SampleSource:
    """What the page reads Events from."""
    return SampleSource()
