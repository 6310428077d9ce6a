"""A small network that says how much each job's gain counts, for any number of jobs.

It is shared by all jobs, as that of DL2 is (TPDS 32(8), 2021). It reads nine features of the job
and the mean of those of the others, and answers with the logarithm of a weight. With a last layer
of 0 every weight is 1, which leaves all as the policy decides that is weighed. The features are of
forecasts at the counts of that policy. ``LearnedScorer`` are weights as they are kept, with the
range in which they were learned.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from optimus.allocation.problem import Allocation, AllocationProblem, Candidate, Demands, as_columns
from optimus.allocation.problem import remaining_seconds as seconds_of

Values = NDArray[np.float64]

MOST: Final = 16
"""PSs, and workers, of a job among which its best counts are looked for."""
LARGEST: Final = float(np.log(4))
"""Of the logarithm of a weight."""
FEATURES: Final = (
    "size beside the others'", "remaining intervals", "part of the best speed",
    "speed-up so far", "gain of a task", "share beside the others'", "jobs", "used part",
    "waiting jobs",
)  # fmt: skip
_INTERVAL_SECONDS: Final = 600.0
_LEAST_SECONDS: Final = 1e-3
_LARGEST_FEATURE: Final = 4.0
_SLACK: Final = 0.1
"""By which a feature may lie outside what was seen in training, as a part of that range."""
NAMES: Final = ("w1", "b1", "w2", "b2", "w3", "b3")


@dataclass(frozen=True, slots=True, eq=False)
class Scorer:
    """The weights of the network, by name."""

    weights: Mapping[str, Values]

    def hidden(self, inputs: Values) -> tuple[Values, Values]:
        """The two hidden layers for jobs by ``with_context``, inputs of shape (jobs, 18)."""
        w = self.weights
        first = np.maximum(inputs @ w["w1"] + w["b1"], 0.0)
        return first, np.maximum(first @ w["w2"] + w["b2"], 0.0)

    def score(self, inputs: Values) -> Values:
        """The logarithms of the weights of these jobs."""
        _, second = self.hidden(inputs)
        return np.asarray((second @ self.weights["w3"])[:, 0] + self.weights["b3"])


def with_context(features: Values) -> Values:
    """Each job's features and the mean of those of the others."""
    others = features.sum(axis=0) - features
    return np.hstack([features, others / max(len(features) - 1, 1)])


def placed(problem: AllocationProblem, usual: Allocation) -> tuple[Candidate, ...]:
    """The candidates that have counts, by UID: sums are then the same in any order."""
    jobs = [each for each in problem.candidates if each.job.uid in usual.counts]
    return tuple(sorted(jobs, key=lambda each: each.job.uid))


def described(problem: AllocationProblem, usual: Allocation) -> Values:
    """The features of ``placed`` jobs, shape (jobs, 9), at the counts that a policy gives them."""
    jobs = placed(problem, usual)
    ps, workers = as_columns([usual.counts[each.job.uid] for each in jobs])
    least_ps, least_workers = (
        np.minimum(*both)
        for both in zip(as_columns([each.least for each in jobs]), (ps, workers), strict=True)
    )
    rows, counts = np.arange(len(jobs)), np.arange(1, MOST + 1)
    seconds = seconds_of([each.forecast for each in jobs], least_ps, least_workers)
    grid = seconds(
        rows[:, None, None],
        np.maximum(least_ps[:, None, None], counts[None, :, None]),
        np.maximum(least_workers[:, None, None], counts[None, None, :]),
    )
    now, least = _log(seconds(rows, ps, workers)), _log(seconds(rows, least_ps, least_workers))
    further = [seconds(rows, ps + more, workers + one) for more, one in ((1, 0), (0, 1), (1, 1))]
    demands = Demands.of(AllocationProblem(problem.available, problem.capacity, jobs))
    cost = demands.at(ps, workers)
    share, asked = np.maximum(demands.shares(cost), 1e-6), (cost > 0).any(axis=0)
    used = 1 - (demands.available - cost.sum(axis=0)) / np.maximum(demands.capacity, 1)
    waiting = len(problem.candidates) - len(jobs)
    pool = np.log(len(jobs)), used[asked].max(initial=0.0), np.log1p(waiting)
    own = (
        now - now.mean(),
        np.log1p(np.exp(now) / _INTERVAL_SECONDS),
        _log(grid.min(axis=(1, 2))) - now,
        least - now,
        now - _log(np.min(further, axis=0)),
        np.log(share) - np.log(share).mean(),
    )
    of_pool = (np.full(len(jobs), each) for each in pool)
    features = np.stack([*own, *of_pool], axis=1)
    return np.asarray(np.clip(features, -_LARGEST_FEATURE, _LARGEST_FEATURE))


def _log(seconds: Values) -> Values:
    return np.log(np.clip(seconds, _LEAST_SECONDS, 1e9))


@dataclass(frozen=True, slots=True, eq=False)
class LearnedScorer:
    """Weights, and where they come from."""

    scorer: Scorer
    low: Values
    """The least of each feature that was seen in training."""
    high: Values
    about: Mapping[str, Any]
    """The ``setting`` in which it was learned, the ``seed``, the ``steps`` of the policy gradient
    and the ``hash`` of the weights."""

    @property
    def mark(self) -> str:
        """The first digits of the hash of the weights."""
        return str(self.about["hash"])[:8]

    def weights(self, features: Values) -> Values:
        """Return how many times each job's gain counts: 1 where a feature of it lies outside the
        range of training."""
        logarithm = self.scorer.score(with_context(features))
        known = [not each for each in self.why_outside(features)]
        return np.asarray(np.exp(np.where(known, np.clip(logarithm, -LARGEST, LARGEST), 0.0)))

    def why_outside(self, features: Values) -> Sequence[str]:
        """By job, which feature lies outside the range of training; empty where none does."""
        slack = _SLACK * (self.high - self.low)
        outside = (features < self.low - slack) | (features > self.high + slack)
        first = np.where(outside.any(axis=1), outside.argmax(axis=1), -1).tolist()
        return ["" if each < 0 else FEATURES[each] for each in first]

    @classmethod
    def load(cls, file: IO[bytes]) -> Self:
        """Read what ``benchmarks.train_dl2`` has written."""
        with np.load(file, allow_pickle=False) as arrays:
            values = {name: arrays[name].astype(np.float64) for name in (*NAMES, "low", "high")}
            about = json.loads(str(arrays["about"]))
        return cls(Scorer(values), values["low"], values["high"], about)
