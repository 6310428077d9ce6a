"""Events on jobs that wait, are bound in part or are placed: one for each cause, and again after
half an hour.

They are written by a thread of their own, some at a time, so that many waiting jobs delay neither
requeues nor other writes. The text has figures, which change all the time: a new Event is
written when the cause changes, not when a figure does. An Event is kept for an hour, so that one
that still holds is written again, with the figures of then.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from optimus.kube.events import EventType
from optimus.kube.results import Refused

_LOG = logging.getLogger(__name__)

LOOK_SECONDS: Final = 5.0
"""Seconds between two looks for what there is to report."""

LEAST_SECONDS: Final = 30.0
"""Between two Events on one job for one reason, however often the cause changes."""

REPEAT_SECONDS: Final = 1800.0

MOST_AT_ONCE: Final = 10
"""Maximum number of Events written each time; the others follow the next time."""

_FORGOTTEN_SECONDS: Final = 120.0
"""How long after nothing was found about a job it counts as new: between two plans it is on no list
for a moment."""


@dataclass(frozen=True, slots=True)
class JobNotice:
    """Something to report to the user of a job."""

    kind: str
    namespace: str
    name: str
    uid: str
    type: EventType
    reason: str
    """CamelCase."""

    message: str
    cause: Hashable
    """What has to change for another Event."""

    after_seconds: float
    """How long it has to hold before it is reported."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    """The message as values."""

    gang: str = ""
    """The UID of the gang, where it is about one: a JobSet may have several."""

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what it is about, and why: a later one of the same key replaces it."""
        return self.uid, self.gang, self.reason


EmitEvent: TypeAlias = Callable[[JobNotice, EventType, str, str, Mapping[str, str]], object]
"""Writes an Event: ``optimus.kube.events.EventWriter.emit``."""


@dataclass(slots=True)
class _Reported:
    since: float
    seen_at: float
    reported_cause: Hashable = None
    reported_at: float = float("-inf")


class EventReporter:
    """The Events written for users of jobs. ``look`` is called by one thread."""

    def __init__(
        self,
        find: Callable[[], Iterable[JobNotice]],
        emit: EmitEvent,
        executor: Executor | None = None,
    ) -> None:
        """``executor`` finds and writes; without one ``look`` does."""
        self._find, self._emit, self._executor = find, emit, executor
        self._known: dict[tuple[str, str, str], _Reported] = {}
        self._look_at = float("-inf")
        self._busy = threading.Lock()

    def look(self, now: float) -> None:
        """Report what is new; ``now`` is monotonic, in seconds."""
        if now < self._look_at or not self._busy.acquire(blocking=False):
            return
        self._look_at = now + LOOK_SECONDS
        if self._executor is None:
            self._look(now)
        else:
            self._executor.submit(self._look, now)

    def _look(self, now: float) -> None:
        try:
            notices = tuple(self._find())
            due = [each for each in notices if self._is_due(each, now)]
            for each in _in_turn(due)[:MOST_AT_ONCE]:
                self._write(each, now)
            oldest = now - _FORGOTTEN_SECONDS
            self._known = {key: each for key, each in self._known.items() if each.seen_at > oldest}
        except Exception:  # noqa: BLE001 - nobody reads an executor's results; the next look starts over
            _LOG.exception("Events on waiting jobs failed")
        finally:
            self._busy.release()

    def _is_due(self, notice: JobNotice, now: float) -> bool:
        known = self._known.setdefault(notice.key, _Reported(now, now))
        known.seen_at = now
        if now - known.since < notice.after_seconds:
            return False
        wait = LEAST_SECONDS if known.reported_cause != notice.cause else REPEAT_SECONDS
        return now - known.reported_at >= wait

    def _write(self, notice: JobNotice, now: float) -> None:
        outcome = self._emit(notice, notice.type, notice.reason, notice.message, notice.annotations)
        if isinstance(outcome, Refused):
            _LOG.warning("job %s/%s: no Event: %s", notice.namespace, notice.name, outcome)
            return
        known = self._known[notice.key]
        known.reported_cause, known.reported_at = notice.cause, now


def _in_turn(notices: Iterable[JobNotice]) -> list[JobNotice]:
    """One of each namespace, then the second of each: many jobs of one keep no other waiting."""
    seen: Counter[str] = Counter()
    turns: list[tuple[int, JobNotice]] = []
    for each in notices:
        turns.append((seen[each.namespace], each))
        seen[each.namespace] += 1
    return [each for _, each in sorted(turns, key=lambda turn: turn[0])]
