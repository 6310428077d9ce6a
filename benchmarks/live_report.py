"""What the records of ``benchmarks.live_worth`` say: figures of pairs, and timelines."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

from benchmarks.live_run import JobRecord

_DRAWS: Final = 4000
_WIDTH: Final = 100

Json = dict[str, Any]


class Stop(NamedTuple):
    """A job's training stopped, and went on in other pods."""

    at: float
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


class Pair(NamedTuple):
    """All jobs of one seed, managed and untouched at the same time."""

    name: str
    jobs: Sequence[JobPair]
    cpu_seconds: Mapping[str, float]
    """Of each cluster."""
    machine: Mapping[str, float]
    """What the machine did meanwhile."""


def stops(record: JobRecord) -> list[Stop]:
    """The stops of a job's training."""
    runs = [run for run in record.runs if run]
    return [_stop(before, after) for before, after in pairwise(runs)]


def _stop(before: Sequence[tuple[float, int]], after: Sequence[tuple[float, int]]) -> Stop:
    (last_at, last), (first_at, first) = before[-1], after[0]
    caught_up = next((at for at, step in after if step > last), after[-1][0])
    return Stop(
        last_at,
        max(first_at - last_at - _step_seconds(before), 0.0),
        max(caught_up - first_at, 0.0) if first <= last else 0.0,
        max(last + 1 - first, 0),
    )


def _step_seconds(run: Sequence[tuple[float, int]]) -> float:
    (began, first), (ended, last) = run[0], run[-1]
    return (ended - began) / (last - first) if last > first else 0.0


def slowdown(record: JobRecord) -> float | None:
    """What an untouched job's training took, divided by its stated costs; None: it was moved, or
    has not ended."""
    runs = [run for run in record.runs if run]
    if len(runs) != 1 or record.ended is None:
        return None
    (began, first), (ended, last) = runs[0][0], runs[0][-1]
    stated = record.training_seconds_at_user_counts * (last - first) / last
    return (ended - began) / stated if stated else None


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
        "stopped + redone, part of training": round(stopped / sum(map(_training, managed)), 3),
        "steps lost": sum(stop.lost_steps for stop in lost),
        "deadlines missed that untouched meets": sum(job.misses_deadline for job in jobs),
        "not ended, managed": sum(record.ended is None for record in managed),
        "not ended, untouched": sum(job.untouched.ended is None for job in jobs),
        "untouched training / stated costs, median and most": [
            round(sorted(slow)[len(slow) // 2], 3) if slow else None,
            round(max(slow), 3) if slow else None,
        ],
    }


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


def timeline(pair: Pair) -> Iterator[str]:
    """Each job of a pair as two lines over time: managed above, untouched below it."""
    end = max(_end(each) for job in pair.jobs for each in (job.managed, job.untouched))
    yield f"{pair.name}: {end:.0f} s, a column is {end / _WIDTH:.1f} s"
    yield "digits: workers (+ from ten on), '.': not training, ' ': not there"
    for job in sorted(pair.jobs, key=lambda each: -each.ratio):
        for name, record in (("managed", job.managed), ("untouched", job.untouched)):
            shown = f"{job.job} {job.ratio:.2f}" if name == "managed" else ""
            yield f"{shown:>16} {name:>9} |{_line(record, end)}|"
    for job in sorted(pair.jobs, key=lambda each: -each.ratio):
        yield from _story(job)


def _end(record: JobRecord) -> float:
    last = record.runs[-1][-1][0] if record.runs and record.runs[-1] else 0.0
    return max(record.ended or 0.0, last)


def _line(record: JobRecord, end: float) -> str:
    return "".join(_mark(record, (index + 0.5) * end / _WIDTH) for index in range(_WIDTH))


def _mark(record: JobRecord, at: float) -> str:
    if at < record.submitted or (record.ended is not None and at > record.ended):
        return " "
    if not any(run and run[0][0] <= at <= run[-1][0] for run in record.runs):
        return "."
    workers = [each[2] for each in record.counts if each[0] <= at] or [record.user_counts[1]]
    return str(workers[-1]) if workers[-1] < 10 else "+"


def _story(job: JobPair) -> Iterator[str]:
    record = job.managed
    yield (
        f"--- {job.job}: {job.seconds(record):.0f} s managed, "
        f"{job.seconds(job.untouched):.0f} s untouched"
    )
    seen = set[str]()
    for at, status in record.statuses:
        rescale = status.get("rescale")
        if rescale and rescale["id"] not in seen:
            seen.add(rescale["id"])
            yield (
                f"  {at:5.0f} s  {rescale['fromPs']}+{rescale['fromWorkers']} -> "
                f"{rescale['toPs']}+{rescale['toWorkers']} {rescale.get('purpose', '')} "
                f"{rescale.get('why', '')}"
            )
    for stop in stops(record):
        yield (
            f"  {stop.at:5.0f} s  stopped for {stop.stopped_seconds:.1f} s, "
            f"{stop.lost_steps} steps lost"
        )
