"""What a cluster shows of training jobs that nobody manages: their logs, and what their pods use.

Read once, with the rights of a user. Of a job one log is read, and that of its Evaluator: the last
lines, and the beginning where there is more before them. What may not be read is left out and
said, each right once. Of a job with a TrainingProfile the profile is taken instead of its log."""

import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Final, Protocol

import msgspec

from optimus.cli.job_facts import JobSource
from optimus.cli.job_list import NO_PROFILES, read_jobs, read_pods_of_jobs, read_profiles
from optimus.cli.rights import MAY_NOT, explained
from optimus.errors import NotReady
from optimus.jobs import Counts, Job, Role
from optimus.kube.client import path_of
from optimus.kube.errors import ErrorKind, KubeError, Malformed, decode
from optimus.kube.job_kinds import NAME_LABELS
from optimus.kube.logs import LogReader, LogSource
from optimus.kube.pods import Pod, decode_pod, in_set
from optimus.kube.podspec import ResourceRequirements
from optimus.kube.profile_codec import learned
from optimus.kube.profiles import ProfileStatus
from optimus.kube.quantity import Amount, requested
from optimus.kube.results import Refused
from optimus.kube.training_jobs import TrainingJob
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.types import LogRead, PodRun, TrainingProgress
from optimus.resources import MEMORY, Resources

NO_METRICS: Final = (
    "the cluster has no metrics API (metrics.k8s.io), so that it is not known what pods use"
)
_METRICS: Final = "metrics.k8s.io", "v1beta1"
_READERS: Final = 16
_ALL_LINES: Final = 200_000
"""Of all logs together: a core takes some ten seconds for them."""
_MOST_LINES: Final = 4000
_LEAST_LINES: Final = 200
"""Of one log, however many there are."""
_FIRST_BYTES: Final = 1 << 13
"""Of the beginning of a log, where a program says what it is going to do."""
_FEWEST_LINES: Final = 50
_LEADERS: Final = (Role.CHIEF, Role.MASTER, Role.WORKER)


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """One pod of a job, and what it uses at this moment."""

    pod: Pod
    used: Resources | None = None
    """``None``: not known."""
    memory_used: int = 0
    """Of the container that trains, in bytes."""
    memory_limit: int = 0
    """Of the same container; 0: it has none."""


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


@dataclass(frozen=True, slots=True)
class ObservedJobs:
    """Jobs by namespace and name; ``now`` is the API server's time, seconds since the epoch."""

    now: float
    jobs: tuple[ObservedJob, ...]
    not_readable: tuple[str, ...] = ()
    """Sentences on what could not be read."""
    no_metrics: str = ""
    """Why it is not known what pods use."""


class _LimitedContainer(msgspec.Struct):
    name: str = ""
    resources: ResourceRequirements = msgspec.field(default_factory=ResourceRequirements)


class _LimitedSpec(msgspec.Struct):
    containers: list[_LimitedContainer] = []


class _LimitedPod(msgspec.Struct):
    spec: _LimitedSpec = msgspec.field(default_factory=_LimitedSpec)


class _Usage(msgspec.Struct):
    name: str = ""
    usage: dict[str, Amount] | None = None


class _Named(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _PodMetrics(msgspec.Struct):
    metadata: _Named
    containers: list[_Usage] = []


class _PodMetricsList(msgspec.Struct):
    """It is computed when it is asked for: it has no pages and no version to watch from."""

    items: list[_PodMetrics] = []


_LIMITED: Final = msgspec.json.Decoder(_LimitedPod)
_POD_METRICS: Final = msgspec.json.Decoder(_PodMetricsList)


class JobLogSource(LogSource, JobSource, Protocol):
    """The part of ``optimus.kube.client.Client`` that is needed; see there."""


_UsedBy = Mapping[tuple[str, str], Mapping[str, Resources]]
"""By namespace and name of a pod, then by container."""


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
    used = _used(client, namespace)
    pods = _pods(client, namespace, {} if isinstance(used, str) else used, said)
    now = client.server_clock.now()
    reader = _JobLogs(client, len(jobs), said)
    with ThreadPoolExecutor(_READERS) as pool:

        def observed(job: TrainingJob) -> ObservedJob:
            return reader.observe(job, pods.get((job.namespace, job.uid), ()), profiles, now)

        found = list(pool.map(observed, sorted(jobs, key=lambda each: (*each.key, each.kind))))
    no_metrics = used if isinstance(used, str) else ""
    if no_metrics.startswith(MAY_NOT):
        said, no_metrics = [*said, no_metrics], ""
    return ObservedJobs(now, tuple(found), tuple(dict.fromkeys(said)), no_metrics)


def _used(client: JobSource, namespace: str | None) -> _UsedBy | str:
    """Return what pods use, or why that is not known."""
    what, path = "list the use of pods", path_of(*_METRICS, "pods", namespace)
    try:
        bodies = [client.get(what, path, [("labelSelector", each)]) for each in NAME_LABELS]
        listed = [each for body in bodies for each in decode(_POD_METRICS, body, what).items]
    except KubeError as error:
        # Behind an aggregated API without a server the answer is 503.
        is_missing = error.kind in (ErrorKind.NOT_FOUND, ErrorKind.TRANSIENT)
        return NO_METRICS if is_missing else explained(error)
    except Malformed as error:
        return str(error)
    found = {}
    for pod in listed:
        try:
            amounts = {each.name: requested(each.usage) for each in pod.containers}
        except Malformed:
            continue
        found[pod.metadata.namespace, pod.metadata.name] = amounts
    return found


def _pods(
    client: JobSource, namespace: str | None, used: _UsedBy, said: list[str]
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
            pod, limits = decode_pod(raw), _memory_limits(raw)
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
            limits.get(pod.log_container, 0),
        )
        found[pod.namespace, pod.owner.uid].append(observed)
    return found


def _memory_limits(raw: msgspec.Raw) -> Mapping[str, int]:
    containers = decode(_LIMITED, raw, "a pod").spec.containers
    return {each.name: requested(each.resources.limits)[MEMORY] for each in containers}


def lines_of_each(jobs: int) -> int:
    """Return how many lines of each log are read, of so many jobs."""
    return min(max(_ALL_LINES // max(jobs, 1), _LEAST_LINES), _MOST_LINES)


class _JobLogs:
    """Reads the logs of so many jobs."""

    def __init__(self, client: JobLogSource, jobs: int, said: list[str]) -> None:
        self._lines = lines_of_each(jobs)
        self._last, self._first = LogReader(client), LogReader(client, _FIRST_BYTES)
        self._said = said

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
        stored = None if profile is None or not profile.state else profile.state
        if stored is not None and (known := learned(stored, at_counts, now)) is not None:
            newest = max((each.at for each in known.progress.samples), default=None)
            return replace(empty, progress=known.progress, read_until=newest)
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
            for number, read in enumerate(self._reads(pod)):
                if isinstance(read, Refused):
                    if pod is lead and not lines:
                        return replace(empty, progress=self._refused(read))
                    continue
                run = PodRun(lead.uid, skipped=number > 0)
                log.observe(pod.name, role, index, job.counts, read.lines, run)
                lines += len(read.lines)
                if pod is lead and read.lines:
                    until = read.lines[-1].at
        if not lines:
            return replace(empty, progress=NotReady("its log is empty"))
        return replace(empty, progress=log.progress(until or 0.0), read_until=until, lines=lines)

    def _reads(self, pod: Pod) -> Iterator[LogRead | Refused]:
        """The beginning of a log where its last lines are not all, and its last lines."""
        lines = self._lines
        read = self._last.read(pod, last_lines=lines)
        while isinstance(read, LogRead) and read.truncated and lines > _FEWEST_LINES:
            # The end is what was cut off.
            lines = max(len(read.lines) // 2, _FEWEST_LINES)
            read = self._last.read(pod, last_lines=lines)
        if isinstance(read, LogRead) and read.skipped:
            first = self._first.read(pod)
            if isinstance(first, LogRead) and read.lines:
                before = [each for each in first.lines if each.at < read.lines[0].at]
                yield LogRead(before)
        yield read

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
