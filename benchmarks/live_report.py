"""What the records of ``benchmarks.live_worth`` say: figures of pairs."""

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from benchmarks.live_run import MANAGED, UNTOUCHED, JobRecord

_DRAWS: Final = 4000

PAIR: Final = "pair.json"
"""The file of a pair beside those of its jobs."""

_SEEN_SECONDS: Final = 4.0
"""A stop's rescale is in the profile by then."""

Json = dict[str, Any]
Run: TypeAlias = Sequence[tuple[float, int]]
"""The instants of a run's steps."""


class Stop(NamedTuple):
    """A job's training stopped, and went on in other pods."""

    at: float
    why: str
    """What moved it."""
    saved_seconds: float
    """What the speed after it brought until the next stop, less what the stop cost."""
    stopped_seconds: float
    """From the last step before to the first after, less one step."""
    redone_seconds: float
    """Until it was again where it had been."""
    lost_steps: int


@dataclass(frozen=True)
class JobPair:
    """One job managed and untouched."""

    job: str
    managed: JobRecord
    untouched: JobRecord
    limit_seconds: float
    """What counts as the end of one that did not end."""

    @property
    def ratio(self) -> float:
        """Its completion time managed, divided by that untouched."""
        return self.seconds(self.managed) / self.seconds(self.untouched)

    def seconds(self, record: JobRecord) -> float:
        """From its creation to its end."""
        ended = self.limit_seconds if record.ended is None else record.ended
        return ended - record.submitted

    @property
    def misses_deadline(self) -> bool:
        """Whether it is late managed, and was in time untouched."""
        deadline = self.managed.deadline
        if deadline is None or self.untouched.deadline is None:
            return False
        late = self.managed.ended is None or self.managed.ended > deadline
        in_time = self.untouched.ended is not None
        return late and in_time and (self.untouched.ended or 0.0) <= self.untouched.deadline


class Circumstances(NamedTuple):
    """Under which a pair was run."""

    limit_seconds: float
    cpu_seconds: Mapping[str, float]
    """Of each cluster."""
    seconds: int
    cores_busy: float
    """With whatever the machine did meanwhile."""
    cores: int


class Pair(NamedTuple):
    """All jobs of one seed, managed and untouched at the same time."""

    name: str
    jobs: Sequence[JobPair]
    circumstances: Circumstances


class Recorded(Protocol):
    """A cluster's jobs, and what they did."""

    @property
    def name(self) -> str:
        """Managed or untouched."""
        ...

    @property
    def records(self) -> Mapping[str, JobRecord]:
        """By the names of the jobs."""
        ...


def write_pair(folder: Path, sides: Sequence[Recorded], circumstances: Circumstances) -> None:
    """Write each job's record."""
    folder.mkdir(parents=True, exist_ok=True)
    for side in sides:
        for name, record in side.records.items():
            (folder / f"{side.name}-{name}.json").write_text(json.dumps(asdict(record), indent=1))
    (folder / PAIR).write_text(json.dumps(circumstances._asdict(), indent=1))


def read_pair(folder: Path) -> Pair:
    """Read what ``write_pair`` wrote."""
    circumstances = Circumstances(**json.loads((folder / PAIR).read_text()))
    names = sorted(path.stem.partition("-")[2] for path in folder.glob(f"{MANAGED}-*.json"))
    jobs = [
        JobPair(
            name,
            _record(folder / f"{MANAGED}-{name}.json"),
            _record(folder / f"{UNTOUCHED}-{name}.json"),
            circumstances.limit_seconds,
        )
        for name in names
    ]
    return Pair(folder.name, jobs, circumstances)


def _record(path: Path) -> JobRecord:
    return JobRecord(**json.loads(path.read_text()))


def stops(record: JobRecord) -> list[Stop]:
    """The stops of a job's training."""
    runs = [run for run in record.runs if run]
    return [_stop(record, before, after) for before, after in pairwise(runs)]


def _stop(record: JobRecord, before: Run, after: Run) -> Stop:
    (last_at, last), (first_at, first) = before[-1], after[0]
    caught_up = next((at for at, step in after if step > last), after[-1][0])
    speeds = _speed(before), _speed(after)
    one_step = 1 / speeds[0] if speeds[0] else 0.0
    stopped = max(first_at - last_at - one_step, 0.0)
    redone = max(caught_up - first_at, 0.0) if first <= last else 0.0
    brought = (after[-1][0] - first_at) * (speeds[1] / speeds[0] - 1) if speeds[0] else 0.0
    return Stop(
        last_at,
        _why(record, last_at),
        brought - stopped - redone,
        stopped,
        redone,
        max(last + 1 - first, 0),
    )


def _speed(run: Run) -> float:
    (began, first), (ended, last) = run[0], run[-1]
    return (last - first) / (ended - began) if ended > began else 0.0


def _why(record: JobRecord, at: float) -> str:
    """The rescale that stopped a job."""
    rescales = [
        status["rescale"]
        for seen, status in record.statuses
        if seen <= at + _SEEN_SECONDS and status.get("rescale")
    ]
    if not rescales:
        return "other"
    why, purpose = rescales[-1].get("why", ""), rescales[-1].get("purpose", "") or "interval"
    if "releases capacity" in why:
        return "releases capacity"
    expected = why.startswith("estimated")
    return "expected growth" if expected else purpose


def slowdown(record: JobRecord) -> float | None:
    """What an untouched job's training took, divided by its stated costs; None: it was moved, or
    has not ended."""
    runs = [run for run in record.runs if run]
    if len(runs) != 1 or record.ended is None:
        return None
    (began, first), (ended, last) = runs[0][0], runs[0][-1]
    stated = record.training_seconds_at_user_counts * (last - first) / last
    return (ended - began) / stated if stated else None


def forecast_errors(records: Iterable[JobRecord], part: float = 0.0) -> list[float]:
    """Stated remaining time / actual - 1 of each job that ended, where its status first states it
    after this part of its training."""
    errors = []
    for record in records:
        runs = [run for run in record.runs if run]
        if record.ended is None or not runs:
            continue
        begun = runs[0][0][0] + part * (record.ended - runs[0][0][0])
        stated = (
            status["remainingSeconds"] / (record.ended - at) - 1
            for at, status in record.statuses
            if begun <= at < record.ended and status.get("remainingSeconds") is not None
        )
        errors += list(islice(stated, 1))
    return errors


def _bias(errors: Sequence[float]) -> list[float]:
    """How many, their mean, and the mean of their size."""
    if not errors:
        return [0]
    return [len(errors), round(fmean(errors), 3), round(fmean(map(abs, errors)), 3)]


def figures(pairs: Sequence[Pair]) -> Json:
    """The figures of some pairs together."""
    jobs = [job for pair in pairs for job in pair.jobs]
    low, high = interval(pairs)
    managed = [job.managed for job in jobs]
    lost = [stop for record in managed for stop in stops(record)]
    stopped = sum(stop.stopped_seconds + stop.redone_seconds for stop in lost)
    worst = sorted(jobs, key=lambda job: -job.ratio)
    slow = [value for job in jobs if (value := slowdown(job.untouched)) is not None]
    return {
        "managed / untouched, sum of completion times": round(ratio(pairs), 3),
        "interval, 95 %": [low, high],
        "seconds managed": round(sum(job.seconds(job.managed) for job in jobs)),
        "seconds untouched": round(sum(job.seconds(job.untouched) for job in jobs)),
        "jobs, the worst first": [f"{job.job} {job.ratio:.2f}" for job in worst],
        "restarts": len(lost),
        "stops by reason: number, seconds saved": _by_reason(lost),
        "stopped + redone, part of training": round(stopped / sum(map(_training, managed)), 3),
        "seconds to the first step, managed and untouched": [
            round(sum(map(_start_seconds, managed))),
            round(sum(_start_seconds(job.untouched) for job in jobs)),
        ],
        "steps lost": sum(stop.lost_steps for stop in lost),
        "deadlines missed that untouched meets": sum(job.misses_deadline for job in jobs),
        "not ended, managed": sum(record.ended is None for record in managed),
        "not ended, untouched": sum(job.untouched.ended is None for job in jobs),
        "untouched training / stated costs, median and most": [
            round(sorted(slow)[len(slow) // 2], 3) if slow else None,
            round(max(slow), 3) if slow else None,
        ],
        "forecasts of untouched jobs / actual - 1, first and at 30 %: number, mean, mean size": [
            _bias(forecast_errors((job.untouched for job in jobs), part)) for part in (0.0, 0.3)
        ],
        "circumstances": {pair.name: pair.circumstances._asdict() for pair in pairs},
    }


def _start_seconds(record: JobRecord) -> float:
    return next((run[0][0] - record.submitted for run in record.runs if run), 0.0)


def _by_reason(lost: Sequence[Stop]) -> Json:
    reasons = sorted({stop.why for stop in lost})
    by_reason = {why: [stop.saved_seconds for stop in lost if stop.why == why] for why in reasons}
    return {why: [len(saved), round(sum(saved))] for why, saved in by_reason.items()}


def _training(record: JobRecord) -> float:
    runs = [run for run in record.runs if run]
    return max(runs[-1][-1][0] - runs[0][0][0], 1e-9) if runs else 1e-9


def ratio(pairs: Sequence[Pair]) -> float:
    """The sum of completion times managed, divided by that untouched."""
    jobs = [job for pair in pairs for job in pair.jobs]
    return sum(job.seconds(job.managed) for job in jobs) / sum(
        job.seconds(job.untouched) for job in jobs
    )


def interval(pairs: Sequence[Pair]) -> tuple[float, float]:
    """95 % of that ratio, by a bootstrap over pairs, and over the jobs of each."""
    draws = random.Random(1)
    found = sorted(
        ratio([_redrawn(pair, draws) for pair in draws.choices(pairs, k=len(pairs))])
        for _ in range(_DRAWS)
    )
    return round(found[int(0.025 * _DRAWS)], 3), round(found[int(0.975 * _DRAWS)], 3)


def _redrawn(pair: Pair, draws: random.Random) -> Pair:
    return pair._replace(jobs=draws.choices(pair.jobs, k=len(pair.jobs)))
