"""Growing delays between restarts, for the components of a cluster and for containers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class BackOff:
    """Delays that double from `base_seconds` up to the cap.

    A run of at least `reset_seconds` resets the count. The defaults are a kubelet's."""

    base_seconds: float = 10.0
    cap_seconds: float = 300.0
    reset_seconds: float = 600.0

    def after(self, delay_seconds: float) -> float:
        """Return the delay that follows one of `delay_seconds`; 0 stands for none so far."""
        return min(max(self.base_seconds, 2 * delay_seconds), self.cap_seconds)
