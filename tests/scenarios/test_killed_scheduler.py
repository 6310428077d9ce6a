"""The extender or its kube-scheduler is killed, -9, while a gang is being bound: the gang is
completed all the same. A kube-scheduler whose extender hangs ends, so that another can lead."""

from tests.harness.api import Json
from tests.harness.containers import container_process, frozen_container
from tests.harness.light_jobs import SLEEP, LightJob
from tests.harness.optimus_cluster import SCHEDULER
from tests.harness.scenario import Scenario

TINY = {"cpu": "400m", "memory": "16Mi"}


def is_bound(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName"))


def test_a_kube_scheduler_without_an_answering_extender_is_ended(scenario: Scenario) -> None:
    pod = scenario.optimus.pod_of(SCHEDULER)
    extender = container_process(scenario.optimus.cluster, pod, "-m extender")
    restarts = [scenario.restarts(SCHEDULER, name) for name in ("kube-scheduler", "extender")]
    with frozen_container(extender):
        scenario.wait(
            lambda: scenario.restarts(SCHEDULER, "kube-scheduler") > restarts[0],
            "kube-scheduler was ended, and started again",
        )
    assert scenario.restarts(SCHEDULER, "extender") == restarts[1]
    scenario.optimus.wait_rolled_out(SCHEDULER)
    job = LightJob("TFJob", "later", 2, 2, requests={"PS": TINY, "Worker": TINY}, script=SLEEP)
    scenario.submit(job)
    scenario.wait_bound(job)
