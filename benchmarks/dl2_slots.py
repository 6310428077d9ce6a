"""Allocation policies in the settings of DL2 (TPDS 32(8), 2021), slot by slot.

    python -m benchmarks.dl2_slots [--settings testbed small default] [--traces 10]
        [--arrivals uniform poisson google] [--robust] [--processes 2]

What a slot, a node and a task are is as in its authors' program (pengyanghua/DL2), of which nothing
is copied: all counts anew in each slot at no cost, nodes of 8 CPUs and 8 slots of GPUs, a worker of
2 and 4 of them (of two models 2 and 0), a PS of 2 CPUs, up to 16 of each; a job's speed depends on
its counts alone. Its file of measured speeds has no licence and is not used. Speeds are made here
of each model's size and time of a step (``MODELS``):

    steps per second of w workers and p PSs = 1 / (c / w + 2 S w / (p B) + c w / 36 + c p / 144)

the law of Optimus for sync training, with the time c of a step of one worker, the model's size S
and B = 10 Gbit/s. The last two terms are chosen here: speeds are highest at some 6 workers and fall
to 16, as there. Epochs are as many as make a job of a model as long beside those of the others as
there, with a normal factor (deviation 0.3, from 0.25 to 2), and such that jobs take on average as
many slots at their best counts as there (``SETTINGS``). No figure is to be the same.

Policies, on the true speeds: ``drf`` (the least dominant share gets one PS and one worker), DL2's
``Optimus`` (the task that shortens a job most), which both place the next task on the node with the
least use and end the slot where it does not fit; this project's ``optimus``; and ``dl2`` with the
weights of the package; the network of the paper is in ``benchmarks.dl2_reinforced``. ``--robust``
has forecasts that are wrong by 10 %. Printed are, trace by trace, mean completion times and their
ratios, with 95 % intervals, as JSON.
"""

import argparse
import heapq
import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.gym import Choose, Slot, SlotTrace, by_rule, play, with_errors
from optimus.allocation.scorer import MOST
from optimus.jobs import CountBounds, Counts, Job, JobKey, ReplicaSpec, TargetEpochs
from optimus.policies import policy_named
from optimus.policies.optimus import OptimusPolicy
from optimus.resources import Resources

Values = NDArray[np.float64]
Counted = NDArray[np.int64]

HELD_OUT: Final = 9973
"""The first seed of the traces."""
NODE: Final = np.array([8, 8])
PS: Final = np.array([2, 0])
_BYTES_PER_SECOND: Final = 1.25e9


class Model(NamedTuple):
    """What is published of a model: size in MB, seconds of a step, work beside that of others."""

    name: str
    megabytes: float
    seconds: float
    steps_per_epoch: int
    epochs: float
    on_gpu: bool = True


# Which two models do without GPUs is not told: those whose small networks take longest.
MODELS: Final = (
    Model("resnet-50", 102.2, 0.449, 115, 0.3),
    Model("vgg-16", 553.4, 0.535, 115, 0.96),
    Model("resnext-110", 6.92, 0.226, 390, 0.05),
    Model("inception-bn", 42.1, 0.815, 120, 0.54),
    Model("seq2seq", 36.5, 0.075, 780, 0.95),
    Model("cnn-text", 24.0, 0.585, 193, 0.46, on_gpu=False),
    Model("dssm", 6.0, 0.567, 349, 0.33, on_gpu=False),
    Model("wlm", 19.2, 0.154, 165, 0.23),
)


class Setting(NamedTuple):
    """How many nodes and jobs, the most arrivals of a slot, and the mean slots of a job alone."""

    nodes: int
    jobs: int
    arrivals: int
    slots: float


SETTINGS: Final = {
    "testbed": Setting(6, 10, 3, 2.67),
    "small": Setting(48, 60, 3, 59.0),
    "default": Setting(500, 200, 10, 21.48),
}


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The jobs of a trace, and of which model each is."""

    slots: SlotTrace
    models: Counted
    nodes: int

    @property
    def workers(self) -> Counted:
        """CPUs and GPUs of a worker, shape (jobs, 2)."""
        return np.array([[2, 4 * MODELS[each].on_gpu] for each in self.models])


def drawn(setting: Setting, arrivals: str, seed: int) -> Trace:
    """A trace by its seed."""
    draw = np.random.default_rng((seed, sorted(ARRIVALS).index(arrivals)))
    models = draw.integers(0, len(MODELS), setting.jobs)
    speeds = np.stack([_speeds(each) for each in MODELS])
    work = np.array([each.epochs * each.steps_per_epoch for each in MODELS])
    alone = work / speeds.max(axis=(1, 2))
    slot_seconds = alone.mean() / setting.slots
    factor = np.clip(draw.normal(1.0, 0.3, setting.jobs), 0.25, 2.0)
    slots = SlotTrace(
        tuple(_job(number, MODELS[each]) for number, each in enumerate(models)),
        Resources(cpu=8000 * setting.nodes, gpu=8 * setting.nodes),
        _arrives(ARRIVALS[arrivals](setting.arrivals, draw), setting.jobs),
        work[models] * factor,
        speeds[models] * slot_seconds,
        300.0,
    )
    return Trace(slots, models, setting.nodes)


def _speeds(model: Model) -> Values:
    """Steps per second, shape (17, 17), 0 without a PS or a worker."""
    found, counts = np.zeros((MOST + 1, MOST + 1)), np.arange(1.0, MOST + 1)
    p, w = counts[:, None], counts[None, :]
    transfer = 2 * model.megabytes * 1e6 / _BYTES_PER_SECOND * w / p
    found[1:, 1:] = 1 / (model.seconds * (1 / w + w / 36 + p / 144) + transfer)
    return found


def _job(number: int, model: Model) -> Job:
    worker = Resources(cpu=2000, gpu=4) if model.on_gpu else Resources(cpu=2000)
    return Job(
        key=JobKey("dl2", f"job-{number:03}"),
        uid=f"{number:03}",
        kind="MXJob",
        created_at=float(number),
        counts=Counts(1, 1),
        ps=ReplicaSpec(Resources(cpu=2000)),
        worker=ReplicaSpec(worker),
        goal=TargetEpochs(1.0),
        bounds=CountBounds(1, MOST, 1, MOST),
    )


Rates = Iterable[int]


def _uniform(most: int, draw: np.random.Generator) -> Rates:
    while True:
        yield int(draw.integers(0, most + 1))


def _poisson(most: int, draw: np.random.Generator) -> Rates:
    while True:
        yield int(draw.poisson(most / 2))


def _google(most: int, draw: np.random.Generator) -> Rates:
    """Like the trace of Google: bursts, by a rate whose logarithm is autocorrelated."""
    level = draw.normal()
    while True:
        yield int(draw.poisson(most / 2 * np.exp(level - 0.5)))
        level = 0.5 * level + 0.75**0.5 * draw.normal()


ARRIVALS: Final = {"uniform": _uniform, "poisson": _poisson, "google": _google}


def _arrives(numbers: Rates, jobs: int) -> Counted:
    found = list[int]()
    for slot, number in enumerate(numbers):
        found += [slot] * number
        if len(found) >= jobs:
            break
    return np.array(found[:jobs]) - found[0]


@dataclass(slots=True, eq=False)
class _Nodes:
    """Free CPUs and GPUs; the next task goes to the node with the least use."""

    order: list[tuple[int, int, int, int]]

    @classmethod
    def of(cls, number: int) -> "_Nodes":
        cpu, gpu = NODE.tolist()
        return cls([(0, node, cpu, gpu) for node in range(number)])

    def take(self, *tasks: Values | Counted) -> bool:
        """Place these tasks; nothing is done where one of them does not fit."""
        before = list(self.order) if len(tasks) > 1 else self.order
        for task in tasks:
            (cpu, gpu), (used, node, free_cpu, free_gpu) = task.tolist(), self.order[0]
            if cpu > free_cpu or gpu > free_gpu:
                self.order = before
                return False
            moved = used + cpu + gpu, node, free_cpu - cpu, free_gpu - gpu
            heapq.heapreplace(self.order, moved)
        return True


def _started(trace: Trace, slot: Slot) -> tuple[Counted, Counted, _Nodes]:
    """One PS and one worker of each job, in order, while they fit."""
    ps, nodes = np.zeros(len(slot.left), dtype=np.int64), _Nodes.of(trace.nodes)
    for row in np.flatnonzero(slot.present).tolist():
        if not nodes.take(PS, trace.workers[row]):
            break
        ps[row] = 1
    return ps, ps.copy(), nodes


def drf(trace: Trace) -> Choose:
    """One PS and one worker at a time to the job with the least dominant share."""
    pair = (trace.workers + PS) / (NODE * trace.nodes)
    share, tasks = pair.max(axis=1), trace.workers

    def choose(slot: Slot) -> tuple[Counted, Counted]:
        ps, workers, nodes = _started(trace, slot)
        queue = [(share[row], row) for row in np.flatnonzero(ps).tolist()]
        heapq.heapify(queue)
        while queue:
            had, row = heapq.heappop(queue)
            if ps[row] == MOST:
                continue
            if not nodes.take(PS, tasks[row]):
                break
            ps[row] += 1
            workers[row] += 1
            heapq.heappush(queue, (had + share[row], row))
        return ps, workers

    return choose


def dl2_optimus(trace: Trace) -> Choose:
    """DL2's "Optimus": the PS or the worker that saves most slots, until one does not fit."""
    tasks = trace.workers

    def choose(slot: Slot) -> tuple[Counted, Counted]:
        ps, workers, nodes = _started(trace, slot)
        speed, left = trace.slots.speed, slot.left
        queue = list[tuple[float, int, int]]()

        def push(row: int) -> None:
            p, w = int(ps[row]), int(workers[row])
            now = left[row] / speed[row, p, w]
            saved = [
                now - left[row] / speed[row, p + 1, w] if p < MOST else 0.0,
                now - left[row] / speed[row, p, w + 1] if w < MOST else 0.0,
            ]
            best = int(saved[1] >= saved[0])
            if saved[best] > 0:
                heapq.heappush(queue, (-saved[best], row, best))

        for row in np.flatnonzero(ps).tolist():
            push(row)
        while queue:
            _, row, is_worker = heapq.heappop(queue)
            if not nodes.take(tasks[row] if is_worker else PS):
                break
            (workers if is_worker else ps)[row] += 1
            push(row)
        return ps, workers

    return choose


@dataclass(frozen=True, slots=True)
class Task:
    """One trace under all policies."""

    setting: str
    arrivals: str
    seed: int
    wrong: float

    def run(self) -> dict[str, float]:
        """The mean completion time in slots by policy."""
        trace = drawn(SETTINGS[self.setting], self.arrivals, self.seed)
        slots = trace.slots
        if self.wrong:
            slots = with_errors(slots, self.wrong, np.random.default_rng(self.seed))
        chosen: dict[str, Choose] = {
            "drf": drf(trace),
            "dl2's optimus": dl2_optimus(trace),
            "optimus": by_rule(OptimusPolicy()),
            "dl2": by_rule(getattr(policy_named("dl2"), "rule")),  # noqa: B009 - of pools
        }
        found = {name: _mean(slots, each) for name, each in chosen.items()}
        found["without queueing"] = float((slots.work / slots.speed.max(axis=(1, 2))).mean())
        return found


def _mean(slots: SlotTrace, choose: Choose) -> float:
    return float(play(slots, choose).sum() / len(slots.jobs))


def main() -> None:
    """Run the traces and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--settings", nargs="+", choices=tuple(SETTINGS), default=tuple(SETTINGS))
    add("--arrivals", nargs="+", choices=tuple(ARRIVALS), default=tuple(ARRIVALS))
    add("--traces", type=int, default=10, help="of each arrivals and setting")
    add("--robust", action="store_true", help="forecasts of speed are wrong by 10 %%")
    add("--processes", type=int, default=1)
    options = parser.parse_args()
    answer = dict[str, object]()
    seeds = range(HELD_OUT, HELD_OUT + options.traces)
    with ProcessPoolExecutor(options.processes) as pool:
        for setting in options.settings:
            for arrivals in options.arrivals:
                tasks = [Task(setting, arrivals, seed, 0.1 * options.robust) for seed in seeds]
                answer[f"{setting}, {arrivals}"] = _compared(list(pool.map(Task.run, tasks)))
    print(json.dumps(answer, indent=1, allow_nan=False))


def _compared(found: Sequence[dict[str, float]]) -> dict[str, object]:
    columns = {name: np.array([each[name] for each in found]) for name in found[0]}
    means = {name: round(float(each.mean()), 3) for name, each in columns.items()}
    ratios = {
        f"{one} / {other}": _interval(columns[one] / columns[other])
        for one in columns
        for other in ("optimus", "dl2's optimus")
        if one != other
    }
    return {"mean slots": means, "ratios": ratios}


def _interval(ratio: Values) -> dict[str, float]:
    spread = 1.96 * float(ratio.std(ddof=1)) / len(ratio) ** 0.5
    given = {"mean": float(ratio.mean()), "plus_or_minus": spread, "worst": float(ratio.max())}
    return {name: round(each, 4) for name, each in given.items()}


if __name__ == "__main__":
    main()
