"""What a move is worth: by how much it is expected to lower the logarithm of the completion time.

A job that would be done after T more seconds at its present counts is done after c + r T at others:
c is the price of the rescale; T has the forecast's own distribution, and r the one that the speed
model gives for both counts.

Replicas beyond the user's own counts are *borrowed*: the next job that waits gets them back, which
costs a second restart. Jobs arrive as a Poisson process, those of one submission
at once, and a loan ends once they have used up what is free and what others return first. Their
rate is told by how many have arrived since the first of the last few. Other namespaces
than the borrower's use no more than one submission beyond twice what they hold: a namespace whose
jobs are small, or end soon, ends nobody's loans by submitting many.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from statistics import NormalDist
from types import MappingProxyType
from typing import Final, Self

import numpy as np

from optimus.allocation import JobHistory
from optimus.jobs import Counts, Job
from optimus.models import Vector
from optimus.models.forecast import Forecast
from optimus.models.speed.model import SpeedModel
from optimus.progress.types import TrainingProgress
from optimus.resources import NONE, Resources, total

_POINTS: Final = 12
_CHANCES: Final = (np.arange(_POINTS) + 0.5) / _POINTS
_QUANTILES: Final = np.array([NormalDist().inv_cdf(each) for each in _CHANCES])
"""Equally likely values of a standard normal variable."""

_LEAST_SECONDS: Final = 1.0
"""The least age whose logarithm counts."""

EXPECTED_SPREAD: Final = 0.7
"""Standard deviation of the logarithm of the work left where it is only assumed: what a wrong
assumption of 20 epochs is mostly within."""


_LAST_ARRIVALS: Final = 10
"""Arrivals of a namespace by which its next ones are judged: the load of a cluster changes within a
day."""

_MOST_NAMESPACES: Final = 100
"""Of those that submitted last."""

_TOGETHER_SECONDS: Final = 5.0
"""Jobs that follow one another as soon as this were submitted together."""

_PRIOR_ARRIVALS: Final = 0.5
"""Jeffreys' prior of a rate. The first arrival begins the time and is not counted."""

_PRIOR_INTERVALS: Final = 0.5
"""Intervals in which so many arrive where less time is seen: one in each, by which operators choose
their length. Without it a new cluster lends nothing until it has been quiet for a while."""

_ROUNDING: Final = 1e-9
"""Relative errors of numbers of submissions that just fit."""


@dataclass(frozen=True, slots=True)
class Loan:
    """Capacity that is lent until so many more jobs have arrived, at this rate."""

    arrivals: int = 1
    per_second: float = 0.0

    def quantiles(self) -> Vector:
        """Equally likely values of how long it lasts: until so many have arrived."""
        if not self.per_second:
            return np.array([math.inf])
        from scipy.special import gammaincinv  # late: see models/speed/curve.py

        return np.asarray(gammaincinv(self.arrivals, _CHANCES) / self.per_second)

    @property
    def mean_seconds(self) -> float:
        """How long it lasts on average."""
        return self.arrivals / self.per_second if self.per_second else math.inf


FOR_EVER: Final = Loan()
"""Where no job arrives, or nothing is lent."""


@dataclass(frozen=True, slots=True)
class Loans:
    """How long what is lent stays with a job, by the namespace of the job."""

    by_namespace: Mapping[str, Loan] = field(default_factory=lambda: MappingProxyType({}))
    by_others: Loan = FOR_EVER
    """With the jobs of a namespace that submitted none of the last ones."""

    def to(self, namespace: str) -> Loan:
        """The loan to a job of this namespace."""
        return self.by_namespace.get(namespace, self.by_others)


NO_LOANS: Final = Loans()


def last_arrived(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """The last few jobs of each namespace, in the order of their arrival."""
    last = dict[str, list[Job]]()
    for job in sorted(jobs, key=_arrival, reverse=True):
        if job.key.namespace in last or len(last) < _MOST_NAMESPACES:
            of_namespace = last.setdefault(job.key.namespace, [])
            of_namespace += [job] if len(of_namespace) < _LAST_ARRIVALS else []
    return tuple(sorted(chain.from_iterable(last.values()), key=_arrival))


def _arrival(job: Job) -> tuple[float, str]:
    return job.created_at, job.uid


@dataclass(frozen=True, slots=True)
class _Submissions:
    """What the last submissions of a namespace say of its next ones."""

    per_second: float
    """Their mean rate."""
    mean_demand: Mapping[str, float]

    @classmethod
    def of(cls, arrived: Sequence[Job], at: float, interval_seconds: float) -> Self:
        """By its last jobs."""
        gaps = (later.created_at - job.created_at for job, later in pairwise(arrived))
        number = 1 + sum(gap > _TOGETHER_SECONDS for gap in gaps)
        asked = total(job.demand() for job in arrived)
        seen_seconds = max(at - arrived[0].created_at, _PRIOR_INTERVALS * interval_seconds)
        return cls(
            (number - 1 + _PRIOR_ARRIVALS) / seen_seconds,
            {name: amount / number for name, amount in asked.items()},
        )


@dataclass(frozen=True, slots=True)
class LeftCapacity:
    """A cluster at an interval: what its jobs hold by namespace, and what is left before a loan
    is returned."""

    capacity: Resources
    held: Mapping[str, Resources]
    left: Resources

    def loans(self, arrived: Sequence[Job], at: float, interval_seconds: float) -> Loans:
        """How long loans last if submissions like each namespace's last ones go on."""
        jobs = dict[str, list[Job]]()
        for job in arrived:
            jobs.setdefault(job.key.namespace, []).append(job)
        submitting = {
            name: _Submissions.of(of_namespace, at, interval_seconds)
            for name, of_namespace in jobs.items()
        }
        most = {name: self._most(name, each, len(jobs)) for name, each in submitting.items()}
        loans = {name: self._loan(name, submitting, most) for name in submitting}
        return Loans(loans, self._loan("", submitting, most))

    def _most(self, name: str, submissions: _Submissions, namespaces: int) -> Resources:
        """What a namespace can be expected to use beyond what it holds, at most."""
        more = Resources({of: math.ceil(each) for of, each in submissions.mean_demand.items()})
        beyond = self.held.get(name, NONE) + more
        return Resources(
            {of: min(each, self.capacity[of] // namespaces) for of, each in beyond.items()}
        )

    def _loan(
        self, own: str, submitting: Mapping[str, _Submissions], most: Mapping[str, Resources]
    ) -> Loan:
        """Until all have used up what is left. A namespace that has used its most by then counts
        with that alone."""
        left, counted = self.left, dict(submitting)
        while counted:
            per_second = sum(each.per_second for each in counted.values())
            claims = dict[str, float]()
            for each in counted.values():
                for name, amount in each.mean_demand.items():
                    claims[name] = claims.get(name, 0.0) + each.per_second * amount
            seconds = min(
                (max(left[name], 0) / each for name, each in claims.items() if each > 0),
                default=0.0,
            )
            full = [
                name
                for name, each in counted.items()
                if name != own and _exceeds(each, seconds, most[name])
            ]
            if not full:
                return Loan(int(seconds * per_second + _ROUNDING) + 1, per_second)
            for name in full:
                left -= most[name]
                del counted[name]
        return FOR_EVER


def _exceeds(submissions: _Submissions, seconds: float, most: Resources) -> bool:
    """Whether what is submitted within this time takes more."""
    number = submissions.per_second * seconds
    return any(number * each > most[name] for name, each in submissions.mean_demand.items())


def chance_of_saving(forecast: Forecast, now: Counts, then: Counts, price_seconds: float) -> float:
    """The probability that a job gains by a move that costs it so many seconds."""
    left, after = forecast.at(now), forecast.at(then)
    if not (math.isfinite(left) and math.isfinite(after)):
        return 1.0 if math.isfinite(after) else 0.0
    work, ratios = _work_left(forecast, now), _time_ratios(forecast, now, then)
    return float(np.mean(work[:, None] * (1 - ratios) > price_seconds))


def expected_gain(
    forecast: Forecast,
    now: Counts,
    then: Counts,
    price_seconds: float,
    age_seconds: float = 0.0,
    loan: Loan = FOR_EVER,
) -> float:
    """What a move is expected to save of the time that it replaces, by the logarithm of the job's
    completion time, its age included: .05 is 5 %.

    What is lent goes back when the loan ends, at the same price; the rest of the work is then done
    at the counts that the job has now. It is 0 where nothing is left or no end is in sight, and
    infinite where only the new counts have one."""
    left, after = forecast.at(now), forecast.at(then)
    if not math.isfinite(after) or left <= 0:
        return 0.0
    if not math.isfinite(left):
        return math.inf
    stay = _work_left(forecast, now)[:, None, None]
    ratio = _time_ratios(forecast, now, then)[None, :, None]
    lasts = loan.quantiles()[None, None, :]
    replaced = np.minimum(stay, lasts / ratio)
    returns = stay > replaced
    move = price_seconds * (1 + returns) + replaced * ratio + stay - replaced
    age = max(age_seconds, _LEAST_SECONDS)
    gain = np.mean(np.log((age + stay) / (age + move)))
    return float(gain * (age + stay.mean()) / replaced.mean())


def training_at_risk(history: JobHistory, progress: TrainingProgress, at: float) -> float:
    """Seconds of training that a stop of the job at the instant ``at`` would lose."""
    if history.saves_on_stop:
        return 0.0
    trained, saved_at = progress.trained_seconds, progress.checkpoint_at
    return trained if saved_at is None else min(max(at - saved_at, 0.0), trained)


def _work_left(forecast: Forecast, now: Counts) -> Vector:
    """Equally likely values of the seconds that are left at the present counts, ``(points,)``."""
    if forecast.time_to_goal is None and forecast.is_expected:
        return forecast.at(now) * np.exp(EXPECTED_SPREAD * _QUANTILES)
    return forecast.at(now) * forecast.work_factors(_CHANCES)


def _time_ratios(forecast: Forecast, now: Counts, then: Counts) -> Vector:
    """Equally likely values of the time at the new counts to that at the present, ``(points,)``."""
    spread = 0.0
    if isinstance(forecast.speed, SpeedModel):
        spread = float(np.hypot(*forecast.speed.uncertainty(*np.array([now, then]).T)))
    return forecast.at(then) / forecast.at(now) * np.exp(spread * _QUANTILES)
