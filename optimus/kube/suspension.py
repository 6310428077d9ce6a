"""The marks on a job that this software has suspended.

The annotation ``optimus.dl/suspended-by`` names the rescale and the autoscaler's instance,
``optimus.dl/preempted-for`` the job for which the extender did it, and when."""

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


class SuspensionMark(NamedTuple):
    """``optimus.dl/suspended-by``: ``ID INSTANCE``, and why it is paused where it is: ``for-good``
    at its goal, ``paused-by-policy`` or ``paused-for-gang``."""

    id: str
    """Of the rescale."""

    instance: str = ""
    """The autoscaler that wrote it; empty where it was an earlier version."""

    pause: PauseReason | None = None
    """Why the job is paused; ``None`` while a rescale is to resume it."""

    @property
    def text(self) -> str:
        """The annotation's value."""
        parts = (self.id, self.instance, "" if self.pause is None else _PAUSES[self.pause])
        return " ".join(part for part in parts if part)


def read_suspension(text: str) -> SuspensionMark:
    """The mark in the text of ``optimus.dl/suspended-by``."""
    mark, *rest = text.split(" ")
    pause = _REASONS.get(rest[-1]) if rest else None
    return SuspensionMark(mark, " ".join(rest if pause is None else rest[:-1]), pause)


class PreemptionMark(NamedTuple):
    """``optimus.dl/preempted-for``: ``NAMESPACE/NAME UID INSTANT``."""

    job: str
    """The preempting job, NAMESPACE/NAME."""

    uid: str
    at: float
    """When it was decided (epoch, seconds)."""

    @property
    def text(self) -> str:
        """The annotation's value."""
        return f"{self.job} {self.uid} {format_second(self.at)}"


def read_preemption(text: str) -> PreemptionMark | None:
    """The mark in the text of ``optimus.dl/preempted-for``; ``None`` where it has another form."""
    parts = text.split(" ")
    if len(parts) != 3:
        return None
    try:
        return PreemptionMark(parts[0], parts[1], parse_instant(parts[2]))
    except Malformed:
        return None
