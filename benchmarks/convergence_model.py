"""Errors of the convergence model: ``python -m benchmarks.convergence_model [LOG ..] [--runs 30]``.

Evaluated as by ``optimus evaluate convergence`` on the logs given (the recorded ones by default),
on networks trained for it (``benchmarks.trained_runs``) and on formulas with noise: from 30 % and
50 % of a run, and from 5 epochs after each drop of the learning rate; also for targets that are
never reached, at 0.8 of a run's smallest loss. The reference is the paper's curve (Optimus, section
3.1) on the same losses; ratios are to its mean error."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np

from benchmarks.trained_runs import train
from optimus.cli.convergence_evaluation import (
    EvaluatedForecast,
    ForecastQuestion,
    predict,
    questions_after_drops,
    questions_at,
    roc_auc,
    unreachable,
)
from optimus.cli.training_log import read_training_log
from optimus.models.convergence.series import learning_rate_drops
from optimus.progress.types import LossPoint

PARTS, TARGETS, AFTER_DROP, UNREACHABLE = (0.3, 0.5), (0.6, 0.75, 0.9), 5, 0.8
RECORDED = Path(__file__).parents[1] / "tests" / "data" / "curves"
Run = Sequence[LossPoint]


def main() -> None:
    """Evaluate all suites and write the results as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", nargs="*", type=Path, help="training logs, or CSV epoch,loss")
    parser.add_argument("--runs", type=int, default=30, help="networks trained in each suite")
    parser.add_argument("--seed", type=int, default=1, help="of the networks and the noise")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    logs = options.logs or sorted(RECORDED.glob("*.log"))
    suites: dict[str, list[Run]] = {
        "logs": [read_training_log(log).epoch_means() for log in logs],
        "trained, constant rate": list(trained(options.seed, options.runs, stepped=False)),
        "trained, step decay": list(trained(options.seed, options.runs, stepped=True)),
        "formulas, 1 % noise": list(formulas(options.seed, 0.01)),
        "formulas, 5 % noise": list(formulas(options.seed, 0.05)),
    }
    found = {name: evaluate(runs) for name, runs in suites.items()}
    text = json.dumps(found, indent=2, allow_nan=False)
    if options.output:
        options.output.write_text(text + "\n")
    print(text)


def trained(seed: int, number: int, *, stepped: bool) -> Iterator[Run]:
    """So many networks' losses; one that diverges or hardly learns is drawn again."""
    found, draw = 0, 1000 * seed
    while found < number:
        run = train(draw, stepped=stepped)
        draw += 1
        if run is not None and min(point.loss for point in run) < 0.9 * run[0].loss:
            found += 1
            print(f"\r{found} of {number} trained", end="", file=sys.stderr)
            yield run
    print(file=sys.stderr)


def formulas(seed: int, noise: float) -> Iterator[Run]:
    """Hyperbolas, (stretched) exponentials and powers, with and without a floor, with noise."""
    rng, k = np.random.default_rng([seed, round(1000 * noise)]), np.arange(1.0, 121)
    for floor in (0.0, 0.1):
        for tau in (10.0, 30.0):
            for course in (
                1 / (1 + k / tau),
                np.exp(-k / tau / 3),
                (1 + k / 5) ** (-tau / 20),
                np.exp(-((k / tau) ** 0.6)),
            ):
                losses = (course + floor) * np.exp(noise * rng.standard_normal(len(k)))
                yield [LossPoint(float(loss), n + 1.0) for n, loss in enumerate(losses)]


def paper_form(seed: int, number: int) -> Iterator[Run]:
    """Curves of the paper's own form, 1/(b0 k + b1) + b2, of 20 to 250 epochs with noise."""
    rng = np.random.default_rng(seed)
    for _ in range(number):
        epochs = round(float(np.exp(rng.uniform(np.log(20), np.log(250)))))
        half = epochs * np.exp(rng.uniform(np.log(0.03), np.log(0.5)))
        floor, noise = rng.choice([0, 0.05, 0.1, 0.2, 0.4]), rng.choice([0.003, 0.01, 0.03])
        k = np.arange(1.0, epochs + 1)
        losses = rng.uniform(0.5, 8) * ((1 - floor) / (1 + k / half) + floor)
        losses *= np.exp(noise * rng.standard_normal(epochs))
        yield [LossPoint(float(loss), n + 1.0) for n, loss in enumerate(losses)]


def evaluate(runs: Sequence[Run]) -> dict[str, Mapping[str, object]]:
    """Errors of the forecasts of these runs by origin; runs with drops are separate."""
    asked: dict[str, list[tuple[Run, ForecastQuestion]]] = {}
    for run in runs:
        losses = [point.loss for point in run]
        drops = "before drops, from " if learning_rate_drops(run) else "from "
        questions = list(questions_at(losses, PARTS, TARGETS))
        for question in (*questions, *unreachable(questions, losses, UNREACHABLE)):
            asked.setdefault(drops + question.origin, []).append((run, question))
        for question in questions_after_drops(run, AFTER_DROP, TARGETS):
            asked.setdefault(f"from {question.origin}", []).append((run, question))
    return {
        origin: summary([predict(run, None, question) for run, question in of_origin])
        for origin, of_origin in sorted(asked.items())
    }


def summary(evaluated: Sequence[EvaluatedForecast]) -> Mapping[str, object]:
    """Means over the forecasts of targets that were reached."""
    known = [each for each in evaluated if each.question.true is not None]
    errors = zip(*((each.error, each.paper_error, each.twice_error) for each in known), strict=True)
    error, paper, twice = (fmean(each for each in of if each is not None) for of in errors)
    return {
        "predictions": len(known),
        "error": round(error, 4),
        "paper_error": round(paper, 4),
        "twice_seen_error": round(twice, 4),
        "ratio_to_paper": round(error / paper, 4) if paper else None,
        "interval_holds": round(fmean(each.covered for each in known), 4),
        "interval_width": round(fmean(each.width for each in known), 4),
        "not_reachable": sum(each.time_to_goal is None for each in known),
        "reached_above_never": roc_auc(evaluated),
    }


if __name__ == "__main__":
    main()
