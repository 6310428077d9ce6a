"""Workers of a real TensorFlow job come and go while it trains, under the real training operator;
another number of PSs takes one restart, from the checkpoint that is saved as it stops."""

from collections.abc import Mapping

import pytest
import yaml

from tests.e2e.frameworks.framework_jobs import EXAMPLES, Counts, bounds
from tests.harness.api import CORE, KUBEFLOW, OPTIMUS, Json, in_namespace
from tests.harness.scenario import Scenario

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]

NAME = "tensorflow-dynamic"
LEAD = f"{NAME}-worker-0"


class DynamicJob:
    """The shipped job, held at the counts that its user's bounds allow."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario, self._api = scenario, scenario.api
        self._path = in_namespace(KUBEFLOW, scenario.namespace, "tfjobs", NAME)

    def submit(self, counts: Counts) -> None:
        body: Json = yaml.safe_load(
            (EXAMPLES / "tensorflow/tfjob-dynamic-workers.yaml").read_text()
        )
        body["metadata"]["annotations"].update(bounds(counts))
        body["metadata"]["annotations"]["optimus.dl/target-epochs"] = "1000"
        del body["metadata"]["annotations"]["optimus.dl/target-loss"]
        for spec in body["spec"]["tfReplicaSpecs"].values():
            (container,) = spec["template"]["spec"]["containers"]
            container["args"][0] = "--steps=100000"
        self._scenario.create(KUBEFLOW, "tfjobs", body)

    def steps(self) -> list[int]:
        """Those that worker 0 has printed."""
        lines = self._scenario.log(LEAD).splitlines()
        return [int(line.split("step=")[1].split()[0]) for line in lines if " step=" in line]

    def pods(self) -> Mapping[str, tuple[str, int]]:
        """By name, the UID of each pod that trains or serves, and the restarts of its container."""
        selector = f"training.kubeflow.org/job-name={NAME}"
        path = in_namespace(CORE, self._scenario.namespace, "pods")
        return {
            pod["metadata"]["name"]: (
                pod["metadata"]["uid"],
                pod["status"]["containerStatuses"][0]["restartCount"],
            )
            for pod in self._api.items(path, labelSelector=selector)
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        }

    def trains_further(self) -> None:
        """Wait for more steps."""
        before = max(self.steps(), default=0)
        self._wait(lambda: max(self.steps(), default=0) > before + 10, "it trains")

    def go_to(self, counts: Counts, rescales: int) -> None:
        """Move the bounds, and wait until the job is there."""
        self._api.patch(self._path, {"metadata": {"annotations": dict(bounds(counts))}})
        self._wait(lambda: self._is_at(counts, rescales), f"it goes to {counts}")

    def _is_at(self, counts: Counts, rescales: int) -> bool:
        assert not {"Failed", "Succeeded"} & self.conditions(), self._scenario.describe()
        path = in_namespace(OPTIMUS, self._scenario.namespace, "trainingprofiles", NAME)
        status: Json = (self._api.find(path) or {}).get("status") or {}
        is_done = status.get("rescales") == rescales and "rescale" not in status
        return is_done and len(self.pods()) == sum(counts)

    def conditions(self) -> set[str]:
        """The types of the job's conditions that are true."""
        found = (self._api.get(self._path).get("status") or {}).get("conditions") or ()
        return {each["type"] for each in found if each["status"] == "True"}

    def _wait(self, condition: object, sentence: str) -> None:
        self._scenario.wait(condition, f"{NAME}: {sentence}", 300)  # type: ignore[arg-type]


def test_workers_come_and_go_while_the_others_train(dynamic: Scenario) -> None:
    job = DynamicJob(dynamic)
    job.submit(Counts(1, 2))
    job.trains_further()
    at_first = job.pods()
    assert len(at_first) == 3

    job.go_to(Counts(1, 4), 1)
    job.trains_further()
    grown = job.pods()
    assert grown.items() >= at_first.items(), "who was there has not restarted"

    job.go_to(Counts(1, 2), 2)
    job.trains_further()
    assert job.pods() == at_first, "the highest indexes have gone, and nobody else restarted"
    steps = job.steps()
    assert steps == sorted(steps), "the step count never goes back"

    job.go_to(Counts(2, 2), 3)
    job.trains_further()
    assert not job.pods().keys() & {uid for uid, _ in at_first.values()}
    assert min(job.steps()) > steps[-1], "no step is lost by the restart"
    assert "Running" in job.conditions()
    reasons = [event["reason"] for event in dynamic.events(NAME)]
    assert not {"RollingBack", "DidNotSave", "LeftAlone"} & set(reasons), dynamic.describe()
