"""How long to wait before the next try: doubling, capped, and jittered so that many clients do not
come at once."""

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class BackoffConfig:
    """Waits of ``first_seconds`` doubling to ``cap_seconds``, each shortened by up to half at
    random."""

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
        """How many failures in a row there have been."""
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
        """Something worked."""
        self._failures = 0
