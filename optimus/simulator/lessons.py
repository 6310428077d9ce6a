"""What `dl2` learns from: drawn jobs of the testbed in slots, and a policy as the teacher."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.allocation import AllocationProblem, Candidate
from optimus.allocation.fairness import PROPORTIONAL, JobObjective
from optimus.allocation.policy import PoolRule
from optimus.allocation.scorer import MOST
from optimus.jobs import CountBounds, Counts
from optimus.models.forecast import Forecast
from optimus.placement.theorem1 import Theorem1
from optimus.resources import Resources, total
from optimus.simulator.gym import Choose, Counted, Slot, SlotTrace
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
    tasks = [(each.job.ps.resources, each.job.worker.resources) for each in workload.jobs]
    names = tuple(sorted({name for both in tasks for task in both for name in task}))
    capacity = total(node.allocatable for node in workload.nodes)
    at = np.array([each.job.created_at for each in workload.jobs]) * _JOBS / _USUAL_JOBS / rate
    arrives = np.floor(at / _SLOT_SECONDS).astype(np.int64)
    return SlotTrace(
        arrives - arrives.min(),
        np.ones(len(tasks)),
        np.stack([_in_a_slot(each, empty, seed) for each in workload.jobs]),
        np.array([[[task[name] for name in names] for task in both] for both in tasks], float),
        np.array([capacity[name] for name in names], float),
        _SLOT_SECONDS,
        tuple(replace(each.job, bounds=CountBounds(1, MOST, 1, MOST)) for each in workload.jobs),
        names,
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


@dataclass(frozen=True, slots=True)
class _TableSpeed:
    """Parts of a job per second; implements ``models.forecast.Speed``."""

    table: NDArray[np.float64]

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        p, w = np.broadcast_arrays(np.asarray(ps), np.asarray(workers))
        within = (p <= MOST) & (w <= MOST)
        return np.where(within, self.table[np.minimum(p, MOST), np.minimum(w, MOST)], 0.0)


def taught_by(rule: PoolRule) -> Choose:
    """A policy on the true speeds as the teacher of one episode."""

    def choose(slot: Slot) -> tuple[Counted, Counted]:
        trace, rows = slot.trace, np.flatnonzero(slot.present[0]).tolist()
        objective = JobObjective(1.0, PROPORTIONAL, 1.0)
        candidates = tuple(
            Candidate(
                trace.jobs[row],
                Forecast(
                    _TableSpeed(trace.speed[row] / trace.slot_seconds), float(slot.left[0, row])
                ),
                objective=objective,
            )
            for row in rows
        )
        amounts = zip(trace.resources, trace.capacity.astype(int).tolist(), strict=True)
        capacity = Resources(dict(amounts))
        given = rule.allocate(AllocationProblem(capacity, capacity, candidates)).counts
        ps = np.zeros((1, len(trace.work)), dtype=np.int64)
        workers = ps.copy()
        for row in rows:
            ps[0, row], workers[0, row] = given.get(trace.jobs[row].uid, Counts(0, 0))
        return ps, workers

    return choose
