"""What the autoscaler keeps in a job's profile, so that the next one goes on where this one
stopped.

Two parts: the rescale under way, in fields of its own that the extender reads too, and ``state``,
which nobody else reads: the log's memory (losses, samples, how far each pod was read) and what was
done to the job."""

import logging
import zlib
from base64 import b64decode, b64encode
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from autoscaler.rescale.machine import RescaleRecord, Step
from optimus.allocation import PlacementFailure
from optimus.interval.driver import RescalePurpose
from optimus.jobs import Counts
from optimus.kube import profiles
from optimus.kube.errors import Malformed
from optimus.kube.times import format_instant, parse_instant
from optimus.progress.state import LogState

_LOG = logging.getLogger(__name__)

_MOST_BYTES: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class JobRecord:
    """What was done to one job. Instants are UTC, in seconds since the epoch.

    ``profiled`` are the counts to which it was moved to be measured, the run under way included;
    ``profiling_since`` is when that one reached its counts, ``measured_at`` when the last one did;
    ``own_counts`` are those at which its user, or an interval, had it before. ``waited_in_vain``: a
    rescale was given up since no checkpoint came.
    ``setbacks`` are targets that found no place, oldest first. ``whole`` are the UIDs of some pods
    of a gang of which all had a node. ``suspended_at_target`` tells our own suspension at the goal
    from the user's."""

    rescales: int = 0
    last_rescaled_at: float | None = None
    profiled: tuple[Counts, ...] = ()
    profiling_since: float | None = None
    measured_at: float | None = None
    own_counts: Counts | None = None
    waited_in_vain: bool = False
    setbacks: tuple[PlacementFailure, ...] = ()
    whole: tuple[str, ...] = ()
    suspended_at_target: bool = False


class SavedState(msgspec.Struct, frozen=True, rename={"record": "deeds"}):
    """The profile's ``state``. Field names, here and below, are names in stored profiles."""

    log: LogState = msgspec.field(default_factory=LogState)
    record: JobRecord = msgspec.field(default_factory=JobRecord)


def pack(saved: SavedState) -> str:
    """JSON, compressed, in base64: short, since `kubectl describe` prints it."""
    return b64encode(zlib.compress(msgspec.json.encode(saved))).decode()


def unpack(state: str | None, job: object, at: float) -> SavedState:
    """The memory in a profile; an unreadable one (of another version, or edited) is given up, and
    the log says so.

    ``at`` is now: what was stored under a clock that has been set back since did not happen in the
    future."""
    if state is None:
        return SavedState()
    try:
        # No more than a profile can hold of what is written here: a word that grows without end is
        # not from here.
        text = zlib.decompressobj().decompress(b64decode(state, validate=True), _MOST_BYTES)
        saved = msgspec.json.decode(text, type=SavedState)
        return SavedState(saved.log, _until(saved.record, at))
    except (ValueError, zlib.error, msgspec.MsgspecError) as error:
        _LOG.warning(
            "job %s: what its profile remembers cannot be read (%s); it is learned anew", job, error
        )
        return SavedState()


def _until(record: JobRecord, at: float) -> JobRecord:
    return replace(
        record,
        last_rescaled_at=_past(record.last_rescaled_at, at),
        profiling_since=_past(record.profiling_since, at),
        measured_at=_past(record.measured_at, at),
        setbacks=tuple(replace(each, at=min(each.at, at)) for each in record.setbacks),
    )


def _past(instant: float | None, at: float) -> float | None:
    return None if instant is None else min(instant, at)


def pack_rescale(record: RescaleRecord) -> profiles.RescaleRecord:
    """The rescale as the profile shows it."""
    return profiles.RescaleRecord(
        id=record.id,
        started_at=format_instant(record.started_at),
        from_ps=record.before.ps,
        from_workers=record.before.workers,
        to_ps=record.target.ps,
        to_workers=record.target.workers,
        why=record.why,
        step=record.step_text,
        step_at=format_instant(record.step_at),
        purpose=record.purpose,
    )


def unpack_rescale(
    stored: profiles.RescaleRecord | None, job: object, at: float
) -> RescaleRecord | None:
    """The rescale that a profile tells of; ``None`` where there is none, or it cannot be read.
    ``at`` is now."""
    if stored is None:
        return None
    try:
        started_at = min(parse_instant(stored.started_at), at)
        step_at = min(parse_instant(stored.step_at), at) if stored.step_at else started_at
        record = RescaleRecord(
            stored.id,
            started_at,
            stored.origin,
            stored.target,
            stored.why,
            Step.CHECKPOINT,
            step_at,
            purpose=_purpose_of(stored),
        )
        return record.with_step_text(stored.step)
    except (Malformed, ValueError) as error:
        _LOG.warning(
            "job %s: the rescale in its profile cannot be read (%s); it is given up", job, error
        )
        return None


_OLD_IDS: Final = {
    "profiling-": RescalePurpose.PROFILING,
    "explore-": RescalePurpose.EXPLORATION,
    "measured-": RescalePurpose.AFTER_PROFILING,
    "half-placed-": RescalePurpose.TAKE_BACK,
}
"""How the ids of records begin that were stored without a purpose, by versions before it."""


def _purpose_of(stored: profiles.RescaleRecord) -> RescalePurpose:
    if stored.purpose in set(RescalePurpose):
        return RescalePurpose(stored.purpose)
    by_prefix = (each for prefix, each in _OLD_IDS.items() if stored.id.startswith(prefix))
    return next(by_prefix, RescalePurpose.INTERVAL)
