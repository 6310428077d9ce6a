"""Executes a rescale's instructions on a simulated job, with faults injected at any call."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from autoscaler.profile.events import JobEvent, rescale_event
from optimus.jobs import NO_COUNTS, Counts
from optimus.kube.profile_codec import pack_rescale, unpack_rescale
from optimus.rescale.execution import run_rescale
from optimus.rescale.machine import Rescale, RescaleConfig, adopt, resume
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.words import (
    CountsFailed,
    CountsFound,
    End,
    Notify,
    Observed,
    Patch,
    PatchAnswered,
    PatchResult,
    PauseReason,
    PlacementFailed,
    ProfileWritten,
    RescaleRecord,
    ResizeAndResume,
    Step,
    Suspend,
    Unmark,
    UserIntent,
)
from tests.unit.rescale.simulated_job import BEFORE, TARGET, SimulatedJob

CONFIG = RescaleConfig(fresh_seconds=10, grace_seconds=1, start_seconds=60, quiet_seconds=2)


def told(instruction: object) -> JobEvent:
    """The Event that an instruction puts on the job."""
    assert isinstance(instruction, Notify)
    return rescale_event(instruction)


class Fault(Enum):
    """What goes wrong with one call."""

    NOT_SENT = auto()
    ANSWER_LOST = auto()
    CRASH_BEFORE = auto()
    CRASH_AFTER = auto()
    CONFLICT = auto()


class Crashed(Exception):
    """The autoscaler was killed."""


NEEDED_STEP = {
    Suspend: Step.SUSPEND,
    ResizeAndResume: Step.RESUME,
    Unmark: Step.YIELD,
}


@dataclass
class RescaleHarness:
    """Carries out instructions against a job; ``stored`` is what the profile holds, all that a
    crash leaves."""

    job: SimulatedJob
    needs_checkpoint: bool = True
    target: Counts = TARGET
    faults: Iterator[Fault | None] = field(default_factory=lambda: iter(()))
    before_call: Callable[[int], None] = lambda _: None
    rescale: Rescale | None = None
    stored: RescaleRecord | None = None
    ends: list[End] = field(default_factory=list)
    calls: int = 0

    pause: PauseReason = PauseReason.GOAL
    was_paused: bool = False
    before: Counts = BEFORE

    def __post_init__(self) -> None:
        self.was_paused, self.before = self.job.suspended, self.job.counts
        if self.was_paused:
            self.rescale = resume(self.job.observed(), self.pause, 1000.0, self.target, "its turn")
            return
        stays = self.target == self.job.counts
        record = RescaleRecord(
            "i7",
            1000.0,
            self.job.counts,
            self.target,
            "worker 3 saves 41 s",
            Step.CHECKPOINT,
            1000.0,
            purpose=RescalePurpose.STRAGGLER if stays else RescalePurpose.INTERVAL,
            pause=self.pause if self.target == NO_COUNTS else None,
        )
        self.rescale = Rescale(record, self.needs_checkpoint)

    @property
    def over(self) -> bool:
        return bool(self.ends) or (self.rescale is None and self.stored is None)

    def tick(self) -> None:
        self.job.at += 2.0
        try:
            if self.rescale is None:
                if self.stored is None:
                    return
                self.rescale = Rescale(self.stored, self.needs_checkpoint, written=True)
            since = self.job.checkpoint_at
            run_rescale(self, self, -math.inf if since is None else since, self.job.at, CONFIG)
        except Crashed:
            self.rescale = None

    def user_intent(self, _: RescaleRecord) -> UserIntent:
        unwanted = "its user does not want it any more" if self.job.unwanted else None
        return UserIntent(self.needs_checkpoint, unwanted)

    def write_profile(self, record: RescaleRecord) -> ProfileWritten:
        fault = self.called()
        if fault not in {Fault.NOT_SENT, Fault.CRASH_BEFORE, Fault.CONFLICT}:
            self.stored = unpack_rescale(pack_rescale(record), "j", self.job.at)
        self.crash_if(fault)
        return ProfileWritten(fault is None)

    def observe(self, *, uncached: bool) -> Observed | None:
        del uncached
        pods = self.job.observed_pods()
        fault = self.called()
        self.crash_if(fault)
        return Observed(self.job.at, self.job.observed(), pods) if fault is None else None

    def find_counts(self, most: Counts) -> CountsFound:
        return CountsFound(self.job.at, most if sum(most) <= self.job.capacity else None)

    def suspend(self, patch: Suspend) -> PatchAnswered:
        return self.patch(patch)

    def resize_and_resume(self, patch: ResizeAndResume) -> PatchAnswered:
        return self.patch(patch)

    def unmark(self, patch: Unmark) -> PatchAnswered:
        return self.patch(patch)

    def notify(self, told: Notify) -> None:
        rescale_event(told)  # each has its sentence

    def placement_failed(self, _: PlacementFailed) -> None:
        pass

    def counts_failed(self, _: CountsFailed) -> None:
        pass

    def end(self, end: End) -> None:
        self.ends.append(end)
        self.stored = self.rescale = None

    def called(self) -> Fault | None:
        self.calls += 1
        self.before_call(self.calls)
        fault = next(self.faults, None)
        if fault is Fault.CRASH_BEFORE:
            raise Crashed
        return fault

    @staticmethod
    def crash_if(fault: Fault | None) -> None:
        if fault is Fault.CRASH_AFTER:
            raise Crashed

    def patch(self, instruction: Patch) -> PatchAnswered:
        fault = self.called()
        if fault is Fault.CONFLICT:
            self.job.change()
        if fault is Fault.NOT_SENT:
            return PatchAnswered(self.job.at, PatchResult.UNKNOWN)
        if instruction.resource_version != str(self.job.version):
            return PatchAnswered(self.job.at, PatchResult.CONFLICT)
        self.apply(instruction)
        self.crash_if(fault)
        return PatchAnswered(
            self.job.at, PatchResult.UNKNOWN if fault is Fault.ANSWER_LOST else PatchResult.DONE
        )

    def apply(self, instruction: Patch) -> None:
        assert self.stored is not None, "acted before anything was written"
        assert self.stored.step is NEEDED_STEP[type(instruction)], (
            "acted before the step was written"
        )
        match instruction:
            case Suspend(by=by, pause=pause):
                assert pause is (self.stored.pause if self.stored.pauses else None)
                assert self.stored.rolling_back or not self.job.unwanted, (
                    "suspended for what its user does not want"
                )
                self.assert_right_after_a_checkpoint()
                self.job.suspend(by)
            case ResizeAndResume(counts=counts):
                assert self.stored.rolling_back or not self.job.unwanted, (
                    "resized to what its user does not want"
                )
                self.job.resize_and_resume(counts)
            case Unmark():
                self.job.mark = None
                self.job.user_wants_suspension = self.job.suspended
        self.job.change()

    def assert_right_after_a_checkpoint(self) -> None:
        assert self.stored is not None
        if self.needs_checkpoint and not self.stored.rolling_back:
            assert self.job.checkpoint_at is not None
            assert self.job.at - self.job.checkpoint_at <= 3 * CONFIG.fresh_seconds

    def settle(self, rounds: int = 200) -> None:
        """Everything does its part, and nothing goes wrong any more."""
        self.faults, self.before_call = iter(()), lambda _: None
        for _ in range(rounds):
            self.tick()
            self.job.operator()
            self.job.kubelet()
            self.job.scheduler()
            self.job.checkpoint()
            if self.over:
                return

    def check_end(self) -> None:
        """What holds whatever went wrong on the way."""
        job = self.job
        assert self.over, "the rescale never ends"
        assert not job.failed
        # Counts that the user sets to what they were, or to the target, look like ours.
        ours = {self.before, self.target}
        assert job.counts in (ours if job.user_counts in {None, *ours} else {job.user_counts})
        if job.suspended:
            # A resume that was never stored has not begun: the next leader begins it again.
            is_paused = self.target == NO_COUNTS or (self.was_paused and not self.ends)
            assert job.user_wants_suspension or (is_paused and job.mark is not None)
            assert job.user_wants_suspension or not job.pods, "paused with pods left"
        elif not job.finished:
            assert job.mark is None, "our mark is left on a job that runs"

    def clear_up(self) -> None:
        """A job that its user resumes when all is over may still carry our mark: found by the next
        observation."""
        if not self.job.suspended and not self.job.finished:
            self.rescale = adopt(self.job.observed(), self.job.at)
            self.ends.clear()
            self.settle()
