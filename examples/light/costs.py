"""The stated costs: what compute and transfers take, slept beside the real (tiny) work.

Optimus, EuroSys 2018, section 3.2. Every task has one link, which carries one transfer after the
other; a transfer of n bytes holds it for n * 8 / rate + message_seconds. In one synchronous step
the parameters (S bytes) go from p PSs to w workers and the gradients back, M examples are computed
by w workers, so

    step_seconds(p, w) = example_seconds * M/w                compute, t0 of eq 4
                       + step_seconds + 2 * S*8/link          constant and the worker's own link, t1
                       + 2 * S*8/link * w/p                   the PS's link, shared by all workers,
                       t2 + 2 * message_seconds * (w + p)        handling of messages, t3 and t4

which is eq 4 term by term: more workers help until the links of the PSs bind. Asynchronous workers
pay the same parts without waiting for each other, except for the queue at the PSs' links (eq 3).
"""

import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Costs:
    """Stated costs of one job; 0 leaves a part to what it really takes."""

    example_seconds: float
    """Compute of one example, in seconds."""
    step_seconds: float
    """Constant part of a worker's step, in seconds."""
    link_bits_per_second: float
    """Rate of each task's link; 0: transfers take no stated time."""
    message_seconds: float
    """Time for which one message holds a link beside its bytes, in seconds."""
    model_bytes: int
    """Size of the model that is moved; the real one is smaller."""

    def compute_seconds(self, examples: int) -> float:
        """Stated time of one worker's step over `examples` examples."""
        return self.step_seconds + self.example_seconds * examples

    def synchronous_step_seconds(self, ps: int, workers: int, global_batch: int) -> float:
        """Stated time of one synchronous step: the formula above."""
        transfer = self._wire_seconds(2 * self.model_bytes)
        handling = 2 * self.message_seconds * (workers + ps)
        share = -(-global_batch // workers)
        return self.compute_seconds(share) + transfer * (1 + workers / ps) + handling

    def hold_seconds(self, size_bytes: float, messages: int) -> float:
        """Time for which `messages` messages of `size_bytes` in all hold a link."""
        return self._wire_seconds(size_bytes) + self.message_seconds * messages

    def _wire_seconds(self, size_bytes: float) -> float:
        return size_bytes * 8 / self.link_bits_per_second if self.link_bits_per_second else 0.0


class Link:
    """The one link of a task: transfers queue for it in the order in which they were asked for."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._free_at_seconds = 0.0
        self.held_seconds = 0.0

    def carry(self, ready_at_seconds: float, size_bytes: float, messages: int = 1) -> float:
        """Queue a transfer that is ready at that instant; return the instant (same clock) at which
        it is over."""
        hold = self._costs.hold_seconds(size_bytes, messages)
        self._free_at_seconds = max(ready_at_seconds, self._free_at_seconds) + hold
        self.held_seconds += hold
        return self._free_at_seconds


def sleep_until(instant_seconds: float) -> None:
    """Sleep until that instant of the monotonic clock; not at all if it has passed."""
    remaining = instant_seconds - time.monotonic()
    if remaining > 0:
        time.sleep(remaining)
