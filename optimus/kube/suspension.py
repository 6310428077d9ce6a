"""The annotation ``optimus.dl/suspended-by``: by which rescale and which instance."""

from typing import Final, NamedTuple

_PERMANENT: Final = "for-good"


class SuspensionMark(NamedTuple):
    """What the annotation says, as ``ID INSTANCE``, and ``for-good`` where that is so."""

    id: str
    """Of the rescale."""

    instance: str = ""
    """The autoscaler that wrote it; empty where it was an earlier version."""

    permanent: bool = False
    """The job's goal is met: it is not to be resumed by itself."""

    @property
    def text(self) -> str:
        """The annotation's value."""
        parts = (self.id, self.instance, _PERMANENT if self.permanent else "")
        return " ".join(part for part in parts if part)


def read_suspension(text: str) -> SuspensionMark:
    """What such an annotation says."""
    mark, *rest = text.split(" ")
    permanent = rest[-1:] == [_PERMANENT]
    return SuspensionMark(mark, " ".join(rest[:-1] if permanent else rest), permanent)
