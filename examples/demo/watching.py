"""What the demo sees of its jobs, all of it from the API server: rows of the table, and by them the
journal."""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from examples.demo.journal import UNTOUCHED_MARK, Entry, JobHistory, Journal, Row
from examples.demo.scenario import UNTOUCHED
from optimus.jobs import Counts, Role
from optimus.kube.client import connect
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.job_kinds import JOB_KINDS
from optimus.kube.pods import watched_pods
from optimus.kube.profiles import ProfileStatus, watched_profiles
from optimus.kube.reflector import Reflector
from optimus.kube.training_jobs import watched_training_jobs


class JobWatcher:
    """Follows the jobs through copies that are kept fresh; ``look`` is to be called about once a
    second."""

    def __init__(self, kubeconfig: Path) -> None:
        client = connect(kubeconfig, user_agent="optimus-demo")
        self._profiles = Reflector(client, watched_profiles())
        self._pods = Reflector(client, watched_pods("training.kubeflow.org/job-name"))
        self._jobs = [
            Reflector(client, watched_training_jobs(kind, EligibilityConfig()))
            for kind in JOB_KINDS
        ]
        self._began = time.monotonic()
        self._journal = Journal()

    @property
    def _caches(self) -> Sequence[Reflector[Any]]:
        return (self._profiles, self._pods, *self._jobs)

    def __enter__(self) -> Self:
        for cache in self._caches:
            cache.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for cache in self._caches:
            cache.stop()

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since the demo's beginning."""
        return time.monotonic() - self._began

    @property
    def histories(self) -> Mapping[str, JobHistory]:
        """What is remembered of each submitted job, by its name."""
        return self._journal.histories

    @property
    def journal(self) -> Sequence[Entry]:
        """What has happened so far."""
        return self._journal.entries

    def submitted(self, name: str) -> None:
        """Note that a job was submitted just now."""
        self._journal.submitted(name, self.elapsed_seconds)

    def look(self) -> list[Row]:
        """The table's rows of now; what is new goes to the journal."""
        rows = sorted(self._rows(), key=lambda row: list(self.histories).index(row.name))
        self._journal.follow(rows, self.elapsed_seconds)
        return rows

    def _rows(self) -> Iterator[Row]:
        statuses = {profile.job.uid: profile.status for profile in self._profiles.items()}
        for cache in self._jobs:
            for seen in cache.items():
                name = f"{seen.name}{UNTOUCHED_MARK if seen.namespace == UNTOUCHED else ''}"
                if name in self.histories and seen.job is not None:
                    status = statuses.get(seen.uid, ProfileStatus())
                    yield Row(
                        name,
                        seen.kind,
                        status,
                        seen.job.counts,
                        self._placement(seen.uid, seen.job.counts),
                        seen.outcome or "",
                    )

    def _placement(self, uid: str, counts: Counts) -> str:
        """Such as ``n1: 2 + 3, n2: 2 + 2``; empty while not every PS and worker has a node."""
        placed: dict[str, list[Role]] = {}
        for pod in self._pods.items():
            if (
                pod.replica is not None
                and pod.replica.job_uid == uid
                and pod.node is not None
                and not pod.leaving
            ):
                placed.setdefault(pod.node, []).append(pod.replica.role)
        by_node = {
            node: Counts(roles.count(Role.PS), roles.count(Role.WORKER))
            for node, roles in placed.items()
        }
        if (
            sum(each.ps for each in by_node.values()),
            sum(each.workers for each in by_node.values()),
        ) != counts:
            return ""
        return ", ".join(
            f"{node}: {by_node[node].ps} + {by_node[node].workers}"
            for node in sorted(by_node)
            if by_node[node] != (0, 0)
        )
