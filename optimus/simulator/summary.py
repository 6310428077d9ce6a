"""Figures by policy over several simulations, and ratios, with confidence intervals over seeds.

Each seed is one observation: a figure's interval is that of Student's t over the seeds' figures.
Policies are compared seed by seed: a ratio's interval is over the ratios."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from scipy.special import stdtrit

from optimus.resources import CPU
from optimus.simulator.results import GPU, Simulation, TimelinePoint, by_policy


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds, ``None`` if no seed has it, and its 95 % interval from two seeds on."""

    mean: float | None
    low: float | None
    high: float | None
    by_seed: tuple[float | None, ...]

    @classmethod
    def of(cls, by_seed: Sequence[float | None]) -> "Estimate":
        """The estimate from one figure for each seed."""
        known = np.array([each for each in by_seed if each is not None])
        if not known.size:
            return cls(None, None, None, tuple(by_seed))
        mean = float(known.mean())
        if known.size == 1:
            return cls(mean, None, None, tuple(by_seed))
        quantile = float(stdtrit(known.size - 1, (1 + 0.95) / 2))
        half = quantile * float(known.std(ddof=1)) / float(np.sqrt(known.size))
        return cls(mean, mean - half, mean + half, tuple(by_seed))


def _completion(reduce: Callable[[list[float]], float]) -> Callable[[Simulation], float]:
    return lambda found: float(reduce([job.completion_seconds for job in found.jobs]))


def _time_held(found: Simulation, held: Callable[[TimelinePoint], float]) -> float:
    """Return what jobs held, times the seconds for which they did."""
    points = [each for each in found.timeline if each.at < found.ended_at]
    ends = [each.at for each in points[1:]] + [found.ended_at]
    return sum(held(each) * (end - each.at) for each, end in zip(points, ends, strict=True))


def _share(
    held: Callable[[TimelinePoint], int], resource: str
) -> Callable[[Simulation], float | None]:
    """The part of a resource held on average, from the first arrival to the last end."""

    def mean(found: Simulation) -> float | None:
        available = found.capacity[resource] * found.makespan_seconds
        return _time_held(found, held) / available if available else None

    return mean


def _per_job(attribute: str) -> Callable[[Simulation], float]:
    return lambda found: sum(getattr(job, attribute) for job in found.jobs) / len(found.jobs)


def _saved(found: Simulation) -> float | None:
    saved = [job.saved_seconds for job in found.jobs if job.saved_seconds is not None]
    return sum(saved) / len(saved) if saved else None


def _finish_time_ratio(
    statistic: Callable[[list[float]], Any],
) -> Callable[[Simulation], float | None]:
    def over_jobs(found: Simulation) -> float | None:
        ratios = [each for job in found.jobs if (each := job.finish_time_ratio) is not None]
        return float(statistic(ratios)) if ratios else None

    return over_jobs


def _fairness(ratios: list[float]) -> float:
    """Jain's index of the inverse ratios: 1 where all are alike, 1/n where one job has all."""
    speeds = 1 / np.array(ratios)
    return float(speeds.sum() ** 2 / (speeds.size * (speeds**2).sum()))


def _hours(held: Callable[[TimelinePoint], float]) -> Callable[[Simulation], float]:
    """Return what each job held, times the hours for which it did."""
    return lambda found: _time_held(found, held) / 3600 / len(found.jobs)


_PRICED: Final = _hours(lambda point: point.price_per_hour)


def _mean_error(attribute: str) -> Callable[[Simulation], float | None]:
    def mean(found: Simulation) -> float | None:
        errors = [abs(getattr(forecast, attribute)) for forecast in found.forecasts]
        return float(np.mean(errors)) if errors else None

    return mean


FIGURES: Mapping[str, Callable[[Simulation], float | None]] = MappingProxyType(
    {
        "average_jct_seconds": _completion(lambda times: float(np.mean(times))),
        "median_jct_seconds": _completion(lambda times: float(np.median(times))),
        "p95_jct_seconds": _completion(lambda times: float(np.percentile(times, 95))),
        "p99_jct_seconds": _completion(lambda times: float(np.percentile(times, 99))),
        "makespan_seconds": lambda found: found.makespan_seconds,
        "ps_cpu_share": _share(lambda point: point.ps_cpu, CPU),
        "worker_cpu_share": _share(lambda point: point.worker_cpu, CPU),
        "gpu_share": _share(lambda point: point.gpus, GPU),
        "restarts_per_job": _per_job("restarts"),
        "profiling_runs_per_job": _per_job("profiling_runs"),
        "pauses_per_job": _per_job("pauses"),
        "stopped_seconds_per_job": _per_job("stopped_seconds"),
        "lost_seconds_per_job": _per_job("lost_seconds"),
        "saved_seconds_per_job": _saved,
        "finish_time_ratio": _finish_time_ratio(np.mean),
        "worst_finish_time_ratio": _finish_time_ratio(np.max),
        "fairness": _finish_time_ratio(_fairness),
        "core_hours_per_job": _hours(lambda point: (point.ps_cpu + point.worker_cpu) / 1000),
        "cost_per_job": lambda found: _PRICED(found) or None,
        "speed_error": _mean_error("speed_error"),
        "convergence_error": _mean_error("convergence_error"),
    }
)
"""Every figure of one simulation, by its name. Shares and errors are parts of 1; errors are means
of absolute values, over all forecasts."""

COMPARED: Final = tuple(name for name in FIGURES if name.endswith("_seconds"))
"""The figures of which ratios are given."""


@dataclass(frozen=True, slots=True)
class PolicySummary:
    """One policy's figures by name, and its ratios to the first policy's, seed by seed."""

    policy: str
    figures: Mapping[str, Estimate]
    ratios: Mapping[str, Estimate]


def summarise(found: Sequence[Simulation]) -> tuple[PolicySummary, ...]:
    """Figures of every policy, in order of appearance; each has been run with the same seeds."""
    figures_of = {
        policy: {
            name: [figure(each) for each in sorted(those, key=lambda one: one.seed)]
            for name, figure in FIGURES.items()
        }
        for policy, those in by_policy(found).items()
    }
    first = next(iter(figures_of.values()), {})
    return tuple(
        PolicySummary(
            policy,
            {name: Estimate.of(values) for name, values in figures.items()},
            {name: Estimate.of(list(map(_ratio, figures[name], first[name]))) for name in COMPARED},
        )
        for policy, figures in figures_of.items()
    )


def verdict(found: Sequence[Simulation]) -> str:
    """One sentence on how much sooner jobs end under the first policy than under the others, and
    whether that is more than chance; empty where there is nothing to compare."""
    first, *others = summarise(found)
    clear, unclear = list[str](), list[str]()
    for other in others:
        ratio = other.ratios["average_jct_seconds"]
        if ratio.mean is None or ratio.mean <= 0:
            continue
        if ratio.low is not None and ratio.high is not None and ratio.low <= 1 <= ratio.high:
            unclear.append(other.policy)
        else:
            clear.append(f"{_by_how_much(ratio.mean)} than {other.policy}")
    parts = []
    if clear:
        chance = "larger than chance" if len(found) > 1 + len(others) else "of one seed"
        differences = "this difference is" if len(clear) == 1 else "these differences are"
        parts.append(f"{first.policy} ends jobs {_listed(clear)}; {differences} {chance}")
    if unclear:
        parts.append(f"{first.policy} differs from {_listed(unclear)} by no more than chance")
    return "; ".join(parts)


def _by_how_much(ratio: float) -> str:
    return f"{1 - 1 / ratio:.0%} sooner" if ratio >= 1 else f"{1 / ratio - 1:.0%} later"


def _listed(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def _ratio(value: float | None, reference: float | None) -> float | None:
    return None if value is None or not reference else value / reference
