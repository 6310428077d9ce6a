"""Either process is killed, -9, in the middle of a rescale: what was begun is finished, and no training is lost."""

import pytest

from tests.e2e.harness.api import Json
from tests.e2e.harness.brute_force import complaints as misplacements
from tests.e2e.harness.containers import container_process, kill_process
from tests.e2e.harness.history import Change
from tests.e2e.harness.jobs import LightJob
from tests.e2e.harness.scene import Scene
from tests.e2e.harness.stack import AUTOSCALER, SCHEDULER
from tests.e2e.loop.chronicle import Chronicle
from tests.e2e.loop.jobs import at, set_bounds, small_job, wait_training

BEFORE, AFTER = (1, 2), (2, 3)
PROCESSES = {"autoscaler": (AUTOSCALER, "-m autoscaler"), "extender": (SCHEDULER, "-m extender")}


class Killer:
    """Kills one of the two processes once: when the job's profile shows a phase, or one of its pods is bound."""

    def __init__(self, stage: Scene, process: str) -> None:
        self._stage, self._container = stage, process
        self._deployment, part_of_command = PROCESSES[process]
        self._victim = container_process(stage.optimus.cluster, stage.optimus.pod_of(self._deployment), part_of_command)
        self._restarts = stage.restarts(self._deployment, process)
        self.has_killed = False

    def kill_once(self) -> None:
        """Kill it, unless that was done."""
        if not self.has_killed:
            self.has_killed = True
            kill_process(self._victim)

    def wait_restarted(self) -> None:
        """Wait until the kubelet's restart of it serves."""
        restarts = (self._deployment, self._container)
        self._stage.wait(
            lambda: self._stage.restarts(*restarts) > self._restarts, f"{self._container} is started again"
        )
        self._stage.optimus.wait_rolled_out(self._deployment)


def reaches(stage: Scene, chronicle: Chronicle, job: LightJob) -> None:
    """The job has reached its new counts by one rescale, was never failed, and goes on after its newest checkpoint."""
    wait_training(stage, chronicle, at(job, AFTER), 150)
    assert [str(each.target) for each in chronicle.rescales(job)] == [str(AFTER)], chronicle.rescales(job)
    stored = stage.stored(job)
    assert not stored["spec"]["runPolicy"].get("suspend")
    assert "optimus.dl/suspended-by" not in stored["metadata"]["annotations"]
    assert not chronicle.ever_failed(job)
    assert len(chronicle.logs.runs(job.name)) == 2, "it was restarted more often than the rescale asks for"
    assert not chronicle.training_complaints(job)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("phase", ["Suspending", "Resizing", "Starting"])
def test_the_autoscaler_killed_in_the_middle_of_a_rescale_goes_on_with_it(stage: Scene, phase: str) -> None:
    job = small_job("victim", BEFORE)
    killer = Killer(stage, "autoscaler")

    def on_profile(profile: Json) -> None:
        if (profile.get("status") or {}).get("phase") == phase:
            killer.kill_once()

    with Chronicle(stage, on_profile) as chronicle:
        stage.submit(job)
        wait_training(stage, chronicle, job)
        set_bounds(stage, job, AFTER)
        stage.wait(lambda: killer.has_killed, f"the autoscaler was killed while the job was {phase}")
        killer.wait_restarted()
        reaches(stage, chronicle, job)


@pytest.mark.timeout(400)
def test_the_extender_killed_while_a_rescaled_gang_is_bound_leaves_it_whole(stage: Scene) -> None:
    job = small_job("victim", BEFORE, "MXJob")
    killer = Killer(stage, "extender")

    with Chronicle(stage) as chronicle:
        stage.submit(job)
        wait_training(stage, chronicle, job)
        before = {pod["metadata"]["uid"] for pod in stage.pods(job)}

        def on_pod(change: Change) -> None:
            if change.pod["metadata"]["uid"] not in before and change.pod["spec"].get("nodeName"):
                killer.kill_once()

        with stage.history(on_pod):
            set_bounds(stage, job, AFTER)
            stage.wait(lambda: killer.has_killed, "the extender was killed when a pod of the rescaled job was bound")
        killer.wait_restarted()
        reaches(stage, chronicle, job)
        grown = at(job, AFTER)
        assert not misplacements(grown.demand(), stage.free_room_without(grown), stage.placement(grown))
