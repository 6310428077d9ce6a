"""What fitting costs:
``python -m benchmarks.fits [--jobs 4000] [--samples 20] [--points 200] [--output FILE.json]``.

Each job has so many samples of its speed and so many losses, and is fitted from scratch by
``forecast_job``, as in an interval in which all of them have something new to tell. The reference
in the same run is the same call with the paper's curve (Optimus, section 3.1) for the losses, on
every tenth job."""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

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
    """Time the fits and write what was found as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=4000)
    parser.add_argument("--samples", type=int, default=20, help="speeds measured of each job")
    parser.add_argument(
        "--points", type=int, default=200, help="losses of each job, one for each epoch"
    )
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    cases = [
        draw_case(number, options.samples, options.points, rng) for number in range(options.jobs)
    ]
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
    text = json.dumps(found, indent=2, allow_nan=False)
    if options.output:
        options.output.write_text(text + "\n")
    print(text)


def draw_case(number: int, samples: int, points: int, rng: np.random.Generator) -> Case:
    """A job in the middle of its training, with noise in all that was measured."""
    k = np.arange(1, points + 1)
    course = rng.uniform(0.5, 3) / (rng.uniform(0.02, 0.3) * k + 1) + rng.uniform(0, 0.3)
    losses = course * np.exp(0.02 * rng.standard_normal(points))
    counts = [
        Counts(ps, workers) for ps in range(1, samples + 1) for workers in range(1, samples + 1)
    ]
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
    measured = tuple(
        SpeedSample(
            counts[place],
            _speed(counts[place]) * float(np.exp(0.03 * rng.standard_normal())),
            60.0,
            float(n),
        )
        for n, place in enumerate(chosen)
    )
    seen = tuple(
        LossPoint(float(y), float(n), int(n) * _STEPS_PER_EPOCH)
        for n, y in zip(k, losses, strict=True)
    )
    steps = points * _STEPS_PER_EPOCH
    return job, TrainingProgress(seen, float(points), steps, float(_STEPS_PER_EPOCH), measured)


def _speed(counts: Counts) -> float:
    ps, workers = counts
    return 1 / (2 / workers + 0.2 + 0.1 * max(workers / ps, 1) + 0.01 * workers + 0.01 * ps)


def fit_all(cases: Sequence[Case], fit: CurveFit) -> tuple[float, int]:
    """CPU seconds for one forecast of each job, and how many had an answer other than "not
    reachable"."""
    forecast_job(*cases[0], fit=fit)  # the tables are laid out once per process
    begun, ready = time.process_time(), 0
    for job, progress in cases:
        ready += not isinstance(forecast_job(job, progress, fit=fit), NotReady)
    return time.process_time() - begun, ready


if __name__ == "__main__":
    main()
