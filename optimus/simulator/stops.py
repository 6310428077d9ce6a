"""What stopping a job costs in a simulation: training since its last checkpoint, and the restart.

By default a job saves whenever it is stopped, may be stopped at any time, and a restart takes the
time that is assumed for its model, with the save."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from optimus.jobs import RescaleRule
from optimus.simulator.jobs import Checkpoints, SimulatedJob, Workload

_COSTLESS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "start_seconds": 0.0,
        "rescale_seconds": 0.0,
        "straggling": None,
        "speed_noise": 0.0,
        "loss_noise": 0.0,
    }
)


@dataclass(frozen=True, slots=True)
class Stops:
    """The same for all jobs of a workload."""

    checkpoints: Checkpoints | None = None
    rescale: RescaleRule = RescaleRule.ANY
    """Of jobs that may be moved; one that may never be stays so."""
    save_seconds: float = 0.0
    """Of a job that saves as it is stopped: how long its pods stay for it."""
    restart_seconds: tuple[float, ...] = ()
    """What restarts were measured to take; each takes one of these, at random."""
    costless: bool = False
    """Whether starts and restarts take no time, no worker straggles, and measures are exact."""

    @property
    def measures_prices(self) -> bool:
        """Whether a job's rescales are weighed by what its last ones cost, as on a cluster."""
        return self != Stops()

    def of(self, workload: Workload) -> Workload:
        """The workload with these costs."""
        return replace(workload, jobs=tuple(map(self._of_job, workload.jobs)))

    def _of_job(self, simulated: SimulatedJob) -> SimulatedJob:
        job = simulated.job
        if job.rescale is not RescaleRule.NEVER:
            job = replace(job, rescale=self.rescale)
        if self.costless:
            simulated = replace(simulated, **_COSTLESS)
        return replace(
            simulated,
            job=job,
            checkpoints=self.checkpoints,
            save_seconds=self.save_seconds,
            restart_seconds=self.restart_seconds,
        )
