"""What a cluster shows of training jobs that nobody manages: their logs, and what their pods use.

Read once, with the rights of a user. Of a job one log is read, and that of its Evaluator: the last
lines, and the beginning where there is more before them. What may not be read is left out and
said, each right once. Of a job with a TrainingProfile the profile is taken instead of its log."""

import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Final, Protocol

from optimus.cli.job_facts import JobSource
from optimus.cli.job_list import NO_PROFILES, read_jobs, read_pods_of_jobs, read_profiles
from optimus.cli.rights import MAY_NOT, explained
from optimus.errors import NotReady
from optimus.jobs import Counts, Job, Role
from optimus.kube.client import path_of
from optimus.kube.contract import GROUP, VERSION, WORKLOAD_PROFILES
from optimus.kube.errors import ErrorKind, KubeError, Malformed
from optimus.kube.list_watch import decoded, read_list
from optimus.kube.logs import LogReader, LogSource
from optimus.kube.pod_usage import NEAR_LIMIT, PodUsage, limit_text, read_usage
from optimus.kube.pods import Pod, decode_pod, in_set
from optimus.kube.profile_codec import learned
from optimus.kube.profiles import ProfileStatus
from optimus.kube.results import Refused
from optimus.kube.times import instant_of
from optimus.kube.training_jobs import TrainingJob
from optimus.kube.workload_profiles import WorkloadProfile, decode_workload_profile
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.types import PodRun, TrainingProgress
from optimus.resources import MEMORY, Resources

NO_METRICS: Final = (
    "the cluster has no metrics API (metrics.k8s.io), so that it is not known what pods use"
)
_READERS: Final = 16
_ALL_LINES: Final = 200_000
"""Of all logs together: a core takes some ten seconds for them."""
_MOST_LINES: Final = 4000
_LEAST_LINES: Final = 200
"""Of one log, however many there are."""
_LEADERS: Final = (Role.CHIEF, Role.MASTER, Role.WORKER)


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """One pod of a job, and what it uses at this moment."""

    pod: Pod
    used: Resources | None = None
    """``None``: not known."""
    memory_used: int = 0
    """Of the container that trains, in bytes."""

    @property
    def near_limit(self) -> str:
        """How near that is to its limit, where it is near."""
        used, limit = self.memory_used, self.pod.memory_limit
        is_near = limit and used > NEAR_LIMIT * limit
        return limit_text(self.pod.name, used, limit) if is_near else ""


@dataclass(frozen=True, slots=True)
class ObservedJob:
    """One job."""

    job: TrainingJob
    pods: tuple[ObservedPod, ...]
    at_counts: Job | None
    """The job at the counts that its pods were made with."""
    progress: TrainingProgress | NotReady
    read_until: float | None = None
    """When its log printed its last line, seconds since the epoch."""
    lines: int = 0
    """Of its log that were read."""
    left_seconds: float | None = None
    """Until its end at its counts from ``read_until`` on, as its profile says."""
    earlier_memory: Mapping[Role, int] = field(default_factory=dict)
    """The most bytes that one pod of earlier runs of its workload used."""


@dataclass(frozen=True, slots=True)
class ObservedJobs:
    """Jobs by namespace and name; ``now`` is the API server's time, seconds since the epoch."""

    now: float
    jobs: tuple[ObservedJob, ...]
    not_readable: tuple[str, ...] = ()
    """Sentences on what could not be read."""
    no_metrics: str = ""
    """Why it is not known what pods use."""


class JobLogSource(LogSource, JobSource, Protocol):
    """The part of ``optimus.kube.client.Client`` that is needed; see there."""


def observe_jobs(
    client: JobLogSource, namespace: str | None, names: Collection[str] = ()
) -> ObservedJobs:
    """The jobs of a namespace (``None``: of all), or those of these names.

    Raises:
        KubeError: no jobs may be read, or there are none of their kinds."""
    said: list[str] = []
    jobs = read_jobs(client, namespace, said)
    if names:
        jobs = [each for each in jobs if each.name in names]
    profiles = read_profiles(client, namespace, said) or {}
    said = [each for each in said if each != NO_PROFILES]
    workloads = _workloads(client, namespace, said)
    used = _used(client, namespace)
    pods = _pods(client, namespace, {} if isinstance(used, str) else used, said)
    now = client.server_clock.now()
    reader = _JobLogs(client, lines_of_each(len(jobs)), said)
    with ThreadPoolExecutor(_READERS) as pool:

        def observed(job: TrainingJob) -> ObservedJob:
            found = reader.observe(job, pods.get((job.namespace, job.uid), ()), profiles, now)
            workload = "" if job.job is None else job.job.workload or ""
            memory = _earlier_memory(job, workloads.get((job.namespace, workload)))
            return replace(found, earlier_memory=memory)

        found = list(pool.map(observed, sorted(jobs, key=lambda each: (*each.key, each.kind))))
    no_metrics = used if isinstance(used, str) else ""
    if no_metrics.startswith(MAY_NOT):
        said, no_metrics = [*said, no_metrics], ""
    return ObservedJobs(now, tuple(found), tuple(dict.fromkeys(said)), no_metrics)


def _workloads(
    client: JobSource, namespace: str | None, said: list[str]
) -> Mapping[tuple[str, str], WorkloadProfile]:
    """The profiles of workloads by namespace and name."""
    path = path_of(GROUP, VERSION, WORKLOAD_PROFILES, namespace)
    try:
        raws = read_list(client, f"list {WORKLOAD_PROFILES}", path)
    except KubeError as error:
        said += [explained(error)] * (error.kind is not ErrorKind.NOT_FOUND)
        return {}
    found = decoded(raws, decode_workload_profile, said)
    return {(each.namespace, each.name): each for each in found}


def _earlier_memory(job: TrainingJob, profile: WorkloadProfile | None) -> dict[Role, int]:
    runs = [run for run in ([] if profile is None else profile.runs) if run.uid != job.uid]
    most = {
        Role.PS: max((run.ps_memory for run in runs), default=0),
        Role.WORKER: max((run.worker_memory for run in runs), default=0),
    }
    return {role: used for role, used in most.items() if used}


def _used(client: JobSource, namespace: str | None) -> PodUsage | str:
    """Return what pods use, or why that is not known."""
    try:
        return read_usage(client, namespace)
    except KubeError as error:
        # Behind an aggregated API without a server the answer is 503.
        is_missing = error.kind in (ErrorKind.NOT_FOUND, ErrorKind.TRANSIENT)
        return NO_METRICS if is_missing else explained(error)
    except Malformed as error:
        return str(error)


def _pods(
    client: JobSource, namespace: str | None, used: PodUsage, said: list[str]
) -> Mapping[tuple[str, str], Sequence[ObservedPod]]:
    """The pods of each job by namespace and UID: a pod may name a job of another namespace."""
    where = "all namespaces" if namespace is None else f"namespace {namespace}"
    try:
        raws = read_pods_of_jobs(client, f"list the pods of jobs of {where}", namespace)
    except KubeError as error:
        said.append(explained(error))
        return {}
    found = defaultdict[tuple[str, str], list[ObservedPod]](list)
    for raw in raws:
        try:
            pod = decode_pod(raw)
        except Malformed as error:
            said.append(str(error))
            continue
        if pod.owner is None:
            continue
        amounts = used.get((pod.namespace, pod.name))
        observed = ObservedPod(
            pod,
            None if amounts is None else sum(amounts.values(), Resources()),
            0 if amounts is None else amounts.get(pod.log_container, Resources())[MEMORY],
        )
        found[pod.namespace, pod.owner.uid].append(observed)
    return found


def lines_of_each(jobs: int) -> int:
    """Return how many lines of each log are read, of so many jobs."""
    return min(max(_ALL_LINES // max(jobs, 1), _LEAST_LINES), _MOST_LINES)


class _JobLogs:
    """Reads so many lines of the log of each job."""

    def __init__(self, client: LogSource, lines: int, said: list[str]) -> None:
        self._lines = lines
        self._reader, self._said = LogReader(client), said

    def observe(
        self,
        job: TrainingJob,
        pods: Sequence[ObservedPod],
        profiles: Mapping[str, ProfileStatus],
        now: float,
    ) -> ObservedJob:
        """One job with what its log, or its profile, shows."""
        at_counts, trainers = job.job, _trainers(job, pods)
        if job.shape is None and at_counts is not None and trainers and trainers[0].gang:
            gang = trainers[0].gang
            counts = Counts(gang.get(Role.PS, 0), gang.get(Role.WORKER, 0))
            at_counts = replace(at_counts, counts=counts)
        empty = ObservedJob(job, tuple(pods), at_counts, NotReady(""))
        if at_counts is None:
            reason = job.left_alone or "its replicas cannot be read"
            return replace(empty, progress=NotReady(reason))
        if job.outcome is not None:
            return replace(empty, progress=NotReady("it has ended"))
        profile = profiles.get(job.uid)
        if profile is not None and profile.state:
            known = learned(profile.state, at_counts, now)
            newest = max((each.at for each in known.progress.samples), default=None)
            decided_at, left = instant_of(profile.decided_at), profile.remaining_seconds
            until = newest if left is None else decided_at or newest
            return replace(empty, progress=known.progress, read_until=until, left_seconds=left)
        if not trainers:
            suspended = "it is suspended" if job.suspended else "none of its pods trains"
            return replace(empty, progress=NotReady(suspended))
        return self._read(empty, at_counts, trainers, pods)

    def _read(
        self, empty: ObservedJob, job: Job, trainers: Sequence[Pod], pods: Sequence[ObservedPod]
    ) -> ObservedJob:
        lead = trainers[0]
        evaluators = [
            each.pod for each in pods if each.pod.running and _role(each.pod) is Role.EVALUATOR
        ]
        log = ProgressLog(LogFormatOptions.of(job, time.thread_time))
        lines, until = 0, None
        for pod in (lead, *evaluators[:1]):
            role, index = _role(pod) or Role.WORKER, pod.replica.index if pod.replica else 0
            for read in self._reader.read_ends(pod, self._lines):
                if isinstance(read, Refused):
                    if pod is lead and not lines:
                        return replace(empty, progress=self._refused(read))
                    continue
                run = PodRun(lead.uid, skipped=read.skipped)
                log.observe(pod.name, role, index, job.counts, read.lines, run)
                lines += len(read.lines)
                if pod is lead and read.lines:
                    until = read.lines[-1].at
        if not lines:
            return replace(empty, progress=NotReady("its log is empty"))
        return replace(empty, progress=log.progress(until or 0.0), read_until=until, lines=lines)

    def _refused(self, read: Refused) -> NotReady:
        sentence = explained(KubeError(read.kind, read.sentence))
        if sentence.startswith(MAY_NOT):
            self._said.append(sentence)
            return NotReady("its log may not be read")
        return NotReady(f"its log cannot be read: {sentence}")


def _role(pod: Pod) -> Role | None:
    return None if pod.replica is None else pod.replica.role


def _trainers(job: TrainingJob, pods: Sequence[ObservedPod]) -> list[Pod]:
    """Its running pods that train, the one that prints the losses of the job first."""
    main = None if job.shape is None else job.shape.main
    placed = [
        in_set(each.pod, job.shape)
        for each in pods
        if main is None or (each.pod.member and each.pod.member.replicated_job in main)
    ]
    ranked = [
        ((_LEADERS.index(pod.replica.role), pod.replica.index), pod)
        for pod in placed
        if pod.running and pod.replica and pod.replica.role in _LEADERS
    ]
    return [pod for _, pod in sorted(ranked, key=itemgetter(0))]
