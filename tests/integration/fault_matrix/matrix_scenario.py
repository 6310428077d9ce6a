"""A job is rescaled or paused while API calls of the autoscaler meet faults; what must
hold."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from localcluster.faults.faults import Call, Effect, ErrorResponse, Fault, Kill
from tests.harness.api import Json
from tests.harness.faults.fault_cases import RESUMES, SUSPENDS
from tests.harness.faults.fault_scenario import LARGE, SMALL, Before, FaultScenario
from tests.harness.faults.processes import AUTOSCALER
from tests.harness.faults.state_recorder import GONE
from tests.harness.job_recorder import Counts
from tests.harness.light_jobs import LightJob
from tests.harness.small_jobs import counted_job
from tests.harness.training_runs import violations
from tests.integration.fault_matrix.call_points import CallPoint, call_points

REFUSED = ErrorResponse(422)
_PASSES = 2
"""Undisturbed rescales that the points are taken from: in one the job grows, in one it shrinks."""

_KILLS = 4
"""In one course: on a busy machine a start of the autoscaler takes half a minute."""


@dataclass(frozen=True)
class Course:
    """How a job must have fared."""

    counts: frozenset[Counts]
    """The counts that it may have had."""

    runs: int
    """How often its training began."""

    suspensions: int
    """How often at most it was suspended; a write without a reply is made again."""


RESCALE = Course(frozenset({SMALL, LARGE}), runs=1, suspensions=2)
PAUSE = Course(frozenset({(1, 3), (1, 1)}), runs=1, suspensions=2)


class MatrixScenario:
    """The one job, and the points at which its rescale can meet a fault."""

    _LEAST: Counts | None = None
    """From which counts on the policy chooses; ``None``: there is one choice."""

    def __init__(self, scenario: FaultScenario) -> None:
        self._scenario = scenario
        self._proxy = scenario.proxy(AUTOSCALER)
        self._early_resumes: list[str] = []
        self._proxy.on_call = self._look_at
        self._proxy.kill_client = scenario.kill_autoscaler
        self.points = self._enumerate()

    def _enumerate(self) -> tuple[CallPoint, ...]:
        found: dict[CallPoint, None] = {}
        for _ in range(_PASSES):
            job = self._scenario.training_job()
            self._scenario.wait_training(self._scenario.rescale(job, self._LEAST))
            found |= dict.fromkeys(call_points(self._proxy.calls))
        return tuple(found)

    def play(self, point: CallPoint, effect: Effect) -> list[str]:
        """Move the job while this point meets the effect. Return what was wrong afterwards."""
        return self._move([_fault(point, effect)], effect == REFUSED and point.call == RESUMES)

    def kill_at(self, points: Sequence[CallPoint]) -> tuple[list[str], list[CallPoint]]:
        """Kill the autoscaler once at each point, right after the server has carried the call out.

        A course has several kills: each process begins with what the one before has stored, as it
        would after a single kill. Returns what was wrong, and the points that no course came to.
        Which of two jobs is written first is chance: of a call that was killed after another write,
        no further point is missed, and a write of which none was is killed wherever it comes."""
        left, wrong = list(points), list[str]()
        before = 0
        while left and len(left) != before:
            before, count = len(left), math.ceil(len(left) / _KILLS)
            for course in [left[first::count] for first in range(count)]:
                found, met = self._kill(course)
                wrong += found
                left = [each for each in left if each not in met]
        calls = {each.call for each in points if each not in left}
        for call in dict.fromkeys(each.call for each in left if each.is_write):
            if call not in calls:
                found, met = self._kill([CallPoint(call)])
                wrong += found
                calls |= {each.call for each in met}
        return wrong, [each for each in left if each.call not in calls]

    def _kill(self, course: Sequence[CallPoint]) -> tuple[list[str], set[CallPoint]]:
        """Kill the autoscaler at these points of one course; those that it came to."""
        faults = {point: _fault(point, Kill(after_effect=True)) for point in course}
        wrong = self._move([*faults.values()])
        killed = {each.fault for each in self._proxy.calls}
        return wrong, {point for point, fault in faults.items() if fault in killed}

    def _move(self, faults: Sequence[Fault], is_refused: bool = False) -> list[str]:
        job = self._scenario.training_job()
        before = self._scenario.now()
        self._early_resumes.clear()
        self._proxy.inject(*faults)
        rescaled = self._scenario.rescale(job, self._LEAST)
        if not is_refused:
            self._scenario.wait_training(rescaled)
            return list(self._harm(rescaled, before, RESCALE))
        # Counts that are refused are not asked for again at once: it trains at those before.
        self._scenario.wait(lambda: self.has_happened, "the resume is refused")
        self._scenario.wait_training(job)
        wrong = list(self._harm(job, before, RESCALE))
        self._scenario.delete(job)
        self._scenario.wait(lambda: not self._scenario.pods(), "its pods are gone")
        return wrong

    @property
    def has_happened(self) -> bool:
        """Whether the last fault met a call."""
        return self._proxy.is_spent

    def _harm(self, job: LightJob, since: Before, course: Course) -> Iterator[str]:
        seen = self._scenario.seen
        stored = self._scenario.stored(job)
        states = seen.jobs[since.jobs :]
        counts = {_counts(each) for each in states}
        runs = seen.logs.runs(job.name)
        begun = len(runs) - since.runs
        done = [each.call for each in self._proxy.calls if each.status == 200]
        if any(_has_condition(each, "Failed") for each in states):
            yield "it was Failed"
        if any(_has_condition(each, "Succeeded") for each in states):
            yield "it was Succeeded"
        if stored["spec"]["runPolicy"].get("suspend"):
            yield "it is suspended"
        if "optimus.dl/suspended-by" in stored["metadata"]["annotations"]:
            yield "it carries our mark"
        if counts - course.counts:
            yield f"it was at {counts}"
        if begun != course.runs:
            yield f"it was begun {begun} times, not {course.runs}"
        if sum(SUSPENDS.match(each) for each in done) > course.suspensions:
            yield "it was suspended more often than it was moved"
        yield from self._early_resumes
        yield from violations(runs, exact=True)
        yield from self._scenario.autoscaler_defects()

    def _look_at(self, call: Call) -> None:
        """No pod of the run before may be there when a job is resumed."""
        if not RESUMES.match(call):
            return
        try:
            left = [each["metadata"]["name"] for each in self._scenario.pods()]
        except GONE:
            return
        if left and self._is_suspended():
            self._early_resumes.append(f"it was resumed while {', '.join(left)} were there")

    def _is_suspended(self) -> bool:
        jobs = self._scenario.seen.jobs
        return bool(jobs and jobs[-1]["spec"]["runPolicy"].get("suspend"))


class FairShareScenario(MatrixScenario):
    """A job whose fair share is all that its user lets it have."""

    _LEAST = SMALL

    def reasons(self) -> set[str]:
        """Why the job was rescaled, as its profile has said."""
        seen = [each.get("status") or {} for each in self._scenario.seen.profiles]
        return {str((status.get("rescale") or {}).get("why")) for status in seen}

    def replicas_by_node(self) -> list[int]:
        """How many replicas each node has of the job at its larger counts."""
        job = self._scenario.training_job()
        if (job.ps, job.workers) != LARGE:
            job = self._scenario.rescale(job, self._LEAST)
            self._scenario.wait_training(job)
        return [sum(roles.values()) for roles in self._scenario.placement(job).values()]


class PausingScenario(MatrixScenario):
    """A long job that is paused for a short one, and goes on when that is deleted."""

    _LONG, _SHORT = counted_job("long", (1, 3), 1_000_000), counted_job("short", (1, 1), 10_000)

    def _enumerate(self) -> tuple[CallPoint, ...]:
        self._scenario.submit(self._LONG)
        self._scenario.wait_training(self._LONG)
        self._proxy.inject()
        self._pause_and_resume()
        calls = [each for each in self._proxy.calls if "/short" not in each.call.target]
        return call_points(calls)

    def _move(self, faults: Sequence[Fault], is_refused: bool = False) -> list[str]:
        del is_refused  # the resume is tried again
        self._proxy.inject()
        self._scenario.wait_training(self._LONG)
        before = self._scenario.now(self._LONG)
        self._early_resumes.clear()
        self._proxy.inject(*faults)
        self._pause_and_resume()
        return list(self._harm(self._LONG, before, PAUSE))

    def pauses(self) -> list[str]:
        """What the Events say of its pauses, once it has been resumed."""
        return self._scenario.wait_events(self._LONG.name, "Paused", "Resumed")["Paused"]

    def _pause_and_resume(self) -> None:
        scenario = self._scenario
        scenario.submit(self._SHORT)
        scenario.wait(lambda: self._is_served(self._SHORT), "the short job has nodes")
        # Some may still be ending, or be about to: each frees a node of its own.
        scenario.wait(self._has_ended, "the long job is paused")
        scenario.delete(self._SHORT)
        scenario.wait_training(self._LONG)

    def _has_ended(self) -> bool:
        left = self._scenario.pods(self._LONG)
        return all("deletionTimestamp" in pod["metadata"] for pod in left)

    def _is_served(self, job: LightJob) -> bool:
        try:
            return len(self._scenario.bound(job)) == job.pods
        except GONE:
            return False


def _fault(point: CallPoint, effect: Effect) -> Fault:
    return Fault(point.call, effect, after=point.after)


def _counts(job: Json) -> tuple[int, int]:
    specs = job["spec"]["tfReplicaSpecs"]
    return specs["PS"]["replicas"], specs["Worker"]["replicas"]


def _has_condition(job: Json, kind: str) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)
