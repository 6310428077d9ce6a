"""Builders of small clusters: nodes, jobs, and forecasts of known coefficients."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.allocation import NO_HISTORY, per_pool
from optimus.errors import NotReady
from optimus.interval import IntervalConfig, Strategies
from optimus.interval.classify import Eligibility, JobView
from optimus.jobs import Counts, Goal, Job, JobKey, ReplicaSpec, Role, TargetLoss
from optimus.models.forecast import Forecast
from optimus.nodes import Node
from optimus.placement.theorem1 import Theorem1
from optimus.policies.optimus import OptimusPolicy
from optimus.progress.types import NOTHING, TrainingProgress
from optimus.resources import Resources
from optimus.snapshot import BoundPod, ReplicaId

TASK = Resources(cpu=1000)
GOAL = TargetLoss(0.1)


@dataclass(frozen=True)
class Sync:
    """f = 1 / (work / w + fixed + link * max(w / p, 1) + overhead * (w + p))."""

    work: float = 8.0
    fixed: float = 0.1
    link: float = 0.3
    overhead: float = 0.01

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        p, w = np.asarray(ps, float), np.asarray(workers, float)
        step = (
            self.work / w
            + self.fixed
            + self.link * np.maximum(w / p, 1.0)
            + self.overhead * (w + p)
        )
        return np.asarray(1 / step)


@dataclass(frozen=True)
class KnownForecasts:
    """Returns the given forecast of a job, by job name; other jobs are not ready."""

    known: dict[str, Forecast]

    def __call__(self, job: Job, progress: TrainingProgress, /) -> Forecast | NotReady:
        return self.known.get(job.key.name, NotReady("3 loss points, 5 needed"))


def steps(count: float, speed: Sync | None = None) -> Forecast:
    return Forecast(speed or Sync(), count)


def expecting(count: float, speed: Sync | None = None) -> Forecast:
    return replace(steps(count, speed), is_expected=True)


def done() -> Forecast:
    return Forecast(Sync(), 0.0, goal_met=True)


def job(
    name: str, counts: tuple[int, int] = (1, 1), goal: Goal | None = GOAL, **settings: object
) -> Job:
    given: dict[str, object] = {
        "key": JobKey("team", name),
        "uid": f"uid-{name}",
        "kind": "TFJob",
        "created_at": 0.0,
        "counts": Counts(*counts),
        "ps": ReplicaSpec(TASK),
        "worker": ReplicaSpec(TASK),
        "goal": goal,
    }
    return Job(**{**given, **settings})  # type: ignore[arg-type]  # settings of a test table, of any type


def nodes(count: int, cores: int) -> list[Node]:
    return [
        Node(f"node-{index:02}", Resources(cpu=cores * 1000, pods=110)) for index in range(count)
    ]


def bind(job: Job, where: Sequence[str]) -> list[BoundPod]:
    """All pods of a job, bound to the nodes named, PSs first."""
    replicas = [ReplicaId(job.uid, Role.PS, index) for index in range(job.counts.ps)]
    replicas += [ReplicaId(job.uid, Role.WORKER, index) for index in range(job.counts.workers)]
    return [
        BoundPod(f"pod-{job.key.name}-{replica.role}-{replica.index}", node, TASK, replica)
        for replica, node in zip(replicas, where, strict=True)
    ]


def strategies(known: dict[str, Forecast]) -> Strategies:
    return Strategies(per_pool(OptimusPolicy()), Theorem1(), KnownForecasts(known))


def classified(job: Job, eligibility: Eligibility, minimum: Counts, **settings: object) -> JobView:
    """A job of which nothing is known, as the rules may classify it."""
    view = JobView(job, True, NotReady(""), NO_HISTORY, NOTHING, IntervalConfig(), 0.0)
    given = {"eligibility": eligibility, "counts": job.counts, "minimum": minimum, **settings}
    return replace(view, **given)  # type: ignore[arg-type]  # settings of a test, of any type
