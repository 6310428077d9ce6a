"""The extender or its kube-scheduler is killed, -9, while a gang is being bound: the gang is
completed all the same. A kube-scheduler whose extender hangs ends, so that another can lead."""

from collections.abc import Callable

from tests.cases import cases
from tests.harness.api import Json
from tests.harness.brute_force import violations_beside_bound
from tests.harness.containers import container_process, frozen_container, kill_process
from tests.harness.light_jobs import SLEEP, LightJob
from tests.harness.optimus_cluster import SCHEDULER
from tests.harness.scenario import Scenario

TINY = {"cpu": "400m", "memory": "16Mi"}


def is_bound(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName"))


@cases(
    ("container", "command", "instant"),
    {
        "the extender, when the first pod is bound": (
            "extender",
            "-m extender",
            is_bound,
        ),
        "kube-scheduler, when the first pod is bound": ("kube-scheduler", "--config=", is_bound),
    },
)
def test_a_gang_is_bound_whole_after_a_scheduler_process_is_killed(
    scenario: Scenario, container: str, command: str, instant: Callable[[Json], bool]
) -> None:
    job = LightJob("TFJob", "gang", 4, 20, requests={"PS": TINY, "Worker": TINY}, script=SLEEP)
    free = scenario.free_resources(job)
    victim = container_process(
        scenario.optimus.cluster, scenario.optimus.pod_of(SCHEDULER), command
    )
    restarts = scenario.restarts(SCHEDULER, container)
    bound_at_kill: list[int] = []

    def kill_once(pod: Json) -> None:
        if not bound_at_kill and instant(pod):
            kill_process(victim)
            bound_at_kill.append(len(history.bound_now().get("gang", ())))

    with scenario.history(kill_once) as history:
        scenario.submit(job)
        observed = scenario.wait_bound(job)
    scenario.wait(
        lambda: scenario.restarts(SCHEDULER, container) > restarts, f"{container} was started again"
    )
    assert bound_at_kill, "it was never killed"
    assert not violations_beside_bound(job.demand(), free, observed), (
        f"killed with {bound_at_kill[0]} of {job.pods} bound"
    )
    assert "Failed" not in scenario.conditions(job)
    scenario.optimus.wait_rolled_out(SCHEDULER)


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
