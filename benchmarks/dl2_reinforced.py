"""The network of DL2 (TPDS 32(8), 2021), taught by ``optimus`` first and then by reinforcement.

    python -m benchmarks.dl2_reinforced [--updates 10000] [--every 1000] [--traces 10] [--seed 1]

Jobs are those of ``testbed`` in ``benchmarks.dl2_slots``; all policies look at nodes in sum. As in
the paper the network reads the state of all jobs in order of arrival (type, slots run, epochs left,
dominant share, workers and PSs in this slot) and gives one job a worker, a PS or both, until it
stops or nothing fits. A slot's reward is the sum of the parts of their epochs that jobs have done.
Supervision is cross-entropy on the decisions of ``optimus``, and teaches a value network of the
same size. Reinforcement is actor-critic: discounted rewards less what the value network expects,
an entropy bonus that falls to 0, and exploration where a job has more than ten times as many PSs as
workers or the other way round. Batches of 1,024 are replayed from the last 64 traces. With rewards
bootstrapped by the value network it was at 1.047 ± 0.041 after 2,500 updates.

Printed is, after so many updates, the mean completion time divided by that of ``optimus`` on traces
that were not learned from, with its 95 % interval by Student's t, and CPU seconds.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from itertools import count, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.dl2_slots import HELD_OUT, MODELS, NODE, PS, SETTINGS, Trace, drawn
from benchmarks.gym import MOST_SLOTS, Slot, by_rule, mean_slots
from benchmarks.learning import Adam
from optimus.allocation.scorer import MOST
from optimus.policies.optimus import OptimusPolicy
from optimus.simulator.summary import Estimate

Array = NDArray[Any]

SETTING: Final = SETTINGS["testbed"]
HIDDEN: Final = 256
OF_JOB: Final = len(MODELS) + 5
STEPS: Final = np.array([[0, 1], [1, 0], [1, 1]])
"""PSs and workers of each action of a job."""
ACTIONS: Final = 3 * SETTING.jobs + 1
"""The last one stops."""
SUPERVISED, EPOCHS, SUPERVISED_RATE = 200, 20, 1e-3
"""Traces, how often each is learned from, and the rate."""
RATE, VALUE_RATE, ENTROPY, DISCOUNT = 3e-5, 2e-4, 1e-3, 0.9
SIDE_BY_SIDE, OF_THE_SAME, BATCH = 64, 20, 1024
"""Traces, how many updates they are replayed for, and inferences in one."""
_UNEVEN, _EXPLORED, _NEVER, _MANY = 10, 0.4, -1e9, 10**6
_USUAL_WORK: Final = np.array([each.epochs * each.steps_per_epoch for each in MODELS])


class Round:
    """What is given out in a slot of several traces; arrays have the shape (traces, jobs, ...), the
    jobs that are there first."""

    def __init__(self, slots: Sequence["Played"]) -> None:
        present = np.stack([each.slot.present for each in slots])
        self._order = np.argsort(~present, axis=1, kind="stable")
        self.present = self.sorted(present)
        models = self.sorted(np.stack([each.trace.models for each in slots]))
        self._workers = self.sorted(np.stack([each.trace.workers for each in slots]))
        arrives = self.sorted(np.stack([each.slot.trace.arrives for each in slots]))
        left = self.sorted(np.stack([each.slot.left for each in slots]))
        at = np.array([each.slot.at for each in slots])
        run = (at[:, None] - arrives)[..., None] / 10
        known = [np.eye(len(MODELS))[models], run, (left / _USUAL_WORK[models])[..., None]]
        self._known = np.concatenate(known, axis=2) * self.present[..., None]
        self._capacity = NODE * SETTING.nodes
        self._free = np.tile(self._capacity, (len(slots), 1))
        self._cost = STEPS[:, :1] * PS + STEPS[:, 1:] * self._workers[:, :, None]
        self.counts = np.zeros((*present.shape, 2), dtype=np.int64)

    def sorted(self, by_job: Array) -> Array:
        """In the order of the jobs here."""
        return np.asarray(by_job[np.arange(len(by_job))[:, None], self._order])

    def state(self, rows: Array) -> Array:
        """What the network reads, shape (rows, jobs x OF_JOB)."""
        counts = self.counts[rows]
        used = counts[..., :1] * PS + counts[..., 1:] * self._workers[rows]
        share = (used / self._capacity).max(axis=2, keepdims=True)
        found = np.concatenate([self._known[rows], share, counts[..., ::-1] / MOST], axis=2)
        return np.asarray(found.reshape(len(rows), -1), dtype=np.float32)

    def allowed(self, rows: Array) -> Array:
        """Which actions fit, shape (rows, ACTIONS)."""
        fits = (self._cost[rows] <= self._free[rows, None, None]).all(axis=3)
        fits &= (self.counts[rows][:, :, None] + STEPS <= MOST).all(axis=3)
        steps = (fits & self.present[rows][..., None]).reshape(len(rows), ACTIONS - 1)
        return np.hstack([steps, np.ones((len(rows), 1), dtype=np.bool_)])

    def give(self, rows: Array, actions: Array) -> None:
        """Do these actions, none of which is to stop."""
        jobs, steps = np.divmod(actions, 3)
        self.counts[rows, jobs] += STEPS[steps]
        self._free[rows] -= self._cost[rows, jobs, steps]

    def of(self, row: int) -> Array:
        """The PSs and workers of a trace's jobs, shape (2, jobs)."""
        found = np.zeros_like(self.counts[row])
        found[self._order[row]] = self.counts[row]
        return np.asarray(found.T)


class Played(NamedTuple):
    """A trace and where it is."""

    trace: Trace
    slot: Slot

    @classmethod
    def begun(cls, traces: Sequence[Trace]) -> list["Played"]:
        """Traces at their beginning."""
        return [cls(each, Slot(each.slots)) for each in traces]


Decide = Callable[[Round, Array, Array, Array], Array]
"""The actions in these traces of a round, by state and by what is allowed."""


class Samples(NamedTuple):
    """Inferences: what was read, what was allowed and what was done, and what came of it."""

    states: Array
    allowed: Array
    actions: Array
    targets: Array

    @classmethod
    def joined(cls, parts: Sequence[Sequence[Array]]) -> "Samples":
        """All of them."""
        return cls(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def give_out(a_round: Round, decide: Decide) -> Samples:
    """Give out counts in all traces until each stops or nothing fits; targets are the traces."""
    samples, rows = list[Sequence[Array]](), np.arange(len(a_round.counts))
    while len(rows):
        states, allowed = a_round.state(rows), a_round.allowed(rows)
        actions = decide(a_round, rows, states, allowed)
        samples.append((states, allowed, actions, rows))
        goes_on = actions < ACTIONS - 1
        rows = rows[goes_on]
        a_round.give(rows, actions[goes_on])
    return Samples.joined(samples)


def train(slots: Sequence[Played], a_round: Round) -> tuple[Array, Array]:
    """Train for a slot: the reward in each trace, and the parts of it for which jobs were there."""
    before = np.stack([each.slot.left for each in slots])
    there = [each.slot.train(*a_round.of(row)) for row, each in enumerate(slots)]
    done = before - np.stack([each.slot.left for each in slots])
    return (done / [each.slot.trace.work for each in slots]).sum(axis=1), np.array(there)


def unended(slots: Sequence[Played]) -> Array:
    """Which traces have jobs left."""
    return np.array([each.slot.left.any() and each.slot.at < MOST_SLOTS for each in slots])


Decides = Callable[[Sequence[Played], Round], Decide]
"""How to decide in a round."""


def play(slots: Sequence[Played], decides: Decides) -> Samples:
    """Play to the end; targets are the discounted rewards from the slot on."""
    found, rewards, later = list[Samples](), list[Array](), np.zeros(len(slots))
    while unended(slots).any():
        a_round = Round(slots)
        found.append(give_out(a_round, decides(slots, a_round)))
        rewards.append(train(slots, a_round)[0])
    for at in reversed(range(len(found))):
        later = rewards[at] + DISCOUNT * later
        found[at] = found[at]._replace(targets=later[found[at].targets])
    return Samples.joined(found)


class Layers:
    """A network of two hidden layers."""

    def __init__(self, draw: np.random.Generator, answers: int) -> None:
        self.adam, self.weights = Adam(SUPERVISED_RATE), dict[str, Array]()
        sizes = SETTING.jobs * OF_JOB, HIDDEN, HIDDEN, answers
        for layer, (size, after) in enumerate(pairwise(sizes)):
            weights = draw.normal(0, (2 / size) ** 0.5, (size, after))
            self.weights |= {f"w{layer}": weights.astype(np.float32)}
            self.weights |= {f"b{layer}": np.zeros(after, dtype=np.float32)}

    def layers(self, states: Array) -> tuple[Array, Array, Array]:
        """Both hidden layers and the answers."""
        w = self.weights
        first = np.maximum(states @ w["w0"] + w["b0"], 0)
        second = np.maximum(first @ w["w1"] + w["b1"], 0)
        return first, second, second @ w["w2"] + w["b2"]

    def learn(self, states: Array, outer: Callable[[Array], Array]) -> None:
        """One step by the derivatives of the loss by the answers."""
        first, second, answers = self.layers(states)
        pushed = outer(answers).astype(np.float32) / len(states)
        by_second = pushed @ self.weights["w2"].T * (second > 0)
        by_first = by_second @ self.weights["w1"].T * (first > 0)
        inner = zip((states, first, second), (by_first, by_second, pushed), strict=True)
        gradient = dict[str, Array]()
        for layer, (given, after) in enumerate(inner):
            gradient |= {f"w{layer}": given.T @ after, f"b{layer}": after.sum(axis=0)}
        self.weights = dict(self.adam.step(self.weights, gradient))


def chances(answers: Array, allowed: Array) -> Array:
    """The probabilities of the actions."""
    scores = np.where(allowed, answers, _NEVER)
    found = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def as_optimus_does(slots: Sequence[Played], a_round: Round) -> Decide:
    """On the way to the counts of ``optimus``, the job with the fewest tasks first."""
    choose = by_rule(OptimusPolicy())
    goal = a_round.sorted(np.stack([np.stack(choose(each.slot), axis=1) for each in slots]))

    def decide(a_round: Round, rows: Array, _: Array, __: Array) -> Array:
        lacking = np.minimum(goal[rows] - a_round.counts[rows], 1)
        tasks = np.where(lacking.any(axis=2), a_round.counts[rows].sum(axis=2), _MANY)
        at, jobs = np.arange(len(rows)), tasks.argmin(axis=1)
        kind = 2 * lacking[at, jobs, 0] + lacking[at, jobs, 1] - 1
        return np.where(tasks[at, jobs] < _MANY, 3 * jobs + kind, ACTIONS - 1)

    return decide


def as_learned(policy: Layers, draw: np.random.Generator | None = None) -> Decide:
    """The most probable action; or one that is drawn, or explores where a job is uneven."""

    def decide(a_round: Round, rows: Array, states: Array, allowed: Array) -> Array:
        scores = np.where(allowed, policy.layers(states)[2], _NEVER)
        if draw is None:
            return np.asarray(scores.argmax(axis=1))
        actions = (scores + draw.gumbel(size=scores.shape)).argmax(axis=1)
        ps, workers = np.moveaxis(a_round.counts[rows], 2, 0)
        scarcer = np.stack([ps > _UNEVEN * workers, workers > _UNEVEN * ps, ps < 0], axis=2)
        steps = scarcer.reshape(len(rows), -1) & allowed[:, :-1]
        explores = steps.any(axis=1) & (draw.random(len(rows)) < _EXPLORED)
        return np.asarray(np.where(explores, steps.argmax(axis=1), actions))

    return decide


class Learner:
    """A policy and a value network, and how they learn."""

    def __init__(self, seed: int) -> None:
        self._draw = np.random.default_rng(seed)
        self.policy, self.value = Layers(self._draw, ACTIONS), Layers(self._draw, 1)
        self._seeds = count(1_000_000 * seed)

    def _begun(self, number: int) -> list[Played]:
        return Played.begun([drawn(SETTING, "uniform", next(self._seeds)) for _ in range(number)])

    def supervise(self) -> None:
        """By what ``optimus`` does."""
        every = play(self._begun(SUPERVISED), as_optimus_does)
        for _ in range(EPOCHS):
            order = self._draw.permutation(len(every.actions))
            for some in np.array_split(order, len(order) // 256):
                states, allowed, actions, targets = (each[some] for each in every)
                done = np.eye(ACTIONS)[actions]
                self.policy.learn(states, lambda found: chances(found, allowed) - done)  # noqa: B023
                self.value.learn(states, lambda found: found - targets[:, None])  # noqa: B023

    def reinforce(self, updates: int, told: Callable[[int], None]) -> None:
        """By actor-critic; ``told`` is called after each update."""
        self.policy.adam, self.value.adam = Adam(RATE), Adam(VALUE_RATE)
        for number in range(updates):
            if number % OF_THE_SAME == 0:
                traces = self._begun(SIDE_BY_SIDE)
                every = play(traces, lambda *_: as_learned(self.policy, self._draw))
            some = self._draw.integers(0, len(every.actions), BATCH)
            samples = Samples(*(each[some] for each in every))
            self.update(samples, ENTROPY * (1 - number / updates))
            told(number + 1)

    def update(self, samples: Samples, entropy: float) -> None:
        """Makes actions likelier by how much more came of them than the value network expected."""
        states, allowed, actions, targets = samples
        better = targets[:, None] - self.value.layers(states)[2]

        def outer(answers: Array) -> Array:
            chance = chances(answers, allowed)
            logarithm = np.log(np.maximum(chance, 1e-12))
            spread = (chance * logarithm).sum(axis=1, keepdims=True)
            of_entropy = chance * (logarithm - spread)
            of_chance = better * (chance - np.eye(ACTIONS)[actions])
            return np.asarray(of_chance + entropy * of_entropy)

        self.policy.learn(states, outer)
        self.value.learn(states, lambda answers: answers - targets[:, None])


def times(traces: Sequence[Trace], decides: Decides) -> Array:
    """The mean completion time in slots of each trace."""
    slots, there = Played.begun(traces), np.zeros(len(traces))
    while unended(slots).any():
        a_round = Round(slots)
        give_out(a_round, decides(slots, a_round))
        there += train(slots, a_round)[1]
    return np.asarray(there / SETTING.jobs)


def main() -> None:
    """Learn, and print what was reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--updates", type=int, default=10_000)
    add("--every", type=int, default=1000, help="updates from one line to the next")
    add("--traces", type=int, default=10, help="to compare on")
    add("--seed", type=int, default=1)
    options = parser.parse_args()
    seeds = range(HELD_OUT, HELD_OUT + options.traces)
    held_out = [drawn(SETTING, "uniform", seed) for seed in seeds]
    usual = np.array([mean_slots(each.slots, OptimusPolicy()) for each in held_out])
    learner = Learner(options.seed)

    def told(updates: int) -> None:
        if updates % options.every == 0:
            found_times = times(held_out, lambda *_: as_learned(learner.policy))
            found = Estimate.of((found_times / usual).tolist())
            assert found.mean is not None
            half = (found.high or found.mean) - found.mean
            seconds = time.process_time()
            print(f"{updates}: {found.mean:.3f} ± {half:.3f} ({seconds:.0f} s)", flush=True)

    learner.supervise()
    told(0)
    learner.reinforce(options.updates, told)


if __name__ == "__main__":
    main()
