"""Takes one job's rescale as far as it goes now, whoever carries its instructions out."""

from collections import deque
from typing import Protocol

from optimus.jobs import Counts
from optimus.rescale.machine import Rescale, RescaleConfig, advance
from optimus.rescale.words import (
    CheckpointSeen,
    CountsFailed,
    CountsFound,
    End,
    Event,
    FindCounts,
    Instruction,
    JobGone,
    Notify,
    Observe,
    Observed,
    Patch,
    PatchAnswered,
    PlacementFailed,
    ProfileWritten,
    RescaleRecord,
    ResizeAndResume,
    Suspend,
    Tick,
    Unmark,
    UserIntent,
    WriteProfile,
)


class RescaledJob(Protocol):
    """A job as its keeper has it."""

    rescale: Rescale | None
    """The rescale in progress, up to date whenever the executor is called; ``None`` once it
    ended."""


class RescaleExecutor(Protocol):
    """Carries out what a rescale of one job asks for, one method for each instruction.

    A method whose answer is lost returns ``None``: the next observation shows what came of it."""

    def user_intent(self, record: RescaleRecord) -> UserIntent:
        """Return what the job's user wants now."""

    def write_profile(self, record: RescaleRecord) -> ProfileWritten:
        """Store the record and the phase of its step."""

    def observe(self, *, uncached: bool) -> Observed | JobGone | None:
        """List the job's pods, then read the job."""

    def find_counts(self, most: Counts) -> CountsFound:
        """Find counts, of each role at most these, that fit beside what others are promised."""

    def suspend(self, patch: Suspend) -> PatchAnswered | None:
        """Suspend the job and mark it."""

    def resize_and_resume(self, patch: ResizeAndResume) -> PatchAnswered | None:
        """Set the counts, resume the job and remove the mark."""

    def unmark(self, patch: Unmark) -> PatchAnswered | None:
        """Remove the mark."""

    def notify(self, told: Notify) -> None:
        """Tell the job's users."""

    def placement_failed(self, failed: PlacementFailed) -> None:
        """Record that the target was not placed in time."""

    def counts_failed(self, failed: CountsFailed) -> None:
        """Record that the job's containers fail at the target."""

    def end(self, end: End) -> None:
        """Record how the rescale ended."""


def run_rescale(
    executor: RescaleExecutor,
    job: RescaledJob,
    checkpoint_since: float,
    at: float,
    config: RescaleConfig,
) -> None:
    """Take the job's rescale as far as it goes now.

    ``checkpoint_since`` is the earliest instant at which its last checkpoint was made."""
    events: deque[Event] = deque([CheckpointSeen(checkpoint_since), Tick(at)])
    # Far more than one observation can cause: a machine that returns more is in a loop.
    for _ in range(32):
        rescale = job.rescale
        if not events or rescale is None:
            return
        # The user's intent is taken in before each step: whatever was written last counts.
        rescale, _ = advance(rescale, executor.user_intent(rescale.record), config)
        job.rescale, instructions = advance(rescale, events.popleft(), config)
        answers = (_carry_out(executor, each) for each in instructions)
        events.extend(answer for answer in answers if answer is not None)


def _carry_out(executor: RescaleExecutor, instruction: Instruction) -> Event | None:
    match instruction:
        case WriteProfile(record=record):
            return executor.write_profile(record)
        case Observe(uncached=uncached):
            return executor.observe(uncached=uncached)
        case FindCounts(most=most):
            return executor.find_counts(most)
        case Suspend() | ResizeAndResume() | Unmark():
            return _patch(executor, instruction)
        case Notify():
            executor.notify(instruction)
        case PlacementFailed():
            executor.placement_failed(instruction)
        case CountsFailed():
            executor.counts_failed(instruction)
        case End():
            executor.end(instruction)
    return None


def _patch(executor: RescaleExecutor, patch: Patch) -> PatchAnswered | None:
    match patch:
        case Suspend():
            return executor.suspend(patch)
        case ResizeAndResume():
            return executor.resize_and_resume(patch)
        case Unmark():
            return executor.unmark(patch)
