"""A small network that says how much each job's gain counts, for any number of jobs.

It is shared by all jobs, as that of DL2 is (TPDS 32(8), 2021). It reads nine features of the job
and the mean of those of the others, and answers with the logarithm of a weight. With a last layer
of 0 every weight is 1, which leaves all as the policy decides that is weighed. The features are of
forecasts at the counts of that policy. Only numpy is used; the gradient is worked out by hand.
``LearnedScorer`` are weights as they are kept, with the range in which they were learned.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from optimus.allocation.problem import Allocation, AllocationProblem, Candidate, Demands, as_columns
from optimus.allocation.problem import remaining_seconds as seconds_of

Values = NDArray[np.float64]

HIDDEN: Final = 32
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
class Scored:
    """The answers by row, and what the gradient needs."""

    logarithm: Values
    inputs: Values
    first: Values
    second: Values


@dataclass(frozen=True, slots=True, eq=False)
class Scorer:
    """The weights of the network, by name."""

    weights: Mapping[str, Values]

    @classmethod
    def drawn(cls, seed: int) -> Self:
        """Return what training begins with: every answer is 0."""
        draw = np.random.default_rng(seed)
        return cls(
            {
                name: draw.normal(0.0, (2 / size[0]) ** 0.5, size) * (name in {"w1", "w2"})
                for name, size in _SIZES.items()
            }
        )

    def score(self, inputs: Values) -> Scored:
        """The logarithms of the weights of jobs, by ``with_context``, shape (jobs, 18)."""
        w = self.weights
        first = np.maximum(inputs @ w["w1"] + w["b1"], 0.0)
        second = np.maximum(first @ w["w2"] + w["b2"], 0.0)
        return Scored((second @ w["w3"])[:, 0] + w["b3"], inputs, first, second)

    def gradient(self, scored: Scored, outer: Values) -> dict[str, Values]:
        """By weight, for the loss whose derivative by each answer is ``outer``."""
        w = self.weights
        by_second = outer[:, None] * w["w3"][:, 0] * (scored.second > 0)
        by_first = (by_second @ w["w2"].T) * (scored.first > 0)
        return {
            "w1": scored.inputs.T @ by_first,
            "b1": by_first.sum(axis=0),
            "w2": scored.first.T @ by_second,
            "b2": by_second.sum(axis=0),
            "w3": scored.second.T @ outer[:, None],
            "b3": np.array([outer.sum()]),
        }


_SIZES: Final = {
    "w1": (2 * len(FEATURES), HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, HIDDEN), "b2": (HIDDEN,),
    "w3": (HIDDEN, 1), "b3": (1,),
}  # fmt: skip


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


_NO_ARCHIVE: Final = (EOFError, ValueError, zipfile.BadZipFile)


def _content(file: str | IO[bytes]) -> bytes:
    if not isinstance(file, str):
        return file.read()
    # The only file that the pure part reads, once, where a user names it as an option.
    with open(file, "rb") as opened:  # noqa: PTH123 - no paths here
        return opened.read()


@dataclass(frozen=True, slots=True, eq=False)
class LearnedScorer:
    """Weights, and where they come from."""

    scorer: Scorer
    low: Values
    """The least of each feature that was seen in training."""
    high: Values
    setting: str
    seed: int
    steps: int
    """Of the policy gradient."""

    @property
    def mark(self) -> str:
        """The first digits of the hash of the weights."""
        return self._hash()[:8]

    def weights(self, features: Values) -> Values:
        """How many times each job's gain counts: 1 where a feature of it lies outside the range of
        training."""
        logarithm = self.scorer.score(with_context(features)).logarithm
        known = [not each for each in self.why_outside(features)]
        return np.asarray(np.exp(np.where(known, np.clip(logarithm, -LARGEST, LARGEST), 0.0)))

    def why_outside(self, features: Values) -> Sequence[str]:
        """By job, which feature lies outside the range of training; empty where none does."""
        slack = _SLACK * (self.high - self.low)
        outside = (features < self.low - slack) | (features > self.high + slack)
        first = np.where(outside.any(axis=1), outside.argmax(axis=1), -1).tolist()
        return ["" if each < 0 else FEATURES[each] for each in first]

    def save(self, file: IO[bytes]) -> None:
        """Write an ``.npz``: numbers of 32 bits."""
        about = {
            "features": FEATURES, "setting": self.setting, "seed": self.seed,
            "steps": self.steps, "hash": self._hash(),
        }  # fmt: skip
        ranges = {"low": self.low, "high": self.high}
        arrays: dict[str, Any] = {
            name: each.astype(np.float32)
            for name, each in {**self.scorer.weights, **ranges}.items()
        }
        np.savez_compressed(file, about=np.array(json.dumps(about)), **arrays)

    @classmethod
    def load(cls, file: str | IO[bytes]) -> Self:
        """Read what ``save`` has written.

        Raises:
            ValueError: it is anything else; a sentence for users.
        """
        try:
            with np.load(io.BytesIO(_content(file)), allow_pickle=False) as arrays:
                return cls._of({name: arrays[name] for name in arrays.files})
        except (AttributeError, LookupError, OSError, TypeError, *_NO_ARCHIVE) as problem:
            what = f"weights that `benchmarks.train_dl2` has written are expected: {problem}"
            raise ValueError(f"{file if isinstance(file, str) else 'weights'}: {what}") from None

    @classmethod
    def _of(cls, arrays: Mapping[str, Any]) -> Self:
        about = json.loads(str(arrays["about"]))
        if about["features"] != [*FEATURES]:
            raise ValueError("its features are others")
        sizes = _SIZES | dict.fromkeys(("low", "high"), (len(FEATURES),))
        for name, size in sizes.items():
            if arrays[name].shape != size or not np.isfinite(arrays[name]).all():
                raise ValueError(f"{name} are not {' x '.join(map(str, size))} finite numbers")
        values = {name: arrays[name].astype(np.float64) for name in sizes}
        scorer = Scorer({name: values[name] for name in NAMES})
        given = str(about["setting"]), int(about["seed"]), int(about["steps"])
        found = cls(scorer, values["low"], values["high"], *given)
        if found._hash() != about["hash"]:
            raise ValueError("its hash is not that of its weights")
        return found

    def _hash(self) -> str:
        arrays = (*(self.scorer.weights[name] for name in NAMES), self.low, self.high)
        return hashlib.sha256(b"".join(each.astype("<f4").tobytes() for each in arrays)).hexdigest()
