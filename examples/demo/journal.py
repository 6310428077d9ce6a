"""The demo's data without I/O: rows of the table, a journal of events, a history of each job."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from optimus.jobs import Counts
from optimus.kube.contract import RESCALING, Phase
from optimus.kube.profiles import BooksStatus, ProfileStatus

UNTOUCHED_MARK: Final = "*"
"""Behind the name of the same job untouched."""


@dataclass(frozen=True, slots=True)
class Row:
    """One job as the table shows it."""

    name: str
    """With the mark where it is untouched."""
    kind: str
    status: ProfileStatus
    counts: Counts
    placement: str
    outcome: str = ""
    """How it has ended, by its own conditions."""

    @property
    def is_untouched(self) -> bool:
        """Whether it stays at the counts that it was submitted with."""
        return self.name.endswith(UNTOUCHED_MARK)


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened; ``at`` is in seconds since the demo's first job was submitted."""

    at: float
    job: str
    text: str


@dataclass(slots=True)
class JobHistory:
    """What is remembered of one job, for the summary. Instants as in ``Entry``."""

    submitted_at: float
    rescales: list[Entry] = field(default_factory=list)
    books: BooksStatus | None = None
    """What moving it has saved and lost, as it keeps account of it."""
    reached_at: float | None = None
    rescale_id: str | None = None
    interval_id: str = ""
    placement: str = ""


class Journal:
    """Notes what is new in the rows that it is shown, each thing once."""

    def __init__(self) -> None:
        self.histories: dict[str, JobHistory] = {}
        self.entries: list[Entry] = []

    def submitted(self, name: str, at: float) -> None:
        """Note that a job was submitted, and the same one untouched."""
        self._note(at, name, "submitted, and the same job untouched")
        for each in (name, f"{name}{UNTOUCHED_MARK}"):
            self.histories[each] = JobHistory(at)

    def follow(self, rows: Iterable[Row], at: float) -> None:
        """Note what is new in these rows of submitted jobs."""
        for row in rows:
            history = self.histories[row.name]
            if not row.is_untouched:
                self._follow_rescale(row, history, at)
                self._follow_decision(row, history, at)
                self._follow_placement(row, history, at)
            history.books = row.status.books or history.books
            self._follow_goal(row, history, at)

    def _follow_rescale(self, row: Row, history: JobHistory, at: float) -> None:
        rescale = row.status.rescale
        if (
            rescale is not None
            and rescale.id != history.rescale_id
            and row.status.phase in RESCALING
        ):
            history.rescale_id = rescale.id
            target = "suspended" if rescale.target == (0, 0) else str(rescale.target)
            history.rescales.append(
                Entry(at, row.name, f"{rescale.origin} -> {target}: {rescale.why}")
            )
            self._note(at, row.name, history.rescales[-1].text)

    def _follow_decision(self, row: Row, history: JobHistory, at: float) -> None:
        status = row.status
        if status.rescale is not None:
            history.interval_id = status.interval_id  # a continued rescale is no news
        elif status.interval_id != history.interval_id and status.phase is Phase.TRAINING:
            history.interval_id = status.interval_id
            self._note(at, row.name, f"stays at {row.counts}: {status.reason}")

    def _follow_placement(self, row: Row, history: JobHistory, at: float) -> None:
        if row.placement and row.placement != history.placement:
            history.placement = row.placement
            self._note(at, row.name, f"placed on {row.placement}")

    def _follow_goal(self, row: Row, history: JobHistory, at: float) -> None:
        if history.reached_at is None and reached(row):
            history.reached_at = at
            seconds = at - history.submitted_at
            self._note(
                at,
                row.name,
                f"reached its goal after {seconds:.0f} s",
            )

    def _note(self, at: float, job: str, text: str) -> None:
        last = next((entry.text for entry in reversed(self.entries) if entry.job == job), None)
        if text != last:
            self.entries.append(Entry(at, job, text))


def reached(row: Row) -> bool:
    """Whether a job has met its goal and ended by itself."""
    return row.outcome == "Succeeded"
