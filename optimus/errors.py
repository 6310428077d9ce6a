"""Values that say no.

An expected refusal (too few samples, a target out of reach) is a value carrying a sentence a user
can read; an exception would mean that this software is broken.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NotReady:
    """The answer where a model cannot answer yet; ``reason`` is a sentence for users."""

    reason: str

    def __str__(self) -> str:
        return self.reason
