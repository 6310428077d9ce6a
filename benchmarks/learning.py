"""Learns the weights of a scorer in episodes of a gym, by the policy gradient.

In each episode the logarithm of each weight is drawn around what the scorer answers. Several
episodes of one trace are played, and each draw is made more likely by how much less the sum of
completion times was from its slot on than in the mean of the others (an input-dependent baseline,
as Decima's).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np

from benchmarks.gym import SlotTrace, by_rule, play
from optimus.allocation import Allocation, AllocationProblem, PolicyTraits
from optimus.allocation.policy import PoolRule
from optimus.allocation.scorer import (
    FEATURES,
    LARGEST,
    Scorer,
    Values,
    described,
    placed,
    with_context,
)
from optimus.policies.dl2 import Dl2Policy, weighed
from optimus.policies.optimus import OptimusPolicy

HIDDEN: Final = 32
SIZES: Final = {
    "w1": (2 * len(FEATURES), HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, HIDDEN), "b2": (HIDDEN,),
    "w3": (HIDDEN, 1), "b3": (1,),
}  # fmt: skip

MakeTrace = Callable[[int], SlotTrace]
"""A trace by its seed."""

SPREAD: Final = 0.3
"""Standard deviation of the logarithms of weights that are tried."""


@dataclass(slots=True, eq=False)
class Adam:
    """Steps against a gradient, scaled by its first two moments (Kingma and Ba, 2015)."""

    rate: float
    steps: int = 0
    mean: dict[str, Values] = field(default_factory=dict)
    square: dict[str, Values] = field(default_factory=dict)

    def step(
        self, before: Mapping[str, Values], gradient: Mapping[str, Values]
    ) -> Mapping[str, Values]:
        """The weights after one step."""
        self.steps += 1
        weights = dict[str, Values]()
        for name, each in gradient.items():
            self.mean[name] = 0.9 * self.mean.get(name, np.zeros_like(each)) + 0.1 * each
            self.square[name] = 0.999 * self.square.get(name, np.zeros_like(each)) + 0.001 * each**2
            mean = self.mean[name] / (1 - 0.9**self.steps)
            square = self.square[name] / (1 - 0.999**self.steps)
            weights[name] = before[name] - self.rate * mean / (np.sqrt(square) + 1e-8)
        return weights


@dataclass(slots=True, eq=False)
class Sampler:
    """Draws weights around the scorer's answers, and notes what it did, decision by decision."""

    scorer: Scorer
    draw: np.random.Generator
    rule: PoolRule = field(default_factory=OptimusPolicy)
    features: list[Values] = field(default_factory=list)
    drawn: list[Values] = field(default_factory=list)
    """In standard deviations."""
    name: ClassVar[str] = "drawn"
    traits: ClassVar[PolicyTraits] = Dl2Policy.traits

    def allocate(self, problem: AllocationProblem) -> Allocation:
        """As the policy `dl2`, with weights that are drawn."""
        usual = self.rule.allocate(problem)
        jobs = placed(problem, usual)
        features = described(problem, usual)
        drawn = self.draw.standard_normal(len(jobs))
        logarithm = self.scorer.score(with_context(features)) + SPREAD * drawn
        self.features.append(features)
        self.drawn.append(drawn)
        weights = np.exp(np.clip(logarithm, -LARGEST, LARGEST))
        return self.rule.allocate(weighed(problem, jobs, weights))


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """One episode that is to be played; it is sent to whichever process plays it."""

    make: MakeTrace
    trace: int
    """The seed of its trace."""
    scorer: Scorer
    draw: tuple[int, ...]
    """The seed of the weights that are tried."""

    def play(self) -> "Episode":
        """Play it."""
        sampler = Sampler(self.scorer, np.random.default_rng(self.draw))
        there = play(self.make(self.trace), by_rule(sampler))
        return Episode(there, sampler.features, sampler.drawn)


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """What was done in an episode; decisions were made in the slots in which jobs were there."""

    there: Values
    """By slot, the sum of the parts of it for which jobs were there."""
    features: Sequence[Values]
    drawn: Sequence[Values]


def improve(scorer: Scorer, episodes: Sequence[Episode], adam: Adam) -> Scorer:
    """One step of the policy gradient by several episodes of one trace."""
    slots = max(len(each.there) for each in episodes)
    there = np.array([np.pad(each.there, (0, slots - len(each.there))) for each in episodes])
    still_to_come = there[:, ::-1].cumsum(axis=1)[:, ::-1]
    worse = still_to_come - still_to_come.mean(axis=0)
    worse = worse / (worse.std() + 1e-9)
    inputs = [with_context(each) for episode in episodes for each in episode.features]
    outer = [
        drawn * worse[number, slot]
        for number, episode in enumerate(episodes)
        for slot, drawn in zip(np.flatnonzero(episode.there > 0), episode.drawn, strict=True)
    ]
    pushed = np.concatenate(outer)
    return Scorer(
        adam.step(scorer.weights, gradient(scorer, np.concatenate(inputs), pushed / len(pushed)))
    )


def drawn_scorer(seed: int) -> Scorer:
    """What training begins with: every answer is 0."""
    draw = np.random.default_rng(seed)
    return Scorer(
        {
            name: draw.normal(0.0, (2 / size[0]) ** 0.5, size) * (name in {"w1", "w2"})
            for name, size in SIZES.items()
        }
    )


def gradient(scorer: Scorer, inputs: Values, outer: Values) -> dict[str, Values]:
    """The gradient by weight, for the loss whose derivative by each answer is ``outer``."""
    (first, second), w = scorer.hidden(inputs), scorer.weights
    by_second = outer[:, None] * w["w3"][:, 0] * (second > 0)
    by_first = (by_second @ w["w2"].T) * (first > 0)
    return {
        "w1": inputs.T @ by_first,
        "b1": by_first.sum(axis=0),
        "w2": first.T @ by_second,
        "b2": by_second.sum(axis=0),
        "w3": second.T @ outer[:, None],
        "b3": np.array([outer.sum()]),
    }
