"""Scores the next task of each job, as the policy of DL2 does (TPDS 32(8), 2021), for any number of
jobs.

One small network is shared by all jobs: the job's own features, the mean of the others' and what is
free give three scores, one for a further PS, a worker, and one of both; the mean of all jobs' last
layer gives the score of stopping. The softmax of the scores that are allowed is the policy. Only
numpy is used; the gradient is worked out by hand.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Mask = NDArray[np.bool_]

ACTIONS: Final = 3
"""A PS, a worker, one of both."""
HIDDEN: Final = 64
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
        draw, inputs = np.random.default_rng(seed), 2 * features + room
        sizes = {
            "w1": (inputs, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, HIDDEN), "b2": (HIDDEN,),
            "w3": (HIDDEN, ACTIONS), "b3": (ACTIONS,), "stop": (HIDDEN,), "stop_bias": (1,),
        }  # fmt: skip
        return cls(
            {
                name: draw.normal(0.0, (2 / size[0]) ** 0.5, size) * (len(size) > 1)
                for name, size in sizes.items()
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
            "w1": np.einsum("bjf,bjh->fh", scored.inputs, by_first),
            "b1": by_first.sum(axis=(0, 1)),
            "w2": np.einsum("bjf,bjh->fh", scored.first, by_second),
            "b2": by_second.sum(axis=(0, 1)),
            "w3": np.einsum("bjf,bjh->fh", scored.second, by_job),
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
