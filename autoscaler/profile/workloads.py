"""Keeps what the jobs of a workload have shown in its WorkloadProfile, for later jobs.

A run is written three times at most: when the job's own speeds are enough for a model, when its
goal is met, and when it has ended. What cannot be written waits in memory, is tried again each
minute, and is said once: a missing CRD or right costs the jobs this feature and nothing else.
"""

import dataclasses
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Final, Protocol

from autoscaler.jobs.state import TrackedJob
from autoscaler.metrics import Metrics
from optimus.jobs import alternating
from optimus.kube.contract import WORKLOAD_PROFILE_KIND
from optimus.kube.errors import ErrorKind
from optimus.kube.results import Refused, Written
from optimus.kube.workload_profiles import WorkloadProfile, WorkloadStatus, status_of
from optimus.lifecycle.workloads import Shared, is_default, speeds_are_enough
from optimus.models.earlier_runs import MOST_RUNS, kept, run_of
from optimus.models.forecast import Forecast
from optimus.progress.types import EarlierRun

_LOG = logging.getLogger(__name__)
_RETRY_SECONDS: Final = 60.0
_MOST_WAITING_OF_NAMESPACE: Final = 100
_MOST_NAMES: Final = 100
"""Profiles in one namespace: a name for each job would fill memory and API server for 30 days."""

_MOST_EXPIRED: Final = 10
"""Deleted in a minute, and so many fewer than the most are left of the names of a namespace."""

_TRANSIENT: Final = frozenset(
    {
        ErrorKind.CONFLICT,
        ErrorKind.EXISTS,
        ErrorKind.THROTTLED,
        ErrorKind.TRANSIENT,
        ErrorKind.NOT_LEADING,
    }
)
"""Refusals that end by themselves; after any other what was to be written is dropped."""


class Workloads(Protocol):
    """Writes profiles of workloads; ``optimus.kube.workload_profiles.WorkloadProfileWriter`` is
    one."""

    def stored(self, namespace: str, name: str) -> WorkloadProfile | Refused:
        """The profile as it is stored now, created if absent."""

    def write(self, profile: WorkloadProfile, status: WorkloadStatus) -> Written | Refused:
        """Replace the status; CONFLICT where the profile has changed since it was read."""

    def delete(self, profile: WorkloadProfile) -> Written | Refused:
        """Delete this very version of a profile."""


class WorkloadRecorder:
    """Notes runs and writes them; ``timer`` times the back-off after a refusal."""

    def __init__(
        self,
        workloads: Workloads,
        metrics: Metrics,
        *,
        instance: str = "",
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workloads, self._metrics, self._instance = workloads, metrics, instance
        self._timer = timer
        self.waiting: dict[tuple[str, str], dict[str, EarlierRun]] = {}
        """The runs that are to be written by UID, by namespace and workload."""
        self._full: dict[str, frozenset[str]] = {}
        """The names of the namespaces that have as many as they may have."""
        self._retry_at = self._expire_at = 0.0
        self._said = ""

    def note(self, state: TrackedJob, now: float) -> None:
        """Take in a job's run where it has shown something new that others can use."""
        workload, reached = state.job.workload, _reached(state)
        if workload is None or reached <= state.record.shared:
            return
        state.record = dataclasses.replace(state.record, shared=int(reached))
        outcome = state.training_job.outcome
        succeeded = outcome == "Succeeded" or (outcome is None and reached >= Shared.GOAL)
        run = run_of(
            state.job,
            state.log.progress(now),
            now,
            succeeded=succeeded,
            differed=bool(state.record.differs),
            most_memory=state.most_memory,
        )
        if not run.samples and not run.losses:
            return  # as of a job that failed at once
        key = state.job.key.namespace, workload
        if self._may_wait(*key):
            runs = self.waiting.setdefault(key, {})
            runs[run.uid] = run
            if len(runs) > MOST_RUNS:
                del runs[next(iter(runs))]

    def _may_wait(self, namespace: str, workload: str) -> bool:
        """Return whether there is room for one more run, and for its workload's name."""
        if (namespace, workload) in self.waiting:
            return True
        of_namespace = sum(name == namespace for name, _ in self.waiting)
        is_known = workload in self._full.get(namespace, (workload,))
        return is_known and of_namespace < _MOST_WAITING_OF_NAMESPACE

    def expire(self, profiles: Iterable[WorkloadProfile], now: float) -> None:
        """Delete profiles to which nothing was added for 30 days, or for longest where a namespace
        has too many, a few of them in a minute."""
        if self._timer() < self._expire_at:
            return
        self._expire_at = self._timer() + _RETRY_SECONDS
        expired = list[WorkloadProfile]()
        of_namespace = defaultdict[str, list[WorkloadProfile]](list)
        for each in profiles:
            of_namespace[each.namespace].append(each)
        self._full = {
            namespace: frozenset(each.name for each in found)
            for namespace, found in of_namespace.items()
            if len(found) >= _MOST_NAMES
        }
        for found in of_namespace.values():
            # First those that no user has named: of most of these no second job comes.
            found.sort(key=lambda each: (not is_default(each.name), each.newest_at))
            beyond = len(found) - (_MOST_NAMES - _MOST_EXPIRED)
            expired += [
                each
                for place, each in enumerate(found)
                if each.has_expired(now) or (len(found) >= _MOST_NAMES and place < beyond)
            ]
        for profile in alternating(expired, attrgetter("namespace"))[:_MOST_EXPIRED]:
            outcome = self._workloads.delete(profile)
            if isinstance(outcome, Refused):
                self._metrics.refusals.labels(outcome.kind.value).inc()
                _LOG.warning("%s", outcome)
                return
            form = "workload %s/%s: nothing was added to its profile for long: deleted"
            _LOG.info(form, profile.namespace, profile.name)

    def write(self, now: float, timeout_seconds: float) -> None:
        """Write what was noted, for at most about so long."""
        if self._timer() < self._retry_at:
            return
        began = self._timer()
        for key, waiting in alternating(list(self.waiting.items()), lambda each: each[0][0]):
            outcome = self._write(*key, waiting, now)
            if isinstance(outcome, Written):
                del self.waiting[key]
                self._said = ""
            else:
                self._refused(key, outcome)
            if self._timer() - began > timeout_seconds:
                return

    def _write(
        self, namespace: str, name: str, waiting: Mapping[str, EarlierRun], now: float
    ) -> Written | Refused:
        for _ in range(2):  # again where another has written since it was read
            profile = self._workloads.stored(namespace, name)
            if isinstance(profile, Refused):
                return profile
            runs = profile.runs
            for run in waiting.values():
                runs = kept(runs, run, now)
            outcome = self._workloads.write(profile, status_of(runs, self._instance))
            if isinstance(outcome, Written) or outcome.kind is not ErrorKind.CONFLICT:
                return outcome
        return outcome

    def _refused(self, key: tuple[str, str], outcome: Refused) -> None:
        self._retry_at = self._timer() + _RETRY_SECONDS
        self._metrics.refusals.labels(outcome.kind.value).inc()
        if self._said != outcome.kind.value:
            self._said = outcome.kind.value
            _LOG.warning(
                "what jobs of workload %s/%s have shown is not kept for later ones for now: %s "
                "(is the CRD of %s installed, and may this process write it?)",
                *key,
                outcome,
                WORKLOAD_PROFILE_KIND,
            )
        if outcome.kind not in _TRANSIENT:
            del self.waiting[key]


def _reached(state: TrackedJob) -> Shared:
    if state.training_job.outcome is not None:
        return Shared.END
    if isinstance(state.forecasts.current, Forecast) and state.forecasts.current.goal_met:
        return Shared.GOAL
    record = state.record
    # A difference is written at once; else the rest of the profiling runs is waited for.
    is_moved = state.rescale is not None or record.profiling_since is not None
    waits = is_moved and not record.differs
    if record.shared >= Shared.SPEEDS or waits or len(state.log.measured_counts()) < 2:
        return Shared(record.shared)
    is_enough = speeds_are_enough(state.job, state.log.progress(0.0))
    return Shared.SPEEDS if is_enough else Shared.NOTHING
