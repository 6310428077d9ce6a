"""The six light jobs of ``benchmarks.live_worth``, drawn from a seed.

Their speeds are stated costs that the trainers sleep, so a job's time at any counts is known
beforehand; how long it trains is a number of steps that is the same whatever its counts.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from benchmarks import live_ranks
from examples.light.costs import Costs
from examples.light.journal import accuracy_of
from examples.light.problem import Problem
from optimus.kube.times import format_second
from tests.harness.light_jobs import Kind, LightJob

Counts = tuple[int, int]

FASTER: Final = 10.0
"""All settings of the autoscaler that are seconds are divided by this."""

NODES: Final = ("6100m",) * 4
"""Six jobs of 2 + 3 fill them."""

SENSIBLE: Final[Counts] = (2, 3)
"""The counts at which a job of the drawn length takes that long."""

SENSIBLE_RANKS: Final[Counts] = (1, 3)
"""The same of a PyTorchJob: a master and its workers."""

_REQUESTS: Final = {
    "Master": {"cpu": "1", "memory": "64Mi"},
    "PS": {"cpu": "500m", "memory": "64Mi"},
    "Worker": {"cpu": "1", "memory": "64Mi"},
    "Scheduler": {"cpu": "10m", "memory": "16Mi"},
}
_RANKS_OF_SERVER: Final = 6
_LINK_MBIT: Final = 100.0
_MESSAGE_SECONDS: Final = 0.003
_BATCH: Final = 64
_STEPS_PER_EPOCH: Final = 20
_ASYNC_STEPS_PER_EPOCH: Final = 60
"""Trainer 0 prints its own batches alone: with fewer in an epoch it would meet a loss by chance."""

_STEEPNESS: Final = 4.5
"""Learning rate times steps: the loss ends at 1 / (1 + 2 * 4.5) above its floor."""

_BELOW: Final = 0.99
"""A target is so much below what a job reaches."""

_ASYNC_BELOW: Final = 0.97
"""The same of a job whose loss is noisy."""

_START_SECONDS: Final = 20.0
_SLACK: Final = 1.3
"""A deadline leaves the time of the job's own counts so often."""


@dataclass(frozen=True)
class PlannedJob:
    """A job, and what is known of it before it runs."""

    job: LightJob
    arrives_at: float
    """Seconds after the beginning."""
    steps: int
    costs: Costs
    within: float = 1.0
    """The ranks of a PyTorchJob exchange so many times as fast on one server."""
    slack_seconds: float = 0.0
    """Seconds from its creation to its deadline; 0: it has none."""

    @property
    def is_synchronous(self) -> bool:
        """Whether its workers take each step together."""
        return self.job.kind != "MXJob"

    def training_seconds(self, ps: int, workers: int) -> float:
        """How long all its steps take at these counts, by its stated costs, on few servers."""
        if self.job.kind == "PyTorchJob":
            ranks = ps + workers
            servers = -(-ranks // _RANKS_OF_SERVER)
            return self.steps * live_ranks.step_seconds(
                self.costs, _BATCH, self.within, ranks, servers
            )
        return self.steps * step_seconds(self.costs, ps, workers, self.is_synchronous)

    def created(self, now: float) -> LightJob:
        """The job to create at an instant, in seconds since 1970."""
        if not self.slack_seconds:
            return self.job
        finish_by = {"optimus.dl/finish-by": format_second(now + self.slack_seconds)}
        return replace(self.job, annotations={**(self.job.annotations or {}), **finish_by})


class Saving(NamedTuple):
    """When the jobs save."""

    on_stop: bool
    every_seconds: float


def step_seconds(costs: Costs, ps: int, workers: int, synchronous: bool) -> float:
    """The stated time of one step of a whole job.

    Asynchronous workers share the PSs' links, and no step waits for another: exact while the links
    are not the limit."""
    if synchronous:
        return costs.synchronous_step_seconds(ps, workers, _BATCH)
    own = costs.compute_seconds(_BATCH) + 2 * costs.hold_seconds(costs.model_bytes, ps)
    queue = 2 * costs.hold_seconds(costs.model_bytes / ps, 1)
    return max((own + queue) / workers, queue)


def planned_jobs(
    seed: int, counts: Counts, mean_seconds: float, saving: Saving
) -> tuple[PlannedJob, ...]:
    """The jobs in the order of their arrival; ``counts`` are what their users ask for."""
    draws = random.Random(seed)
    arrivals = [0.0, *sorted(draws.uniform(0, 0.6 * mean_seconds) for _ in range(5))]
    recurring, mode = _drawn_costs(draws), {"optimus.dl/workload": "w1"}
    plans: tuple[tuple[str, Kind, Costs, dict[str, str]], ...] = (
        ("a-loss", "TFJob", recurring, mode),
        ("b-async", "MXJob", _drawn_costs(draws, synchronous=False), {}),
        ("c-epochs", "TFJob", _drawn_costs(draws), {}),
        ("d-deadline", "TFJob", _drawn_costs(draws), {}),
        ("e-accuracy", "TFJob", _drawn_costs(draws), {}),
        ("f-again", "TFJob", recurring, mode),
    )
    return tuple(
        _planned(
            LightJob(kind, name, *counts, own, _REQUESTS, clean_pod_policy="Running"),
            costs,
            arrival,
            draws.uniform(0.6, 1.4) * mean_seconds,
            saving,
        )
        for (name, kind, costs, own), arrival in zip(plans, arrivals, strict=True)
    )


def planned_rank_jobs(
    seed: int, counts: Counts, mean_seconds: float, saving: Saving
) -> tuple[PlannedJob, ...]:
    """The same as PyTorchJobs; ``counts`` are a master and workers."""
    draws = random.Random(seed)
    arrivals = [0.0, *sorted(draws.uniform(0, 0.6 * mean_seconds) for _ in range(5))]
    recurring = _drawn_rank_costs(draws)
    names = ("a-loss", "b-loss", "c-epochs", "d-deadline", "e-accuracy", "f-again")
    planned = []
    for name, arrival in zip(names, arrivals, strict=True):
        own = {"optimus.dl/workload": "w1"} if name in ("a-loss", "f-again") else {}
        costs, within = recurring if own else _drawn_rank_costs(draws)
        job = LightJob("PyTorchJob", name, *counts, own, _REQUESTS)
        seconds = draws.uniform(0.6, 1.4) * mean_seconds
        planned.append(_planned(job, costs, arrival, seconds, saving, within))
    return tuple(planned)


def _drawn_rank_costs(draws: random.Random) -> tuple[Costs, float]:
    """Costs of which a step at sensible counts on several servers is spent on the exchange to a
    fifth, to four fifths, or between, and how much faster that is on one server."""
    step, share = draws.uniform(0.6, 0.9), draws.uniform(0.2, 0.8)
    ranks = sum(SENSIBLE_RANKS)
    transfer = step * share - 2 * _MESSAGE_SECONDS * (ranks - 1)
    costs = Costs(
        example_seconds=step * (1 - share) / (_BATCH / ranks),
        step_seconds=0.0,
        link_bits_per_second=_LINK_MBIT * 1e6,
        message_seconds=_MESSAGE_SECONDS,
        model_bytes=round(transfer * ranks / (ranks - 1) * _LINK_MBIT * 1e6 / 16),
    )
    return costs, draws.choice((1.0, 3.0, 10.0))


def _drawn_costs(draws: random.Random, synchronous: bool = True) -> Costs:
    """Costs of a job of which a step at sensible counts is spent on transfers to a fifth, to four
    fifths, or between: as the models of the simulator's testbed, from Inception-BN to CNN-rand."""
    step, share = draws.uniform(0.6, 0.9), draws.uniform(0.2, 0.8)
    (ps, workers), handling = SENSIBLE, 2 * _MESSAGE_SECONDS * sum(SENSIBLE)
    # A synchronous worker's step has 1 + w / p transfers. Each asynchronous worker makes its own
    # steps, so that those of the job are so many times as short.
    transfer = step * share / (1 + (workers if synchronous else 1) / ps)
    examples = _BATCH / workers if synchronous else _BATCH
    return Costs(
        example_seconds=(step * (1 - share) - handling) / examples,
        step_seconds=0.0,
        link_bits_per_second=_LINK_MBIT * 1e6,
        message_seconds=_MESSAGE_SECONDS,
        model_bytes=round(transfer * _LINK_MBIT * 1e6 / 16),
    )


def _planned(
    job: LightJob, costs: Costs, arrival: float, seconds: float, saving: Saving, within: float = 1.0
) -> PlannedJob:
    one_step = PlannedJob(job, arrival, 1, costs, within)
    synchronous = one_step.is_synchronous
    per_epoch = _STEPS_PER_EPOCH if synchronous else _ASYNC_STEPS_PER_EPOCH
    sensible = SENSIBLE_RANKS if job.kind == "PyTorchJob" else SENSIBLE
    epochs = max(round(seconds / one_step.training_seconds(*sensible) / per_epoch), 3)
    steps = epochs * per_epoch
    rate = _STEEPNESS / steps
    loss = final_loss(steps, rate, per_epoch) * (1.0 if synchronous else _ASYNC_BELOW)
    goal, slack = _goal(job.name, epochs, loss), 0.0
    own = one_step.training_seconds(job.ps, job.workers) * steps
    if job.name.startswith("d-"):
        slack = _SLACK * own + _START_SECONDS
    size = "global-batch-size" if synchronous else "worker-batch-size"
    annotations = {
        **(job.annotations or {}),
        **goal,
        "optimus.dl/training-mode": "sync" if synchronous else "async",
        f"optimus.dl/{size}": str(_BATCH),
        "optimus.dl/steps-per-epoch": str(per_epoch),
        "optimus.dl/saves-on-stop": "true" if saving.on_stop else "false",
    }
    flags = {
        **_flags(costs, per_epoch, synchronous),
        "--epochs": str(epochs),
        "--learning-rate": f"{rate:.8f}",
        "--checkpoint-seconds": f"{saving.every_seconds:g}",
        "--saves-on-stop": str(int(saving.on_stop)),
        "--log-accuracy": str(int(job.name.startswith("e-"))),
    }
    if job.kind == "PyTorchJob":
        flags["--within"] = f"{within:g}"
    whole = replace(job, annotations=annotations, flags=flags)
    return PlannedJob(whole, arrival, steps, costs, within, slack)


def _goal(name: str, epochs: int, loss: float) -> dict[str, str]:
    """The goal, which the job comes close to as it ends, and does not meet before."""
    if name.startswith("c-"):
        return {"optimus.dl/target-epochs": str(epochs)}
    if name.startswith("e-"):
        return {"optimus.dl/target": f"accuracy>={accuracy_of(loss):.4f}"}
    return {"optimus.dl/target-loss": f"{loss:.4f}"}


def _flags(costs: Costs, per_epoch: int, synchronous: bool) -> Mapping[str, str]:
    return {
        "--mode": "sync" if synchronous else "async",
        "--global-batch-size" if synchronous else "--worker-batch-size": str(_BATCH),
        "--examples-per-epoch": str(_BATCH * per_epoch),
        "--example-seconds": f"{costs.example_seconds:.6f}",
        "--link-mbit": f"{_LINK_MBIT:g}",
        "--model-mbytes": f"{costs.model_bytes / 1e6:.6f}",
        "--message-seconds": f"{costs.message_seconds:g}",
        "--log-seconds": "1",
    }


def final_loss(steps: int, rate: float, per_epoch: int) -> float:
    """A loss that a job of so many steps does not reach in two epochs in a row before its last."""
    epochs = np.array(epoch_losses(steps, rate, per_epoch))
    return _BELOW * float(min(np.maximum(epochs[:-1], epochs[1:])))


@cache
def epoch_losses(steps: int, rate: float, per_epoch: int) -> tuple[float, ...]:
    """The mean loss of each epoch of a synchronous job of so many steps."""
    problem, parameters = Problem(1), Problem.initial_parameters()
    losses = []
    for step in range(steps):
        gradient = problem.gradient(parameters, step * _BATCH, _BATCH)
        parameters = parameters - rate * gradient.values / gradient.examples
        losses.append(gradient.loss / gradient.examples)
    return tuple(np.mean(np.reshape(losses, (-1, per_epoch)), axis=1).tolist())
