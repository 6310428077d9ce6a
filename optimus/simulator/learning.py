"""Learns the weights of a scorer in episodes of a gym: after a teacher first, then by the policy
gradient.

The warm-up is by cross-entropy: at each step of the teacher's counts, any task that is still to be
given is as good as another. Then several episodes of one trace are played, and each action is made
more likely by how much less the sum of completion times was from its slot on than in the mean of
the others (an input-dependent baseline, as Decima's).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from optimus.allocation.scorer import STEPS, Mask, Scorer, Values
from optimus.simulator.gym import MOST_SLOTS, Choose, Noted, Sampler, Slot, SlotTrace, start

MakeTrace = Callable[[int], SlotTrace]
"""A trace by its seed."""

_BATCH = 64


@dataclass(slots=True, eq=False)
class Adam:
    """Steps against a gradient, scaled by its first two moments (Kingma and Ba, 2015)."""

    rate: float
    steps: int = 0
    mean: dict[str, Values] = field(default_factory=dict)
    square: dict[str, Values] = field(default_factory=dict)

    def step(self, scorer: Scorer, gradient: Mapping[str, Values]) -> Scorer:
        """The weights after one step."""
        self.steps += 1
        weights = dict[str, Values]()
        for name, each in gradient.items():
            self.mean[name] = 0.9 * self.mean.get(name, np.zeros_like(each)) + 0.1 * each
            self.square[name] = 0.999 * self.square.get(name, np.zeros_like(each)) + 0.001 * each**2
            mean = self.mean[name] / (1 - 0.9**self.steps)
            square = self.square[name] / (1 - 0.999**self.steps)
            weights[name] = scorer.weights[name] - self.rate * mean / (np.sqrt(square) + 1e-8)
        return Scorer(weights)


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """What a teacher did: states, and how likely it is to take each action in them."""

    features: Values
    room: Values
    present: Mask
    allowed: Mask
    target: Values


def taught(traces: Iterable[SlotTrace], teacher: Choose, draw: np.random.Generator) -> Examples:
    """All decisions of a teacher in these traces, task by task in an order that is drawn."""
    rows: list[tuple[Values, Values, Mask, Mask, Values]] = []
    for trace in traces:
        slot = Slot(trace, trace.work[None].copy())
        while slot.at < MOST_SLOTS and (slot.left > 0).any():
            goal = teacher(slot)
            ps, workers = start(slot)
            may = ps > 0
            while True:
                free = slot.free(ps, workers)
                allowed = slot.allowed(ps, workers, free, may)
                target = _missing(goal[0][0] - ps[0], goal[1][0] - workers[0])
                room = slot.room(free)[0]
                state = slot.features(ps, workers)[0], room, slot.present[0], allowed[0]
                rows.append((*state, target))
                if target[-1]:
                    break
                action = int(draw.choice(len(target), p=target))
                ps[0, action // 3] += STEPS[action % 3][0]
                workers[0, action // 3] += STEPS[action % 3][1]
            slot.pass_by(*goal)
    return Examples(*(np.stack(each) for each in zip(*rows, strict=True)))


def _missing(ps: Values, workers: Values) -> Values:
    """Equal probabilities of all tasks that are still to be given; of stopping where none are."""
    target = np.zeros(3 * len(ps) + 1)
    for job in np.flatnonzero((ps > 0) | (workers > 0)).tolist():
        both = ps[job] > 0 and workers[job] > 0
        target[3 * job + (2 if both else 0 if ps[job] > 0 else 1)] = 1.0
    if not target.any():
        target[-1] = 1.0
    return np.asarray(target / target.sum())


def warm_up(
    scorer: Scorer, examples: Examples, adam: Adam, draw: np.random.Generator, epochs: int = 4
) -> Scorer:
    """Learn to do as the teacher does."""
    for _ in range(epochs):
        order = draw.permutation(len(examples.target))
        for begin in range(0, len(order), _BATCH):
            some = order[begin : begin + _BATCH]
            scored = scorer.score(
                examples.features[some],
                examples.room[some],
                examples.present[some],
                examples.allowed[some],
            )
            outer = (scored.probability - examples.target[some]) / len(some)
            scorer = adam.step(scorer, scorer.gradient(scored, outer))
    return scorer


def improve(
    scorer: Scorer, trace: SlotTrace, adam: Adam, draw: np.random.Generator, batch: int = 8
) -> tuple[Scorer, float]:
    """One step of the policy gradient; the mean completion time of its episodes, in slots."""
    sampler, slot = Sampler(scorer, draw), Slot(trace, np.repeat(trace.work[None], batch, axis=0))
    there = list[Values]()
    while slot.at < MOST_SLOTS and (slot.left > 0).any():
        there.append(slot.pass_by(*sampler(slot)))
    still_to_come = np.array(there)[::-1].cumsum(axis=0)[::-1]
    worse = still_to_come - still_to_come.mean(axis=1, keepdims=True)
    worse = worse / (worse.std() + 1e-9)
    number = sum(len(each.rows) for each in sampler.noted)
    whole = dict[str, Values]()
    for begin in range(0, len(sampler.noted), _BATCH):
        for name, each in _pushed(scorer, sampler.noted[begin : begin + _BATCH], worse).items():
            whole[name] = whole.get(name, 0.0) + each / number
    return adam.step(scorer, whole), float(still_to_come[0].mean() / len(trace.work))


def _pushed(scorer: Scorer, noted: Sequence[Noted], worse: Values) -> dict[str, Values]:
    """The gradient of these actions, by how much worse their episodes were from there on."""
    features, room, present, allowed, action = (
        np.concatenate([getattr(each, name) for each in noted])
        for name in ("features", "room", "present", "allowed", "action")
    )
    scored = scorer.score(features, room, present, allowed)
    taken = np.zeros_like(scored.probability)
    taken[np.arange(len(action)), action] = 1.0
    by_action = np.concatenate([worse[each.at, each.rows] for each in noted])
    return scorer.gradient(scored, (taken - scored.probability) * by_action[:, None])
