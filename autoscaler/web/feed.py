"""Between the loop and the page: takes the loop's copies, and answers what has changed since.

``publish`` is all that the loop calls; it makes the copy and stores it. A thread of the page's own
keeps the history and the rows, under a lock that only it and the requests take. Each row has the
version at which it last changed, so that a browser that was away gets what it has missed, and no
more.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Self

import msgspec

from autoscaler.cluster import Observation
from autoscaler.jobs.state import TrackedJob
from autoscaler.web.copies import ClusterCopy, JobCopy, copy_of
from autoscaler.web.history import History, JobTimeline, Use
from autoscaler.web.rows import row_of

_LOG = logging.getLogger(__name__)
_MOST_GONE: Final = 2_000
_WATCHED_SECONDS: Final = 60.0
"""Without a request for longer, rows are not kept up to date."""


class Update(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A change of the page. ``version`` is to be asked from next; ``reset``: all rows are here."""

    version: str
    reset: bool
    at: float
    leads: bool
    leader: str
    silent_seconds: float
    """For how long the API server has been silent; 0 within the limit."""
    rows: list[msgspec.Raw]
    gone: list[str]
    cluster: tuple[Use, ...]


@dataclass(slots=True)
class _ShownRow:
    version: int
    made_of: tuple[object, ...]
    row: msgspec.Raw


class PageFeed:
    """The latest copy, its rows and its history. A ``with`` block keeps them up to date."""

    def __init__(
        self,
        leader: Callable[[], str] = lambda: "",
        timer: Callable[[], float] = time.monotonic,
        silent_limit_seconds: float = 120.0,
        hold_seconds: float = 600.0,
    ) -> None:
        """``silent_limit_seconds``: a cache without news for longer is out of date.
        On a quiet cluster the API server sends something about each kind once a minute.
        ``hold_seconds`` as in ``DecisionConfig``."""
        self._leader, self._timer = leader, timer
        self._silent_limit_seconds, self._hold_seconds = silent_limit_seconds, hold_seconds
        self._latest: ClusterCopy | None = None
        self._arrived = threading.Event()
        self._changed = threading.Condition()
        self._noted: ClusterCopy | None = None
        self._rowed: ClusterCopy | None = None
        self._history = History()
        self._rows: dict[str, _ShownRow] = {}
        self._gone: deque[tuple[int, str]] = deque(maxlen=_MOST_GONE)
        self._version = 0
        self._epoch = f"{time.time_ns():x}"
        """Versions of another process mean nothing to this one."""
        self._asked_at = float("-inf")
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="page-feed", daemon=True)

    # --- the loop's side

    def publish(self, managed: Iterable[TrackedJob], observation: Observation, at: float) -> None:
        """Take a copy of what the leading instance knows; never waits."""
        self.take(copy_of(managed, observation, at, self._hold_seconds))

    def take(self, copy: ClusterCopy) -> None:
        """Take the next copy; never waits."""
        self._latest = copy
        self._arrived.set()

    @property
    def is_watched(self) -> bool:
        """Return whether somebody looks at the page."""
        return self._timer() - self._asked_at < _WATCHED_SECONDS

    # --- the page's side

    @property
    def is_closed(self) -> bool:
        """Return whether the process ends."""
        return self._closed

    @property
    def copy(self) -> ClusterCopy | None:
        """The latest copy; ``None`` before the first."""
        return self._latest

    def timeline(self, uid: str) -> JobTimeline:
        """A job's last events; empty where none is known."""
        with self._changed:
            self._note()
            found = self._history.timelines.get(uid)
            if found is None:
                return JobTimeline()
            return JobTimeline(found.counts.copy(), found.rescales.copy(), found.decisions.copy())

    def update(self, since: str = "") -> Update | None:
        """Return what has changed since a version; all of it without one. ``None`` before the first
        copy."""
        with self._changed:
            self._asked_at = self._timer()
            self._refresh()
            return self._update(since)

    def wait(self, since: str, timeout_seconds: float) -> Update | None:
        """The next update after a version; ``None`` where nothing changes in time."""
        with self._changed:
            self._asked_at = self._timer()
            self._changed.wait_for(
                lambda: self._closed or self._name != since, timeout=timeout_seconds
            )
            self._asked_at = self._timer()
            return None if self._closed or self._name == since else self._update(since)

    @property
    def _name(self) -> str:
        return f"{self._epoch}-{self._version}"

    def _update(self, since: str) -> Update | None:
        copy = self._rowed
        if copy is None:
            return None
        epoch, _, number = since.partition("-")
        seen = int(number) if epoch == self._epoch and number.isdecimal() else 0
        oldest_gone = self._gone[0][0] if len(self._gone) == _MOST_GONE else 0
        reset = seen == 0 or seen < oldest_gone
        seen = 0 if reset else seen
        silent = round(copy.observation.silent_seconds, 1)
        return Update(
            version=self._name,
            reset=reset,
            at=copy.at,
            leads=copy.leads,
            leader=self._leader(),
            silent_seconds=silent if silent > self._silent_limit_seconds else 0.0,
            rows=[row.row for row in self._rows.values() if row.version > seen],
            gone=[] if reset else [uid for version, uid in self._gone if version > seen],
            cluster=self._history.present,
        )

    # --- the thread

    def _run(self) -> None:
        while not self._closed:
            self._arrived.wait()
            self._arrived.clear()
            try:
                with self._changed:
                    self._note()
                    if self.is_watched:
                        self._refresh()
                    self._changed.notify_all()
            except Exception:  # noqa: BLE001 - a fault of the page stays the page's
                _LOG.exception("the page was not brought up to date")

    def _note(self) -> None:
        copy = self._latest
        if copy is not None and copy is not self._noted:
            self._noted = copy
            self._history.note(copy)

    def _refresh(self) -> None:
        """Bring the rows up to the latest copy. One that fails keeps what it showed."""
        self._note()
        copy = self._noted
        if copy is None or copy is self._rowed:
            return
        self._version += 1
        self._rowed = copy
        for uid in self._rows.keys() - copy.jobs.keys():
            del self._rows[uid]
            self._gone.append((self._version, uid))
        for uid, job in copy.jobs.items():
            entry, made_of = self._rows.get(uid), _made_of(job)
            if entry is not None and all(
                now is then for now, then in zip(made_of, entry.made_of, strict=True)
            ):
                continue
            row = _encoded(job)
            if row is not None and (entry is None or row != entry.row):
                self._rows[uid] = _ShownRow(self._version, made_of, row)
            elif entry is not None:
                entry.made_of = made_of

    def close(self) -> None:
        """End the thread and every wait."""
        self._closed = True
        self._arrived.set()
        with self._changed:
            self._changed.notify_all()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._thread.join(timeout=5)


def _made_of(job: JobCopy) -> tuple[object, ...]:
    """All that a row is made of: other values are other objects."""
    texts = job.outcome, job.message, job.failure
    return job.status, job.forecast, job.decided_at, job.wait, job.job, *texts


def _encoded(job: JobCopy) -> msgspec.Raw | None:
    try:
        return msgspec.Raw(msgspec.json.encode(row_of(job)))
    except Exception:  # noqa: BLE001 - one job that cannot be shown hides no other
        _LOG.exception("job %s cannot be shown on the page", job.key)
        return None
