"""The job, its pods, its profile and the Events, as its user may read them.

Everything is read with what the ClusterRole ``view`` allows in one namespace. What may not be read
is left out and said."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from optimus.cli.rights import explained
from optimus.jobs import Role
from optimus.kube.client import path_of
from optimus.kube.contract import GROUP, PROFILES, VERSION
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.errors import ErrorKind, KubeError, Malformed
from optimus.kube.job_kinds import ANY_KIND, JOB_KINDS, OPERATOR_GROUP, JobKind, pod_selector
from optimus.kube.jobsets import SetGang
from optimus.kube.list_watch import PageSource, decoded, read_list
from optimus.kube.pod_failures import PodFailure, failure_of
from optimus.kube.pods import Pod, decode_pod, in_set
from optimus.kube.profiles import ProfileStatus, decode_profile
from optimus.kube.server_clock import ServerClock
from optimus.kube.training_jobs import TrainingJob, decode_job, job_path
from optimus.kube.waiting_events import EventFacts, decode_event

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JobFacts:
    """Everything about one job."""

    job: TrainingJob
    now: float
    """The API server's time, in seconds since the epoch."""

    pods: tuple[Pod, ...] = ()
    events: tuple[EventFacts, ...] = ()
    """The newest last."""

    profile: ProfileStatus | None = None
    profile_was_read: bool = True
    """``None`` for the profile means that there is none."""

    not_readable: tuple[str, ...] = ()
    """Sentences on what could not be read."""

    pods_were_read: bool = True
    """No pods means that there are none."""

    events_were_read: bool = True

    last_words: Mapping[str, str] = field(default_factory=dict)
    """The last lines of the logs of pods that have failed, by UID."""

    def failure(self) -> PodFailure | None:
        """Return why its pods do not run as they should."""
        if self.job.outcome == "Succeeded":
            return None
        # A pod that runs again after an error is judged by the autoscaler, which reads its log.
        trained_at = 0.0 if self.profile is None else self.now
        return failure_of(self.pods, self.now, trained_at, self.last_words)

    def expected(self) -> Mapping[Role, int]:
        """The replicas of each role that are to be there, without those that have succeeded: as its
        pods list them, else by its spec. Of a JobSet those of its parts that are there, or of the
        one that comes next."""
        counts = self._by_part() if self.job.shape else self._listed()
        for pod in self.pods:
            if pod.phase == "Succeeded" and not pod.leaving and pod.replica:
                role = pod.replica.role
                counts[role] = counts.get(role, 0) - 1
        return {role: count for role, count in sorted(counts.items()) if count > 0}

    def _listed(self) -> dict[Role, int]:
        counts: dict[Role, int] = {}
        if self.job.job is not None:
            counts = {Role.PS: self.job.job.counts.ps, Role.WORKER: self.job.job.counts.workers}
            counts |= {each.role: each.count for each in self.job.job.fixed}
        for pod in self.pods:
            if not pod.leaving:
                counts |= pod.gang or {}
        return counts

    @property
    def later(self) -> Sequence[SetGang]:
        """The parts of a JobSet that are created later."""
        shape = None if self.job.outcome else self.job.shape
        gangs = () if shape is None else shape.gangs
        staying = [each for each in self.pods if not each.leaving]
        begun = {pod.replica.job_uid for pod in staying if pod.replica}
        waiting = [gang for gang in gangs if gang.uid not in begun]
        return waiting if any(not pod.finished for pod in staying) else waiting[1:]

    def _by_part(self) -> dict[Role, int]:
        gangs = () if self.job.shape is None else self.job.shape.gangs
        return {Role.WORKER: sum(each.size for each in gangs if each not in self.later)}


class JobSource(PageSource, Protocol):
    """The part of ``optimus.kube.client.Client`` that is needed; see there."""

    server_clock: ServerClock


def told_of_kind(client: JobSource, kind: JobKind, error: KubeError) -> KubeError:
    """Why jobs of a kind were not read: NOT_FOUND where the API server has none of their group, if
    that is not the operator's. It does not say so to somebody who lacks the right to read them."""
    if error.kind is not ErrorKind.FORBIDDEN or kind.group == OPERATOR_GROUP:
        return error
    try:
        client.get(f"ask for the kinds of {kind.group}", f"/apis/{kind.group}")
    except KubeError as other:
        return other if other.kind is ErrorKind.NOT_FOUND else error
    return error


class JobReader:
    """Reads from the API server, without caches."""

    def __init__(self, client: JobSource) -> None:
        self._client = client
        self._not_readable: list[str] = []

    def read(self, namespace: str, name: str) -> JobFacts:
        """The job of this name.

        Raises:
            KubeError: there is none, or jobs may not be read."""
        self._not_readable = []
        job = self.job(namespace, name)
        found = self._or_none(lambda: self._pods(job))
        pods = found or ()
        uids = {job.uid} | {pod.uid for pod in pods}
        events = self._or_none(lambda: self._events(namespace, uids))
        said = len(self._not_readable)
        profile = self._or_none(lambda: self._profile(job))
        was_read = len(self._not_readable) == said
        now = self._client.server_clock.now()
        return JobFacts(
            job,
            now,
            pods,
            events or (),
            profile,
            was_read,
            tuple(self._not_readable),
            pods_were_read=found is not None,
            events_were_read=events is not None,
        )

    def job_and_profile(self, namespace: str, name: str) -> JobFacts:
        """The job of this name and its profile alone.

        Raises:
            KubeError: there is none, or one of the two may not be read."""
        job = self.job(namespace, name)
        try:
            profile = self._profile(job)
        except Malformed as error:
            raise KubeError(ErrorKind.INVALID, str(error)) from error
        return JobFacts(job, self._client.server_clock.now(), profile=profile)

    def _or_none(self, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except KubeError as error:
            self._not_readable.append(explained(error))
        except Malformed as error:
            self._not_readable.append(str(error))
        return None

    def job(self, namespace: str, name: str) -> TrainingJob:
        """The job itself.

        Raises:
            KubeError: there is none, or jobs may not be read."""
        failures: list[KubeError] = []
        for kind, known in JOB_KINDS.items():
            what = f"read {kind} {namespace}/{name}"
            try:
                body = self._client.get(what, job_path(kind, namespace, name))
                return decode_job(kind, body, config=EligibilityConfig())
            except KubeError as error:
                failures.append(told_of_kind(self._client, known, error))
            except Malformed as error:
                raise KubeError(ErrorKind.INVALID, f"cannot {what}: {error}") from error
        # Of a kind that is not installed, or of no job of the name, nothing else is worth saying.
        for failure in failures:
            if failure.kind is not ErrorKind.NOT_FOUND:
                raise failure
        sentence = f"there is no {ANY_KIND} {name} in namespace {namespace}; -n names another one"
        raise KubeError(ErrorKind.NOT_FOUND, sentence)

    def _pods(self, job: TrainingJob) -> tuple[Pod, ...]:
        path = path_of("", "v1", "pods", job.namespace)
        query = [("labelSelector", pod_selector(job.kind, job.name))]
        raws = read_list(self._client, f"list the pods of {job.key}", path, query)
        found = decoded(raws, decode_pod, self._not_readable)
        # A job of another kind may have the same name, and so the same labels.
        own = [in_set(pod, job.shape) for pod in found if pod.owner and pod.owner.uid == job.uid]
        return tuple(sorted(own, key=lambda pod: pod.name))

    def _events(self, namespace: str, uids: set[str]) -> tuple[EventFacts, ...]:
        path = path_of("", "v1", "events", namespace)
        raws = read_list(self._client, f"list the Events of namespace {namespace}", path, [])
        events = decoded(raws, decode_event, self._not_readable)
        own = (event for event in events if event.about_uid in uids)
        return tuple(sorted(own, key=lambda each: each.last_at))

    def _profile(self, job: TrainingJob) -> ProfileStatus | None:
        path = f"{path_of(GROUP, VERSION, PROFILES, job.namespace)}/{job.name}"
        try:
            body = self._client.get(f"read TrainingProfile {job.key}", path)
        except KubeError as error:
            if error.kind is ErrorKind.NOT_FOUND:
                return None  # a job without a goal has none
            raise
        profile = decode_profile(body)
        return profile.status if profile.job.uid == job.uid else None
