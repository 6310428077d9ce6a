"""The mark on a job that this software has suspended: the annotation ``optimus.dl/suspended-by``.

It names the rescale or pause, and the autoscaler's instance."""

from typing import Final, NamedTuple

from optimus.kube.errors import Malformed
from optimus.kube.times import format_second, parse_instant
from optimus.rescale.words import PauseReason

_PAUSES: Final = {
    PauseReason.GOAL: "for-good",
    PauseReason.POLICY: "paused-by-policy",
    PauseReason.GANG: "paused-for-gang",
}
_REASONS: Final = {text: reason for reason, text in _PAUSES.items()}
_PREEMPTION: Final = "preemption"
_QUOTA: Final = "quota"


class Preemption(NamedTuple):
    """The job for which others are paused, and since when; the id of each of these pauses."""

    job: str
    """The preempting job, NAMESPACE/NAME."""

    uid: str
    at: float
    """When it was decided (epoch, seconds)."""

    by_quota: bool = False
    """It is for what they hold of a quota, and not for their nodes."""

    @property
    def text(self) -> str:
        """The id: ``preemption/NAMESPACE/NAME/UID/INSTANT``, or ``quota/...``."""
        cause = _QUOTA if self.by_quota else _PREEMPTION
        return "/".join((cause, self.job, self.uid, format_second(self.at)))


def read_preemption(text: str) -> Preemption | None:
    """The preemption in the id of a pause; ``None`` where it has another form."""
    parts = text.split("/")
    if len(parts) != 5 or parts[0] not in (_PREEMPTION, _QUOTA):
        return None
    cause, namespace, name, uid, instant = parts
    try:
        at = parse_instant(instant)
        return Preemption(f"{namespace}/{name}", uid, at, by_quota=cause == _QUOTA)
    except Malformed:
        return None


class SuspensionMark(NamedTuple):
    """``optimus.dl/suspended-by``: ``ID INSTANCE``, and why it is paused where it is: ``for-good``
    at its goal, ``paused-by-policy`` or ``paused-for-gang``."""

    id: str
    """The id of the rescale or pause."""

    instance: str = ""
    """The autoscaler that wrote it; empty where it was an earlier version."""

    pause: PauseReason | None = None
    """Why the job is paused; ``None`` while a rescale is to resume it."""

    @property
    def text(self) -> str:
        """The annotation's value."""
        parts = (self.id, self.instance, "" if self.pause is None else _PAUSES[self.pause])
        return " ".join(part for part in parts if part)

    @property
    def preemption(self) -> Preemption | None:
        """The gang for which the job is paused; ``None`` where it is not, or that cannot be
        read."""
        return read_preemption(self.id) if self.pause is PauseReason.GANG else None


def read_suspension(text: str) -> SuspensionMark:
    """The mark in the text of ``optimus.dl/suspended-by``."""
    mark, *rest = text.split(" ")
    pause = _REASONS.get(rest[-1]) if rest else None
    return SuspensionMark(mark, " ".join(rest if pause is None else rest[:-1]), pause)
