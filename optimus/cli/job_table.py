"""Tables of jobs to allocate and place: 16 columns, with or without a header line.

A job's speed at p PSs and w workers is 1 / (t0 M/w + t1 + t2 w/p + t3 w + t4 p) (Optimus, equation
4), and its remaining time Q divided by that. Amounts are cores, GiB, Gbit/s and whole GPUs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.allocation import Candidate
from optimus.cli.command import BadInput
from optimus.cli.csv_table import CsvRow, read_lines, split_rows
from optimus.jobs import Counts, Goal, Job, JobKey, ReplicaSpec, TargetLoss
from optimus.models.forecast import Forecast
from optimus.resources import Resources

COLUMNS: Final = (
    *("id", "arrival", "Q", "M", "t0", "t1", "t2", "t3", "t4"),
    *("ps_cpu", "ps_memory", "ps_bandwidth"),
    *("worker_cpu", "worker_memory", "worker_bandwidth", "worker_gpu"),
)
UNITS: Final[Mapping[str, int]] = {"cpu": 1000, "memory": 2**30, "bandwidth": 1000, "gpu": 1}
"""Resource -> units of the product in one unit of the table: millicores, bytes, Mbit/s, GPUs."""
_MAX_VALUE: Final = 1e12
_GOAL: Final[Goal] = TargetLoss(0.0)
"""Jobs of a table are managed; what is left to do of them is stated."""


@dataclass(frozen=True, slots=True)
class TableSpeed:
    """Speed by equation 4, exactly as the table says. ``terms`` are t0 M, t1, t2, t3, t4."""

    terms: tuple[float, float, float, float, float]

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """Speed at each pair of counts (arrays broadcast)."""
        p, w = np.asarray(ps, dtype=np.float64), np.asarray(workers, dtype=np.float64)
        shared, fixed, link, worker, server = self.terms
        return np.asarray(1 / (shared / w + fixed + link * w / p + worker * w + server * p))


def read_job_table(file: Path, node: Resources) -> tuple[Candidate, ...]:
    """The jobs of a file; raises ``BadInput`` for the first that is wrong or fits no such node."""
    jobs: dict[str, Candidate] = {}
    for line, cells in split_rows(file, read_lines(file)):
        if cells[0].lower() == "id":
            continue
        if len(cells) != len(COLUMNS):
            wanted = f"{len(COLUMNS)} columns are expected ({', '.join(COLUMNS)})"
            raise BadInput(file, f"{len(cells)} columns; {wanted}", line)
        row = CsvRow(file, line, dict(zip(COLUMNS, cells, strict=True)))
        candidate = _job(row, node)
        if candidate.job.uid in jobs:
            raise row.error(f"job {candidate.job.uid} once is expected")
        jobs[candidate.job.uid] = candidate
    if not jobs:
        raise BadInput(file, "at least one job is expected")
    return tuple(jobs.values())


def amounts(values: Mapping[str, float]) -> Resources:
    """Amounts of the table in units of the product, rounded up."""
    return Resources(
        {name: math.ceil(round(value * UNITS[name], 6)) for name, value in values.items()}
    )


def _job(row: CsvRow, node: Resources) -> Candidate:
    uid, value = row.cells["id"], {n: row.number(n, 0, _MAX_VALUE) for n in COLUMNS[1:]}
    terms = (value["t0"] * value["M"], value["t1"], value["t2"], value["t3"], value["t4"])
    if not (uid and value["M"] and any(terms)) or value["worker_gpu"] % 1:
        raise row.error("an id, M and one of t0 to t4 above 0, and whole GPUs are expected")
    ps, worker = (
        amounts({name: value.get(f"{role}_{name}", 0.0) for name in UNITS})
        for role in ("ps", "worker")
    )
    for asked in (ps, worker):
        lacking = ", ".join(asked.lacking_in(node))
        if lacking or not asked:
            problem = f"a task of job {uid} asks for more {lacking} than a node has"
            expected = "PSs and workers that request something and fit on one node are expected"
            raise row.error(f"{problem}; {expected}" if lacking else expected)
    job = Job(
        key=JobKey("table", uid), uid=uid, kind="table", created_at=value["arrival"],
        counts=Counts(1, 1), ps=ReplicaSpec(ps), worker=ReplicaSpec(worker), goal=_GOAL,
    )  # fmt: skip
    return Candidate(job, Forecast(TableSpeed(terms), value["Q"]))
