"""When a job may be stopped for a rescale: the rules of ``rescale: checkpoint``.

A job that is stopped loses what it has trained since its last checkpoint. So a rescale waits for
the next one where that matters, is withdrawn where none comes, and is decided again once a
checkpoint was seen.
"""

from typing import Final

from optimus.jobs import RescaleRule
from optimus.rescale.purpose import RescalePurpose

FRESH_CHECKPOINT_SECONDS: Final = 30.0
"""Age up to which a checkpoint is recent enough to stop a job: the training since is lost. Default:
a few log polls."""

SEEN_CHECKPOINT_SECONDS: Final = 90.0
"""How long after a job's checkpoint was seen an interval may begin to move it: the least time
between two intervals, and a few reads of the log."""


def must_wait_for_checkpoint(
    rule: RescaleRule, purpose: RescalePurpose, *, may_lose: bool, is_old: bool
) -> bool:
    """Return whether a rescale has to wait for a checkpoint.

    ``may_lose``: its pods may train, and it is not known to save when it is stopped. ``is_old``:
    more may be lost than a profiling run may lose. A restart does not wait: the operator is about
    to fail the job."""
    if rule is not RescaleRule.CHECKPOINT or not may_lose:
        return False
    if purpose is RescalePurpose.RESTART:
        return False
    return purpose.needs_checkpoint or is_old


def is_fresh_checkpoint(
    since: float, at: float, fresh_seconds: float = FRESH_CHECKPOINT_SECONDS
) -> bool:
    """Return whether a checkpoint that was made at ``since`` lets the job be stopped now."""
    return at - since <= fresh_seconds


def longest_checkpoint_wait(stale_seconds: float, *, missed: bool) -> float:
    """Seconds after which a rescale that waits for a checkpoint is withdrawn: all the while its
    target's room is kept from others. ``missed``: the last one was withdrawn, and a checkpoint was
    seen since."""
    return SEEN_CHECKPOINT_SECONDS if missed else stale_seconds


def awaits_next_checkpoint(
    seen_at: float | None, at: float, read_interval_seconds: float = 0.0
) -> bool:
    """Return whether a job whose rescale was withdrawn is not moved now. ``seen_at`` is when a
    checkpoint was seen after that.

    Room that is held for a job that never prints such a line would be lost to all others."""
    seen_seconds = max(SEEN_CHECKPOINT_SECONDS, 3 * read_interval_seconds)
    return seen_at is None or at - seen_at > seen_seconds
