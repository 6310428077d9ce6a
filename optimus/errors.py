"""Expected refusals of the models, as values.

Too few samples, or a target out of reach, is a value with a sentence for users. Exceptions are for
faults of this software."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NotReady:
    """A model that cannot be fitted yet, or cannot predict; ``reason`` is a sentence for users."""

    reason: str

    def __str__(self) -> str:
        return self.reason
