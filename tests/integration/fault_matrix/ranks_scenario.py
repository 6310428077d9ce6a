"""A PyTorchJob that is moved while the autoscaler is killed."""

import re
from collections.abc import Iterator, Sequence

from localcluster.faults.faults import Fault
from tests.harness.api import KUBEFLOW, OPTIMUS, Json, in_namespace
from tests.harness.faults.state_recorder import GONE
from tests.harness.pytorch_jobs import pytorch_job
from tests.harness.waiting import LONG_SECONDS
from tests.integration.fault_matrix.call_points import CallPoint, call_points
from tests.integration.fault_matrix.matrix_scenario import MatrixScenario


class RanksScenario(MatrixScenario):
    """A Master and one worker, or three."""

    _workers = 1

    def _enumerate(self) -> tuple[CallPoint, ...]:
        self._scenario.create(KUBEFLOW, "pytorchjobs", pytorch_job(1))
        self._wait_training()
        found: dict[CallPoint, None] = {}
        for number in range(4):
            self._proxy.inject()
            self._resize()
            if number > 1:  # what its first two stops show is told once
                found |= dict.fromkeys(call_points(self._proxy.calls))
        return tuple(found)

    def _move(self, faults: Sequence[Fault], is_refused: bool = False) -> list[str]:
        del is_refused  # it is only killed
        self._proxy.inject()
        self._wait_training()
        step = max(map(int, re.findall(r"step=(\d+)", self._log())))
        self._early_resumes.clear()
        self._proxy.inject(*faults)
        self._resize()
        return list(self._wrong(step))

    def _wrong(self, step: int) -> Iterator[str]:
        job, (restored,) = self._job(), re.findall(r"restored step (\d+) world (\d+)", self._log())
        conditions = {
            each["type"] for each in job["status"]["conditions"] if each["status"] == "True"
        }
        if conditions & {"Failed", "Succeeded", "Suspended"}:
            yield f"it is {conditions}"
        if "optimus.dl/suspended-by" in job["metadata"]["annotations"]:
            yield "it carries our mark"
        if int(restored[0]) < step or int(restored[1]) != self._workers + 1:
            yield f"it restored {restored} after step {step}"
        yield from self._early_resumes
        yield from self._scenario.autoscaler_defects()

    def _resize(self) -> None:
        self._workers = 4 - self._workers
        bounds = {f"optimus.dl/{each}-workers": str(self._workers) for each in ("min", "max")}
        self._scenario.api.patch(self._path(), {"metadata": {"annotations": bounds}})
        self._wait_training()

    def _wait_training(self) -> None:
        what = f"it trains with {self._workers} workers"
        self._scenario.wait(self._trains, what, LONG_SECONDS)

    def _trains(self) -> bool:
        path = in_namespace(OPTIMUS, self._scenario.namespace, "trainingprofiles", "ddp")
        try:
            status = (self._scenario.api.find(path) or {}).get("status") or {}
            is_settled = status.get("phase") == "Training" and "rescale" not in status
            is_there = len(self._scenario.pods()) == self._workers + 1
            is_at = is_settled and is_there and status.get("workers") == self._workers
            return is_at and "step=" in self._log()
        except GONE:
            return False

    def _log(self) -> str:
        path = in_namespace("/api/v1", self._scenario.namespace, "pods", "ddp-master-0")
        return self._scenario.api.text(f"{path}/log")

    def _path(self) -> str:
        return in_namespace(KUBEFLOW, self._scenario.namespace, "pytorchjobs", "ddp")

    def _job(self) -> Json:
        return self._scenario.api.get(self._path())

    def _is_suspended(self) -> bool:
        return bool(self._job()["spec"].get("runPolicy", {}).get("suspend"))
