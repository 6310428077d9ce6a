"""CPU time of fits: ``python -m benchmarks.fits [--jobs 4000] [--samples 20] [--points 200]``.

Each job has so many speed samples and losses, and is fitted from scratch by ``forecast_job``, as in
an interval in which all jobs have new measurements. The reference in the same run is the same call
with the paper's curve (Optimus, section 3.1) for the losses, on every tenth job."""

import argparse
import json
import time
from collections.abc import Sequence

import numpy as np

from optimus.errors import NotReady
from optimus.jobs import (
    Batch,
    BatchScope,
    Counts,
    Job,
    JobKey,
    ReplicaSpec,
    TargetLoss,
    TrainingMode,
)
from optimus.models.convergence import LossCurve, PublishedCurve
from optimus.models.forecast import CurveFit, forecast_job
from optimus.progress.types import LossPoint, SpeedSample, TrainingProgress

_STEPS_PER_EPOCH = 50
_EVERY = 10
Case = tuple[Job, TrainingProgress]


def main() -> None:
    """Time the fits and write the results as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=4000)
    parser.add_argument("--samples", type=int, default=20, help="speeds measured of each job")
    parser.add_argument("--points", type=int, default=200, help="losses of each job, one an epoch")
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    cases = [draw_case(n, options.samples, options.points, rng) for n in range(options.jobs)]
    ours, ready = fit_all(cases, LossCurve.fit)
    some = cases[::_EVERY]
    published, _ = fit_all(some, PublishedCurve.fit)
    per_job, reference = 1000 * ours / len(cases), 1000 * published / len(some)
    found = {
        "jobs": len(cases),
        "samples": options.samples,
        "points": options.points,
        "cpu_seconds": round(ours, 3),
        "ms_per_job": round(per_job, 4),
        "forecasts": ready,
        "published_curve_ms_per_job": round(reference, 4),
        "ratio_to_published": round(per_job / reference, 4),
    }
    print(json.dumps(found, indent=2, allow_nan=False))


def draw_case(number: int, samples: int, points: int, rng: np.random.Generator) -> Case:
    """A job in the middle of its training, with noise in all measurements."""
    k = np.arange(1, points + 1)
    course = rng.uniform(0.5, 3) / (rng.uniform(0.02, 0.3) * k + 1) + rng.uniform(0, 0.3)
    losses = course * np.exp(0.02 * rng.standard_normal(points))
    side = range(1, samples + 1)
    counts = [Counts(ps, workers) for ps in side for workers in side]
    chosen = rng.choice(len(counts), samples, replace=False)
    job = Job(
        key=JobKey("team", f"job-{number}"),
        uid=f"uid-{number}",
        kind="MXJob",
        created_at=0.0,
        counts=Counts(1, 1),
        ps=ReplicaSpec(),
        worker=ReplicaSpec(),
        mode=TrainingMode.SYNC,
        batch=Batch(64, BatchScope.JOB),
        goal=TargetLoss(0.9 * float(losses.min())),
    )
    measured = []
    for n, index in enumerate(chosen):
        speed = _speed(counts[index]) * float(np.exp(0.03 * rng.standard_normal()))
        measured.append(SpeedSample(counts[index], speed, 60.0, float(n)))
    seen = tuple(
        LossPoint(float(y), float(n), int(n) * _STEPS_PER_EPOCH)
        for n, y in zip(k, losses, strict=True)
    )
    steps, per_epoch = points * _STEPS_PER_EPOCH, float(_STEPS_PER_EPOCH)
    return job, TrainingProgress(seen, float(points), steps, per_epoch, tuple(measured))


def _speed(counts: Counts) -> float:
    ps, workers = counts
    return 1 / (2 / workers + 0.2 + 0.1 * max(workers / ps, 1) + 0.01 * workers + 0.01 * ps)


def fit_all(cases: Sequence[Case], fit: CurveFit) -> tuple[float, int]:
    """CPU seconds for one forecast of each job, and how many were ready."""
    forecast_job(*cases[0], fit=fit)  # the tables are built once per process
    begun, ready = time.process_time(), 0
    for job, progress in cases:
        ready += not isinstance(forecast_job(job, progress, fit=fit), NotReady)
    return time.process_time() - begun, ready


if __name__ == "__main__":
    main()
