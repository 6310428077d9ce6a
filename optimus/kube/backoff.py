"""Exponential back-off, capped and jittered."""

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class BackoffConfig:
    """Waits double from ``first_seconds`` to ``cap_seconds``, jittered down by up to half."""

    first_seconds: float = 1.0
    cap_seconds: float = 30.0


class Backoff:
    """Counts failures in a row; not safe to share between threads."""

    def __init__(self, rule: BackoffConfig, random: Random) -> None:
        self._rule = rule
        self._random = random
        self._failures = 0

    @property
    def failures(self) -> int:
        """The number of failures in a row."""
        return self._failures

    def after_failure(self, at_least_seconds: float = 0.0) -> float:
        """Seconds to wait now; ``at_least_seconds`` is the server's own Retry-After."""
        # 2**40 first waits are beyond any cap; the limit keeps the power from growing for ever.
        wait = min(
            self._rule.cap_seconds, self._rule.first_seconds * 2.0 ** min(self._failures, 40)
        )
        self._failures += 1
        return max(at_least_seconds, wait * self._random.uniform(0.5, 1.0))

    def reset(self) -> None:
        """Start over after a success."""
        self._failures = 0
