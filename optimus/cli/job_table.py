"""Tables of jobs to allocate and place: 16 columns, with or without a header line.

``id, arrival, Q, M, t0, t1, t2, t3, t4``, then cpu, memory and bandwidth of one PS, then cpu,
memory, bandwidth and gpu of one worker. A job's speed at p PSs and w workers is 1 / (t0 M/w + t1 +
t2 w/p + t3 w + t4 p) (Optimus, equation 4), and its remaining time Q divided by that. Amounts are
cores, GiB, Gbit/s and whole GPUs; fractions are rounded up to the units in which the product
counts."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.allocation import Candidate
from optimus.allocation.problem import Counted, RemainingSeconds, Seconds
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
        return np.asarray(1.0 / TableForecast(self, 1.0).remaining_seconds(ps, workers))


@dataclass(frozen=True, slots=True)
class TableForecast(Forecast):
    """Remaining seconds by equation 4; ``remaining_steps`` is Q."""

    speed: TableSpeed

    def remaining_seconds(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """Remaining seconds at each pair of counts (arrays broadcast)."""
        p, w = np.asarray(ps, dtype=np.float64), np.asarray(workers, dtype=np.float64)
        shared, fixed, link, worker, server = self.speed.terms
        step = shared / w + fixed + link * w / p + worker * w + server * p
        return np.asarray(self.remaining_steps * step)

    def at(self, counts: Counts) -> float:
        """Remaining seconds at these counts."""
        p, w = counts
        shared, fixed, link, worker, server = self.speed.terms
        return self.remaining_steps * (shared / w + fixed + link * w / p + worker * w + server * p)

    @classmethod
    def stacked(cls, forecasts: Sequence["TableForecast"]) -> RemainingSeconds:
        """Stack many jobs, each by its row (``optimus.allocation.problem``)."""
        steps = np.array([forecast.remaining_steps for forecast in forecasts], dtype=np.float64)
        terms = np.array([each.speed.terms for each in forecasts], dtype=np.float64).T.copy()

        def evaluate(rows: Counted, ps: Counted, workers: Counted) -> Seconds:
            p, w = ps.astype(np.float64), workers.astype(np.float64)
            shared, fixed, link, worker, server = (term[rows] for term in terms)
            step = shared / w + fixed + link * w / p + worker * w + server * p
            return np.asarray(steps[rows] * step)

        return evaluate


def read_job_table(file: Path, node: Resources) -> tuple[Candidate, ...]:
    """The jobs of a file; raises ``BadInput`` for the first that is wrong or fits no such node."""
    jobs: list[Candidate] = []
    lines: dict[str, int] = {}
    known: dict[Resources, Resources] = {}
    for row in _rows(file):
        candidate = _job(row, known)
        uid = candidate.job.uid
        if uid in lines:
            raise row.error(f"job {uid} is in line {lines[uid]} already; every id once is expected")
        lines[uid] = row.line
        for role, spec in (("PS", candidate.job.ps), ("worker", candidate.job.worker)):
            for name in spec.resources.lacking_in(node):
                asked, has = in_units(name, spec.resources[name]), in_units(name, node[name])
                problem = f"a {role} of job {uid} requests {asked} {name}, and a node has {has}"
                raise row.error(f"{problem}; tasks that fit on one node are expected")
        jobs.append(candidate)
    if not jobs:
        raise BadInput(file, "at least one job is expected")
    return tuple(jobs)


def in_units(name: str, amount: int) -> str:
    """An amount as the table writes it."""
    return f"{amount / UNITS[name]:g}"


def amounts(values: Mapping[str, float]) -> Resources:
    """Amounts of the table as the product counts them."""
    return Resources(
        {name: math.ceil(round(value * UNITS[name], 6)) for name, value in values.items()}
    )


def _rows(file: Path) -> Iterator[CsvRow]:
    for index, (line, cells) in enumerate(split_rows(file, read_lines(file))):
        if index == 0 and _is_header(cells):
            continue
        if len(cells) != len(COLUMNS):
            wanted = f"{len(COLUMNS)} columns are expected ({', '.join(COLUMNS)})"
            raise BadInput(file, f"{len(cells)} columns; {wanted}", line)
        yield CsvRow(file, line, dict(zip(COLUMNS, cells, strict=True)))


def _is_header(row: Sequence[str]) -> bool:
    """A line without a single number behind the id."""
    return len(row) > 1 and not any(_is_number(cell) for cell in row[1:]) and any(row[1:])


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _job(row: CsvRow, known: dict[Resources, Resources]) -> Candidate:
    uid = row.cells["id"]
    if not uid:
        raise row.error("an id is expected in the first column")
    value = {name: row.number(name, 0, _MAX_VALUE) for name in COLUMNS[1:]}
    if value["M"] <= 0:
        raise row.error(f"M, the batch, is {row.cells['M']}; more than 0 is expected")
    if value["worker_gpu"] != int(value["worker_gpu"]):
        raise row.error(f"worker_gpu is {row.cells['worker_gpu']}; a whole number is expected")
    terms = (value["t0"] * value["M"], value["t1"], value["t2"], value["t3"], value["t4"])
    if not any(terms):
        raise row.error("t0 to t4 are all 0, an infinite speed; at least one above 0 is expected")
    specs = []
    for role in ("ps", "worker"):
        asked = amounts({name: value.get(f"{role}_{name}", 0.0) for name in UNITS})
        if not asked:
            problem = f"a {role} that requests nothing"
            raise row.error(f"{problem}; at least one amount above 0 is expected")
        specs.append(ReplicaSpec(known.setdefault(asked, asked)))
    job = Job(
        key=JobKey("table", uid), uid=uid, kind="table", created_at=value["arrival"],
        counts=Counts(1, 1), ps=specs[0], worker=specs[1], goal=_GOAL,
    )  # fmt: skip
    return Candidate(job, TableForecast(TableSpeed(terms), value["Q"]))
