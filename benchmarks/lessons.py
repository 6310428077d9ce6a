"""What `dl2` learns in: drawn jobs of the testbed in slots."""

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.gym import SlotTrace
from optimus.allocation.scorer import MOST
from optimus.jobs import CountBounds
from optimus.models.forecast import Forecast
from optimus.placement.theorem1 import Theorem1
from optimus.resources import total
from optimus.simulator.jobs import SimulatedJob
from optimus.simulator.speeds import EmptyCluster, UncontendedSpeed
from optimus.simulator.streams import Purpose, stream
from optimus.simulator.training import Training
from optimus.simulator.workload import WORKLOADS

SETTING: Final = "testbed"
_JOBS: Final = 20
_USUAL_JOBS: Final = 60
_SLOT_SECONDS: Final = 120.0
_BUSIEST: Final = 2.0
"""Jobs come at 0.5 to 2 times the usual rate."""


def trace_of_testbed(seed: int) -> SlotTrace:
    """Jobs of the workload ``uniform`` on its 13 servers, with their true speeds alone on these."""
    draw = stream(seed, Purpose.WORKLOAD)
    workload = WORKLOADS["uniform"](_JOBS, draw)
    rate = _BUSIEST ** draw.uniform(-1, 1)
    empty = EmptyCluster(workload.nodes, Theorem1())
    at = np.array([each.job.created_at for each in workload.jobs]) * _JOBS / _USUAL_JOBS / rate
    arrives = np.floor(at / _SLOT_SECONDS).astype(np.int64)
    return SlotTrace(
        tuple(replace(each.job, bounds=CountBounds(1, MOST, 1, MOST)) for each in workload.jobs),
        total(node.allocatable for node in workload.nodes),
        arrives - arrives.min(),
        np.ones(len(workload.jobs)),
        np.stack([_in_a_slot(each, empty, seed) for each in workload.jobs]),
        _SLOT_SECONDS,
    )


def _in_a_slot(simulated: SimulatedJob, empty: EmptyCluster, seed: int) -> NDArray[np.float64]:
    """The part of a job that is done in a slot, at each counts."""
    speed = np.zeros((MOST + 1, MOST + 1))
    steps = Training(simulated, seed).end_epochs * simulated.steps_per_epoch
    forecast = Forecast(UncontendedSpeed(simulated, empty), steps, simulated.batch_per_worker)
    counts = np.arange(1, MOST + 1)
    seconds = forecast.remaining_seconds(counts[:, None], counts[None, :])
    speed[1:, 1:] = _SLOT_SECONDS / seconds
    return speed
