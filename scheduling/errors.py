"""Values that say no and exceptions that say broken.

An expected refusal (too few samples, a target out of reach) is a value carrying a sentence a user can
read; an exception means that this software, or what it was given, is broken.
"""

from dataclasses import dataclass


class SchedulingError(Exception):
    """Something is broken: an invariant does not hold, or the input contradicts itself."""


@dataclass(frozen=True, slots=True)
class NotReady:
    """The answer where a model cannot answer yet; ``reason`` is a sentence for users."""

    reason: str

    def __str__(self) -> str:
        return self.reason
