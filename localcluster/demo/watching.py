"""What the demo sees of its jobs: rows of the table, and a journal of what happened, all of it from the API server."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kube import kinds
from kube.caches import Reflector
from kube.client import connect
from kube.contract import RESCALING, Phase
from kube.left_alone import JobRules
from kube.profiles import ProfileStatus
from scheduling.jobs import Counts, Role


@dataclass(frozen=True, slots=True)
class Row:
    """One job as the table shows it."""

    name: str
    kind: str
    status: ProfileStatus
    counts: Counts
    placement: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened; ``at`` is in seconds since the demo's first job was submitted."""

    at: float
    job: str
    text: str


@dataclass(slots=True)
class Story:
    """What is remembered of one job, for the summary. Instants as in ``Entry``."""

    submitted_at: float
    rescales: list[Entry] = field(default_factory=list)
    first_forecast: tuple[float, int] | None = None
    reached_at: float | None = None
    rescale_id: str | None = None
    interval_id: str = ""
    placement: str = ""


class Watching:
    """Follows the jobs through copies that are kept fresh; ``look`` is to be called about once a second."""

    def __init__(self, kubeconfig: Path) -> None:
        client = connect(kubeconfig, user_agent="optimus-demo")
        self._profiles = Reflector(client, kinds.profiles())
        self._pods = Reflector(client, kinds.pods("training.kubeflow.org/job-name"))
        self._jobs = [Reflector(client, kinds.training_jobs(kind, JobRules())) for kind in ("TFJob", "MXJob")]
        self._began = time.monotonic()
        self.stories: dict[str, Story] = {}
        self.journal: list[Entry] = []

    @property
    def _caches(self) -> Sequence[Reflector[Any]]:
        return (self._profiles, self._pods, *self._jobs)

    def __enter__(self) -> Self:
        for cache in self._caches:
            cache.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for cache in self._caches:
            cache.stop()

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since the demo's beginning."""
        return time.monotonic() - self._began

    def submitted(self, name: str) -> None:
        """Note that a job was submitted just now."""
        self.stories[name] = Story(self.elapsed_seconds)
        self._note(name, "submitted")

    def look(self) -> list[Row]:
        """The table's rows of now; what is new goes to the journal."""
        rows = sorted(self._rows(), key=lambda row: list(self.stories).index(row.name))
        for row in rows:
            self._follow(row)
        return rows

    def _rows(self) -> Iterator[Row]:
        statuses = {profile.name: profile.status for profile in self._profiles.items()}
        for cache in self._jobs:
            for seen in cache.items():
                if seen.name in self.stories and seen.job is not None:
                    status = statuses.get(seen.name, ProfileStatus())
                    yield Row(seen.name, seen.kind, status, seen.job.counts, self._placement(seen.uid, seen.job.counts))

    def _placement(self, uid: str, counts: Counts) -> str:
        """Such as ``n1: 2 + 3, n2: 2 + 2``; empty while not every PS and worker has a node."""
        placed: dict[str, list[Role]] = {}
        for pod in self._pods.items():
            if pod.replica is not None and pod.replica.job_uid == uid and pod.node is not None and not pod.leaving:
                placed.setdefault(pod.node, []).append(pod.replica.role)
        by_node = {node: Counts(roles.count(Role.PS), roles.count(Role.WORKER)) for node, roles in placed.items()}
        if (sum(each.ps for each in by_node.values()), sum(each.workers for each in by_node.values())) != counts:
            return ""
        return ", ".join(
            f"{node}: {by_node[node].ps} + {by_node[node].workers}"
            for node in sorted(by_node)
            if by_node[node] != (0, 0)
        )

    def _follow(self, row: Row) -> None:
        story, status = self.stories[row.name], row.status
        rescale = status.rescale
        if rescale is not None and rescale.id != story.rescale_id and status.phase in RESCALING:
            story.rescale_id = rescale.id
            target = "suspended" if rescale.target == (0, 0) else str(rescale.target)
            story.rescales.append(Entry(self.elapsed_seconds, row.name, f"{rescale.origin} -> {target}: {rescale.why}"))
            self._note(row.name, story.rescales[-1].text)
        if rescale is None and status.interval_id != story.interval_id and status.phase is Phase.TRAINING:
            story.interval_id = status.interval_id
            self._note(row.name, f"stays at {row.counts}: {status.reason}")
        if row.placement and row.placement != story.placement:
            story.placement = row.placement
            self._note(row.name, f"placed on {row.placement}")
        if status.remaining_seconds and story.first_forecast is None:
            story.first_forecast = (self.elapsed_seconds, status.remaining_seconds)
        if story.reached_at is None and reached(row):
            story.reached_at = self.elapsed_seconds
            self._note(
                row.name, f"reached its goal ({status.goal}) after {story.reached_at - story.submitted_at:.0f} s"
            )

    def _note(self, job: str, text: str) -> None:
        last = next((entry.text for entry in reversed(self.journal) if entry.job == job), None)
        if text != last:
            self.journal.append(Entry(self.elapsed_seconds, job, text))


def reached(row: Row) -> bool:
    """Whether a job has met its goal, whatever became of it then."""
    done = {Phase.AT_TARGET, Phase.SUSPENDED, Phase.COMPLETED}
    return row.status.phase in done or row.status.progress_percent == 100
