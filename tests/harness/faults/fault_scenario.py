"""A job is rescaled while faults happen; what must hold afterwards."""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from localcluster.faults.proxy import FaultProxy
from tests.harness.api import LEASES, Json, in_namespace
from tests.harness.description import describe
from tests.harness.faults.fault_cases import FaultCase
from tests.harness.faults.processes import AUTOSCALER, SCHEDULER, OptimusProcesses
from tests.harness.faults.state_recorder import GONE, Recorder
from tests.harness.job_recorder import Counts
from tests.harness.light_jobs import LightJob
from tests.harness.optimus_cluster import SYSTEM_NAMESPACE
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import at, set_bounds, small_job
from tests.harness.training_runs import violations

SMALL, LARGE = (1, 1), (1, 3)
_JOB = small_job("job", SMALL)
_LEASE = in_namespace(LEASES, SYSTEM_NAMESPACE, "leases", "optimus-autoscaler")


@dataclass(frozen=True)
class Before:
    """Where the job stood when the faults began."""

    jobs: int
    profiles: int
    runs: int


class FaultScenario(Scenario):
    """The namespace of the one job, and the two processes that care for it."""

    def __init__(self, scenario: Scenario, product: OptimusProcesses, seen: Recorder) -> None:
        super().__init__(scenario.optimus, scenario.namespace)
        self.product, self.seen = product, seen
        self._killing = threading.Lock()

    def proxy(self, process: str) -> FaultProxy:
        return self.product.proxies[process]

    def kill_autoscaler(self) -> None:
        """End the autoscaler with SIGKILL, and start it again. Its Lease is freed: that a Lease
        runs out is tested elsewhere."""
        with self._killing:
            self.product.kill(AUTOSCALER)
            self.api.patch(_LEASE, {"spec": {"holderIdentity": ""}})
            self.product.start_again(AUTOSCALER)

    def autoscaler_defects(self) -> list[str]:
        """What it has reported as errors of its own. One that is being killed is there again."""
        with self._killing:
            return self.product.defects(AUTOSCALER)

    def describe(self) -> str:
        """Return what a reader of a failed scenario wants to see."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield describe(self.api, self.namespace)
        for process in (*self.product.processes, SCHEDULER):
            yield f"--- {process}\n" + "\n".join(self.product.log(process).splitlines()[-40:])
        for process, proxy in self.product.proxies.items():
            yield f"--- calls of {process} that met a fault"
            yield from (
                f"{each.call.method} {each.call.target} {each.status}"
                for each in proxy.calls
                if each.fault
            )

    # --- the scenario

    def play(self, case: FaultCase) -> None:
        """Rescale the job amid this case. Raises AssertionError where it is not as if nothing
        had happened."""
        job = self.training_job()
        before = self.now()
        proxy = self.proxy(case.process)
        proxy.inject(case.fault)
        if case.cut:
            proxy.cut_streams()
        rescaled = self.rescale(job)
        self.wait_training(rescaled)
        self._wait_spent(proxy)
        violations = self.violations(rescaled, before)
        assert not violations, f"{violations}\n{self.describe()}"
        assert case.then is None or any(case.then.match(each.call) for each in proxy.calls)

    def _wait_spent(self, proxy: FaultProxy) -> None:
        self.wait(lambda: proxy.is_spent, "the fault has happened as often as it was to")

    # --- the job

    def training_job(self) -> LightJob:
        """Return the job, which trains undisturbed; it is made where there is none yet."""
        self._forget_faults()
        if self.api.find(self.path(_JOB)) is None:
            self.submit(_JOB)
        stored = self.stored(_JOB)["spec"]["tfReplicaSpecs"]
        job = at(_JOB, (stored["PS"]["replicas"], stored["Worker"]["replicas"]))
        self.wait_training(job)
        self._forget_faults()
        return job

    def _forget_faults(self) -> None:
        for proxy in self.product.proxies.values():
            proxy.inject()

    def rescale(self, job: LightJob, least: Counts | None = None) -> LightJob:
        """Ask, as its user would, for the other counts; return the job at these. With ``least`` the
        policy may choose from these counts on."""
        target: Counts = LARGE if (job.ps, job.workers) == SMALL else SMALL
        set_bounds(self, job, target, least)
        return at(job, target)

    def wait_training(self, job: LightJob) -> None:
        """Wait until it trains at its counts and has saved a checkpoint there, and its profile says
        so. Then the recorder has all that led there."""
        self.wait(lambda: self._trains(job), f"the job trains at {job.ps} + {job.workers}")
        self.wait(self._is_recorded, "all that is stored has been recorded")

    def _is_recorded(self) -> bool:
        try:
            self.seen.catch_up()
        except GONE:
            return False
        return True

    def _trains(self, job: LightJob) -> bool:
        try:
            return self._is_there(job)
        except GONE:  # the server is being started again
            return False

    def _is_there(self, job: LightJob) -> bool:
        status = (self.profile(job) or {}).get("status") or {}
        is_shown = status.get("phase") == "Training" and "rescale" not in status
        is_at = (status.get("ps"), status.get("workers")) == (job.ps, job.workers)
        pods = self.pods(job)
        is_whole = len(pods) == job.pods and all(_runs(pod) for pod in pods)
        steps = self.seen.logs.steps_of_present(pods)
        saved = any(each.checkpoint == each.step for each in steps)
        return is_shown and is_at and is_whole and saved

    def now(self, job: LightJob = _JOB) -> Before:
        """Note the state of the job."""
        return Before(
            len(self.seen.jobs), len(self.seen.profiles), len(self.seen.logs.runs(job.name))
        )

    # --- what must hold

    def violations(self, job: LightJob, since: Before) -> list[str]:
        """Return what a fault has done to the job that it must not do: nothing, then."""
        stored = self.stored(job)
        states = self.seen.jobs[since.jobs :]
        runs = len(self.seen.logs.runs(job.name)) - since.runs
        rescales = {
            each["status"]["rescale"]["id"]
            for each in self.seen.profiles[since.profiles :]
            if _rescales(each)
        }
        done = [
            each
            for each in self.proxy(AUTOSCALER).calls
            if each.call.method == "PATCH" and each.status == 200
        ]
        patches = len([each for each in done if "/tfjobs/" in each.call.target])
        wrong: Mapping[str, bool] = {
            "it was Failed": any(_is_failed(each) for each in states),
            "it is suspended": bool(stored["spec"]["runPolicy"].get("suspend")),
            "it carries our mark": "optimus.dl/suspended-by" in stored["metadata"]["annotations"],
            f"its profile showed {len(rescales)} rescales, not one": len(rescales) != 1,
            f"it was begun {runs} times, not once": runs != 1,
            f"it was patched {patches} times, not suspended and resumed": patches != 2,
        }
        defects = [
            line for process in self.product.processes for line in self.product.defects(process)
        ]
        lost = violations(self.seen.logs.runs(job.name), exact=True)
        return [each for each, is_so in wrong.items() if is_so] + lost + defects


def _runs(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") == "Running"


def _rescales(profile: Json) -> bool:
    return bool((profile.get("status") or {}).get("rescale"))


def _is_failed(job: Json) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Failed" and each["status"] == "True" for each in conditions)
