"""The annotation ``optimus.dl/preempted-for``: for which job another was suspended, and when."""

from typing import NamedTuple

from optimus.kube.errors import Malformed
from optimus.kube.times import format_second, parse_instant


class Preempted(NamedTuple):
    """What the annotation says, as ``NAMESPACE/NAME UID INSTANT``."""

    job: str
    """The preempting job, NAMESPACE/NAME."""

    uid: str
    at: float
    """When it was decided (epoch, seconds)."""

    @property
    def text(self) -> str:
        """The annotation's value."""
        return f"{self.job} {self.uid} {format_second(self.at)}"


def read_preempted(text: str) -> Preempted | None:
    """What such an annotation says; ``None`` where it has another form."""
    parts = text.split(" ")
    if len(parts) != 3:
        return None
    try:
        return Preempted(parts[0], parts[1], parse_instant(parts[2]))
    except Malformed:
        return None
