"""Kills one of the two processes of Optimus, -9, at an instant that a test chooses."""

from tests.harness.containers import container_process, kill_process
from tests.harness.optimus_cluster import AUTOSCALER, SCHEDULER
from tests.harness.scenario import Scenario

PROCESSES = {"autoscaler": (AUTOSCALER, "-m autoscaler"), "extender": (SCHEDULER, "-m extender")}


class ProcessKiller:
    """Kills one process (`autoscaler` or `extender`), once."""

    def __init__(self, scenario: Scenario, process: str) -> None:
        self._stage, self._container = scenario, process
        self._deployment, part_of_command = PROCESSES[process]
        self._victim = container_process(
            scenario.optimus.cluster, scenario.optimus.pod_of(self._deployment), part_of_command
        )
        self._restarts = scenario.restarts(self._deployment, process)
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
            lambda: self._stage.restarts(*restarts) > self._restarts,
            f"{self._container} is started again",
        )
        self._stage.optimus.wait_rolled_out(self._deployment)
