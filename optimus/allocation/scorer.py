"""Scores the next task of each job, as the policy of DL2 does (TPDS 32(8), 2021), for any number of
jobs.

One small network is shared by all jobs: the job's own features, the mean of the others' and what is
free give three scores, one for a further PS, a worker, and one of both; the mean of all jobs' last
layer gives the score of stopping. The softmax of the scores that are allowed is the policy. Only
numpy is used; the gradient is worked out by hand. ``Learned`` are weights as they are kept, with
the range in which they were learned.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any, Final, Self

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Counted = NDArray[np.int64]
Mask = NDArray[np.bool_]

ACTIONS: Final = 3
"""A PS, a worker, one of both."""
HIDDEN: Final = 64
MOST: Final = 16
"""PSs, and workers, of a job."""
STEPS: Final = np.array([(1, 0), (0, 1), (1, 1)])
"""What each action adds."""
FEATURES: Final = (
    "remaining intervals", "gain of a PS", "gain of a worker", "gain of both",
    "part of the best speed", "dominant share", "PSs", "workers", "PSs less workers",
)  # fmt: skip
ROOM: Final = ("least free part", "largest free part")
"""What is free, of the resources that jobs ask for."""
_INTERVAL_SECONDS: Final = 600.0
_LARGEST_GAIN: Final = 3.0
_SLACK: Final = 0.1
"""By which a feature may lie outside what was seen in training, as a part of that range."""
NAMES: Final = ("w1", "b1", "w2", "b2", "w3", "b3", "stop", "stop_bias")


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Probabilities of ``3 jobs + 1`` actions by row of a batch, and what the gradient needs."""

    probability: Values
    inputs: Values
    first: Values
    second: Values
    present: Mask


@dataclass(frozen=True, slots=True, eq=False)
class Scorer:
    """The weights, by name."""

    weights: Mapping[str, Values]

    @classmethod
    def drawn(cls, features: int, room: int, seed: int) -> Self:
        """At random: what training begins with."""
        draw = np.random.default_rng(seed)
        return cls(
            {
                name: draw.normal(0.0, (2 / size[0]) ** 0.5, size) * (len(size) > 1)
                for name, size in _sizes(features, room).items()
            }
        )

    def score(self, features: Values, room: Values, present: Mask, allowed: Mask) -> Scored:
        """Probabilities of a batch: ``features`` of shape (batch, jobs, features), ``room`` of
        (batch, resources), ``present`` of (batch, jobs), ``allowed`` of (batch, 3 jobs + 1)."""
        w, inputs = self.weights, with_context(features, room, present)
        first = np.maximum(inputs @ w["w1"] + w["b1"], 0.0)
        second = np.maximum(first @ w["w2"] + w["b2"], 0.0) * present[..., None]
        scores = (second @ w["w3"] + w["b3"]).reshape(len(features), -1)
        stop = _mean(second, present) @ w["stop"] + w["stop_bias"]
        both = np.where(allowed, np.hstack([scores, stop[:, None]]), -np.inf)
        both = np.exp(both - both.max(axis=1, keepdims=True))
        return Scored(both / both.sum(axis=1, keepdims=True), inputs, first, second, present)

    def gradient(self, scored: Scored, outer: Values) -> dict[str, Values]:
        """By weight, for the loss whose derivative by each score is ``outer``."""
        w, jobs = self.weights, scored.present.shape[1]
        by_job, stop = outer[:, :-1].reshape(-1, jobs, ACTIONS), outer[:, -1]
        number = np.maximum(scored.present.sum(axis=1), 1)
        by_second = by_job @ w["w3"].T + (stop / number)[:, None, None] * w["stop"]
        by_second = by_second * (scored.second > 0)
        by_first = (by_second @ w["w2"].T) * (scored.first > 0)
        return {
            "w1": _product(scored.inputs, by_first),
            "b1": by_first.sum(axis=(0, 1)),
            "w2": _product(scored.first, by_second),
            "b2": by_second.sum(axis=(0, 1)),
            "w3": _product(scored.second, by_job),
            "b3": (by_job * scored.present[..., None]).sum(axis=(0, 1)),
            "stop": _mean(scored.second, scored.present).T @ stop,
            "stop_bias": np.array([stop.sum()]),
        }


def with_context(features: Values, room: Values, present: Mask) -> Values:
    """Each job's features, the mean of those of the others, and what is free."""
    masked = features * present[..., None]
    others = masked.sum(axis=1, keepdims=True) - masked
    number = np.maximum(present.sum(axis=1)[:, None, None] - 1, 1)
    free = np.broadcast_to(room[:, None, :], (*features.shape[:2], room.shape[1]))
    return np.concatenate([masked, others / number, free], axis=2)


def _mean(values: Values, present: Mask) -> Values:
    return np.asarray(values.sum(axis=1) / np.maximum(present.sum(axis=1), 1)[:, None])


def _product(left: Values, right: Values) -> Values:
    return np.asarray(left.reshape(-1, left.shape[2]).T @ right.reshape(-1, right.shape[2]))


def _sizes(features: int, room: int) -> dict[str, tuple[int, ...]]:
    inputs = 2 * features + room
    return {
        "w1": (inputs, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, HIDDEN), "b2": (HIDDEN,),
        "w3": (HIDDEN, ACTIONS), "b3": (ACTIONS,), "stop": (HIDDEN,), "stop_bias": (1,),
    }  # fmt: skip


def described(
    seconds: Values, best: Values, share: Values, ps: Counted, workers: Counted
) -> Values:
    """The features of jobs, shape (..., 9), by their forecasts: ``seconds`` remain at their counts
    and after each of the three steps (shape (..., 4)), ``best`` at their best counts, and ``share``
    is the dominant share of what they have."""
    now = np.maximum(seconds[..., 0], 1e-9)
    gains = now[..., None] / np.maximum(seconds[..., 1:], 1e-9) - 1
    parts = (
        np.log1p(now / _INTERVAL_SECONDS)[..., None],
        np.clip(gains, -1.0, _LARGEST_GAIN),
        np.stack([best / now, share, ps / MOST, workers / MOST, (ps - workers) / MOST], axis=-1),
    )
    return np.concatenate(parts, axis=-1)


_NO_ARCHIVE: Final = (EOFError, ValueError, zipfile.BadZipFile)


def _content(file: str | IO[bytes]) -> bytes:
    if not isinstance(file, str):
        return file.read()
    # The only file that the pure part reads, once, where a user names it as an option.
    with open(file, "rb") as opened:  # noqa: PTH123 - no paths here
        return opened.read()


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """Weights, and where they come from."""

    scorer: Scorer
    low: Values
    """The least of each feature that was seen in training."""
    high: Values
    jobs: int
    """The most jobs that shared the nodes."""
    setting: str
    seed: int
    steps: int
    """Of the policy gradient."""

    @property
    def mark(self) -> str:
        """The first digits of the hash of the weights."""
        return self._hash()[:8]

    def why_outside(self, features: Values) -> str:
        """Which feature of any job lies outside the range of training; empty where none does."""
        slack = _SLACK * (self.high - self.low)
        inside = (features >= self.low - slack) & (features <= self.high + slack)
        outside = np.flatnonzero(~inside.all(axis=0))
        return FEATURES[outside[0]] if len(outside) else ""

    def save(self, file: IO[bytes]) -> None:
        """Write an ``.npz``: numbers of 32 bits."""
        about = {
            "features": FEATURES, "room": ROOM, "jobs": self.jobs, "setting": self.setting,
            "seed": self.seed, "steps": self.steps, "hash": self._hash(),
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
            what = f"weights that `optimus train` has written are expected: {problem}"
            raise ValueError(f"{file if isinstance(file, str) else 'weights'}: {what}") from None

    @classmethod
    def _of(cls, arrays: Mapping[str, Any]) -> Self:
        about = json.loads(str(arrays["about"]))
        if [*about["features"], *about["room"]] != [*FEATURES, *ROOM]:
            raise ValueError("its features are others")
        sizes = _sizes(len(FEATURES), len(ROOM)) | dict.fromkeys(("low", "high"), (len(FEATURES),))
        for name, size in sizes.items():
            if arrays[name].shape != size or not np.isfinite(arrays[name]).all():
                raise ValueError(f"{name} are not {' x '.join(map(str, size))} finite numbers")
        values = {name: arrays[name].astype(np.float64) for name in sizes}
        scorer = Scorer({name: values[name] for name in NAMES})
        given = int(about["jobs"]), str(about["setting"]), int(about["seed"]), int(about["steps"])
        found = cls(scorer, values["low"], values["high"], *given)
        if found._hash() != about["hash"]:
            raise ValueError("its hash is not that of its weights")
        return found

    def _hash(self) -> str:
        arrays = (*(self.scorer.weights[name] for name in NAMES), self.low, self.high)
        return hashlib.sha256(b"".join(each.astype("<f4").tobytes() for each in arrays)).hexdigest()
