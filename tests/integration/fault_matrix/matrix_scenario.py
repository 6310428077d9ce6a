"""A job is rescaled while one API call of the autoscaler meets a fault; what must hold."""

from collections.abc import Iterator

from localcluster.faults.faults import Call, Effect, ErrorResponse, Fault
from tests.harness.api import Json
from tests.harness.light_jobs import LightJob
from tests.harness.training_runs import violations
from tests.integration.fault_matrix.call_points import CallPoint, call_points
from tests.integration.faults.fault_cases import RESUMES, SUSPENDS
from tests.integration.faults.fault_scenario import LARGE, SMALL, Before, FaultScenario
from tests.integration.faults.processes import AUTOSCALER
from tests.integration.faults.state_recorder import GONE

REFUSED = ErrorResponse(422)
_PASSES = 2
"""Undisturbed rescales that the points are taken from: in one the job grows, in one it shrinks."""


class MatrixScenario:
    """The one job, and the points at which its rescale can meet a fault."""

    def __init__(self, scenario: FaultScenario) -> None:
        self._scenario = scenario
        self._proxy = scenario.proxy(AUTOSCALER)
        self._early_resumes: list[str] = []
        self._proxy.on_call = self._look_at
        self._proxy.kill_client = lambda: scenario.product.kill_and_start(AUTOSCALER)
        self.points = self._enumerate()

    def _enumerate(self) -> tuple[CallPoint, ...]:
        found: dict[CallPoint, None] = {}
        for _ in range(_PASSES):
            job = self._scenario.training_job(is_small=False)
            self._scenario.wait_training(self._scenario.rescale(job))
            found |= dict.fromkeys(call_points(self._proxy.calls))
        return tuple(found)

    def play(self, point: CallPoint, effect: Effect) -> list[str]:
        """Rescale the job while this point meets the effect. Return what was wrong afterwards."""
        job = self._scenario.training_job(is_small=False)
        before = self._scenario.now()
        self._early_resumes.clear()
        self._proxy.inject(Fault(point.call, effect, after=point.after))
        rescaled = self._scenario.rescale(job)
        if not (effect == REFUSED and point.call == RESUMES):
            self._scenario.wait_training(rescaled)
            return list(self._harm(rescaled, before))
        # Counts that are refused are not asked for again at once: it trains at those before.
        self._scenario.wait(lambda: self.has_happened, "the resume is refused")
        self._scenario.wait_training(job)
        wrong = list(self._harm(job, before))
        self._scenario.delete(job)
        self._scenario.wait(lambda: not self._scenario.pods(), "its pods are gone")
        return wrong

    @property
    def has_happened(self) -> bool:
        """Whether the last fault met a call."""
        return self._proxy.is_spent

    def _harm(self, job: LightJob, since: Before) -> Iterator[str]:
        seen = self._scenario.seen
        stored = self._scenario.stored(job)
        states = seen.jobs[since.jobs :]
        counts = {_counts(each) for each in states}
        runs = len(seen.logs.runs(job.name)) - since.runs
        done = [each.call for each in self._proxy.calls if each.status == 200]
        if any(_has_condition(each, "Failed") for each in states):
            yield "it was Failed"
        if any(_has_condition(each, "Succeeded") for each in states):
            yield "it was Succeeded"
        if stored["spec"]["runPolicy"].get("suspend"):
            yield "it is suspended"
        if "optimus.dl/suspended-by" in stored["metadata"]["annotations"]:
            yield "it carries our mark"
        if counts - {SMALL, LARGE}:
            yield f"it was at {counts}"
        if runs != 1:
            yield f"it was begun {runs} times, not once"
        if sum(SUSPENDS.match(each) for each in done) > 2:
            yield "it was suspended more than once"
        yield from self._early_resumes
        yield from violations(seen.logs.runs(job.name), exact=True)
        yield from self._scenario.product.defects(AUTOSCALER)

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


def _counts(job: Json) -> tuple[int, int]:
    specs = job["spec"]["tfReplicaSpecs"]
    return specs["PS"]["replicas"], specs["Worker"]["replicas"]


def _has_condition(job: Json, kind: str) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)
