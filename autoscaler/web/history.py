"""Keeps what the page shows over time, within limits: each job's timeline; and the cluster's use.

Kept by the page's own thread from one copy to the next. Nothing of it is stored: a process that is
started again begins anew.
"""

import logging
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from autoscaler.cluster import Observation
from autoscaler.web.copies import ClusterCopy, JobCopy
from optimus.jobs import NO_COUNTS, Counts
from optimus.rescale.words import Step
from optimus.resources import CPU, MEMORY, PODS

_LOG = logging.getLogger(__name__)
_MOST_COUNTS: Final = 120
_MOST_RESCALES: Final = 24
_MOST_DECISIONS: Final = 32
_MOST_RESOURCES: Final = 4
_LONGEST_TEXT: Final = 400


class Use(msgspec.Struct, frozen=True, rename="camel"):
    """One resource of the cluster, in its own unit."""

    resource: str
    allocatable: int
    requested: int


class CountsPoint(msgspec.Struct, frozen=True):
    """A job's counts and phase since ``at``."""

    at: float
    ps: int
    workers: int
    phase: str


class RescaleEntry(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One rescale; ``ended_at`` is ``None`` while it is in progress."""

    id: str
    began_at: float
    ended_at: float | None = None
    from_ps: int
    from_workers: int
    to_ps: int
    to_workers: int
    purpose: str
    why: str
    step: str = ""
    outcome: str = ""
    price_seconds: float | None = None


class DecisionEntry(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A decision that differs from the one before it; ``last_at``: when it was last repeated."""

    at: float
    last_at: float
    action: str
    from_ps: int
    from_workers: int
    ps: int
    workers: int
    reason: str
    times: int = 1


@dataclass(slots=True)
class JobTimeline:
    """One job's last events, oldest first."""

    counts: deque[CountsPoint] = field(default_factory=lambda: deque(maxlen=_MOST_COUNTS))
    rescales: deque[RescaleEntry] = field(default_factory=lambda: deque(maxlen=_MOST_RESCALES))
    decisions: deque[DecisionEntry] = field(default_factory=lambda: deque(maxlen=_MOST_DECISIONS))
    last: JobCopy | None = None

    def note(self, job: JobCopy, at: float) -> None:
        """Take in the job as it is now."""
        before, self.last = self.last, job
        if before is None or before.status is not job.status:
            self._note_counts(job, at)
        if before is None or before.rescale != job.rescale:
            self._note_rescale(before, job, at)
        if job.decision is not None and (before is None or before.decision is not job.decision):
            self._note_decision(job, at)

    def _note_counts(self, job: JobCopy, at: float) -> None:
        status = job.status
        if status.ps is None or status.workers is None:
            return
        now = status.ps, status.workers, str(status.phase or "")
        last = self.counts[-1] if self.counts else None
        if last is None or (last.ps, last.workers, last.phase) != now:
            self.counts.append(CountsPoint(round(at, 1), *now))

    def _note_rescale(self, before: JobCopy | None, job: JobCopy, at: float) -> None:
        record, last = job.rescale, self.rescales[-1] if self.rescales else None
        ended = before is not None and before.rescale is not None
        if ended and last is not None and (record is None or record.id != last.id):
            self.rescales[-1] = _ended(last, before, job, at)
            last = None
        if record is None:
            return
        target = record.target
        entry = RescaleEntry(
            id=record.id,
            began_at=record.started_at,
            from_ps=record.before.ps,
            from_workers=record.before.workers,
            to_ps=target.ps,
            to_workers=target.workers,
            purpose=record.purpose,
            why=record.why[:_LONGEST_TEXT],
            step=record.step_text,
        )
        if last is not None and last.id == record.id:
            self.rescales[-1] = entry
        else:
            self.rescales.append(entry)

    def _note_decision(self, job: JobCopy, at: float) -> None:
        decision = job.decision
        assert decision is not None
        decided_at = at if job.decided_at is None else job.decided_at
        last = self.decisions[-1] if self.decisions else None
        entry = DecisionEntry(
            at=decided_at,
            last_at=decided_at,
            action=decision.action.value,
            from_ps=decision.current.ps,
            from_workers=decision.current.workers,
            ps=decision.counts.ps,
            workers=decision.counts.workers,
            reason=decision.reason[:_LONGEST_TEXT],
        )
        if last is not None and _what(last) == _what(entry):
            entry = msgspec.structs.replace(entry, at=last.at, times=last.times + 1)
            self.decisions.pop()
        self.decisions.append(entry)


def _what(entry: DecisionEntry) -> tuple[object, ...]:
    return entry.action, entry.ps, entry.workers, entry.from_ps, entry.from_workers, entry.reason


def _ended(entry: RescaleEntry, before: JobCopy | None, job: JobCopy, at: float) -> RescaleEntry:
    """Return how it ended, by what the job has become and by what was recorded of its price."""
    target = Counts(entry.to_ps, entry.to_workers)
    record = None if before is None else before.rescale
    now = None if job.job is None else job.job.counts
    if record is not None and record.step is Step.CHECKPOINT and now != target:
        outcome = "withdrawn"  # it was not stopped for it, and nothing counts it
    elif target == NO_COUNTS:
        outcome = "suspended"
    elif now == target:
        outcome = "reached"
    else:
        outcome = "rolled back" if now == Counts(entry.from_ps, entry.from_workers) else "ended"
    known = None if before is None or before.record is None else before.record.prices
    prices = None if job.record is None else job.record.prices
    price = prices[-1] if prices and prices is not known else None
    return msgspec.structs.replace(
        entry, ended_at=at, outcome=outcome, price_seconds=None if price is None else round(price)
    )


class History:
    """The cluster's use, and the timeline of each job that there is."""

    def __init__(self) -> None:
        self.present: tuple[Use, ...] = ()
        self.timelines: dict[str, JobTimeline] = {}
        self._counted: tuple[object, object] = (None, None)

    def note(self, copy: ClusterCopy) -> None:
        """Take in the next copy."""
        seen = copy.observation.snapshot
        counted = seen.pods, seen.nodes
        # The same objects until a pod or a node changes.
        if any(now is not then for now, then in zip(counted, self._counted, strict=True)):
            self.present, self._counted = use_of(copy.observation), counted
        for uid in self.timelines.keys() - copy.jobs.keys():
            del self.timelines[uid]
        for uid, job in copy.jobs.items():
            timeline = self.timelines.get(uid)
            if timeline is None:
                timeline = self.timelines[uid] = JobTimeline()
            try:
                timeline.note(job, copy.at)
            except Exception:  # noqa: BLE001 - one job that cannot be followed stops no other
                _LOG.exception("the timeline of job %s is not kept up", job.key)


def use_of(observation: Observation) -> tuple[Use, ...]:
    """Return what the pods request: CPU, memory, then what else nodes offer."""
    nodes = observation.snapshot.nodes
    there = _sums(node.allocatable for node in nodes)
    names = {node.name for node in nodes}
    pods = observation.snapshot.pods
    requested = _sums(pod.resources for pod in pods if pod.node in names)
    others = sorted(name for name in there if name not in (CPU, MEMORY, PODS) and "/" in name)
    shown = [name for name in (CPU, MEMORY) if there.get(name)] + others
    return tuple(Use(name, there[name], requested.get(name, 0)) for name in shown[:_MOST_RESOURCES])


def _sums(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in amounts:
        for name, amount in each.items():
            found[name] = found.get(name, 0) + amount
    return found
