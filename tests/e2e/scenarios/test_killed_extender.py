"""The extender is killed, -9, while a gang is being bound: the gang is completed, never left in part."""

from collections.abc import Callable

import pytest

from tests.e2e.harness.brute_force import complaints
from tests.e2e.harness.containers import container_process, kill_process
from tests.e2e.harness.history import Change
from tests.e2e.harness.jobs import SLEEP, LightJob
from tests.e2e.harness.scene import Scene
from tests.e2e.harness.stack import SCHEDULER

TINY = {"cpu": "400m", "memory": "16Mi"}


def is_nominated(change: Change) -> bool:
    return bool(change.pod["status"].get("nominatedNodeName"))


def is_bound(change: Change) -> bool:
    return bool(change.pod["spec"].get("nodeName"))


@pytest.mark.parametrize(
    "instant",
    [
        pytest.param(is_nominated, id="when the first pod is told its node"),
        pytest.param(is_bound, id="when the first pod is bound"),
    ],
)
def test_a_gang_is_completed_after_the_extender_was_killed_in_the_middle(
    stage: Scene, instant: Callable[[Change], bool]
) -> None:
    job = LightJob("TFJob", "gang", 4, 20, requests={"PS": TINY, "Worker": TINY}, script=SLEEP)
    free = stage.free_room(job)
    victim = container_process(stage.optimus.cluster, stage.optimus.pod_of(SCHEDULER), "-m extender")
    restarts = stage.restarts(SCHEDULER, "extender")
    bound_at_kill: list[int] = []

    def kill_once(change: Change) -> None:
        if not bound_at_kill and instant(change):
            kill_process(victim)
            bound_at_kill.append(len(history.bound_now().get("gang", ())))

    with stage.history(kill_once) as history:
        stage.submit(job)
        observed = stage.wait_bound(job, 90)
    stage.wait(lambda: stage.restarts(SCHEDULER, "extender") > restarts, "the extender was started again")
    assert bound_at_kill, "it was never killed"
    assert not complaints(job.demand(), free, observed), f"killed with {bound_at_kill[0]} of {job.pods} bound"
    assert "Failed" not in stage.conditions(job)
    stage.optimus.wait_rolled_out(SCHEDULER)
