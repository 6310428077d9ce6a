"""Forecasts of published runs whose schedule is declared: ``python -m benchmarks.scheduled_runs``.

The runs are those of ``tests/data/curves/published_runs.json`` (GluonCV and GluonNLP): a loss per
epoch, or the error of a metric, and what the script printed of the whole run. Forecasts see nothing
after the epochs seen. For each origin: the mean error as a part of the run, the part of the 80 %
intervals that hold the true epoch, and their width, over all questions and by family; beside them
the model without a schedule, the same that is told the rates so far and cut at the declared end,
the paper's curve, the rule "twice the epochs seen", three quarters of the declared end, and three
epochs after the last declared drop. ``error_interval``: 95 %, by a bootstrap over families.

``--choose`` selects the model's constants by cross-validation: for each family those that are best
on all others, by the pinball loss of the median and of the interval's ends (a proper score:
Gneiting and Raftery 2007), and the errors of each family under constants that never saw it. Its
targets lie everywhere in the run, so that the constants do not learn where those of the table are.
The optimum is flat: ``score_of_product`` beside ``score_of_best`` shows what the product's round
numbers cost.

``--kept-apart`` takes the runs of ``runs_kept_apart.json`` instead, on which nothing was chosen.

``--ablation`` leaves out one part of the model at a time: errors, and CPU time of a fit with one
forecast."""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean

import numpy as np

from benchmarks.forecast_questions import paper_error, questions_after_drops
from optimus.cli.evaluate_convergence import (
    EvaluatedForecast,
    ForecastQuestion,
    predict,
    questions_at,
)
from optimus.errors import NotReady
from optimus.models.convergence import (
    QUIET_EPOCHS,
    LearningRateSchedule,
    LossCurve,
    PublishedCurve,
    TimeToGoal,
)
from optimus.models.convergence.courses import CourseFamily
from optimus.models.convergence.curve import CurveConstants
from optimus.models.convergence.schedule import DecayShape
from optimus.models.forecast import Curve
from optimus.progress.types import Declared, LossPoint

RUNS = Path(__file__).parents[1] / "tests" / "data" / "curves" / "published_runs.json"
KEPT_APART = RUNS.with_name("runs_kept_apart.json")
"""Runs on which nothing of the product was chosen."""
LEAST_EPOCHS = 10
"""Of a run that is asked about from 5 % of it on."""
PARTS, TARGETS, AFTER_DROP = (0.05, 0.1, 0.2, 0.3, 0.5), (0.6, 0.75, 0.9), 5
CHOSEN_ON = ("0.3", "0.5", f"drop+{AFTER_DROP}")
"""Earlier the losses say little: the constants would learn where the questions' targets are."""
CHOSEN_TARGETS = (0.4, 0.55, 0.7, 0.85, 1.0)
GUESS = 0.75
CONSTANTS = [
    CurveConstants(*each) for each in product((0.1, 0.15, 0.2, 0.3), (0.0, 0.5, 1.0), (0.02, 0.05))
]
FAMILIES = [CourseFamily(drop_lags=(lag, math.inf)) for lag in (0.1, 0.15, 0.2, 0.3)]
GRID = list(product(FAMILIES, CONSTANTS))
QUANTILES = (0.1, 0.5, 0.9)
BOOTSTRAPS = 2000


@dataclass(frozen=True, slots=True)
class Run:
    """One published run."""

    family: str
    points: tuple[LossPoint, ...]
    schedule: LearningRateSchedule

    @classmethod
    def of(cls, found: Mapping[str, object]) -> "Run":
        """A run of the file; one that declares no end is taken as long as it is."""
        losses, about = found["losses"], found["declared"]
        if not isinstance(losses, list) or not isinstance(about, dict):
            raise TypeError(f"{found['log']}: a list of losses and the declared settings expected")
        declared = Declared(**{**about, "drops": tuple(about.get("drops", ()))})
        if not declared.epochs:
            declared = replace(declared, epochs=len(losses))
        schedule = LearningRateSchedule.of(declared, in_epochs=True)
        if schedule is None:
            raise ValueError(f"{found['log']}: no end")
        points = tuple(LossPoint(loss, float(n)) for n, loss in enumerate(losses, 1))
        return cls(str(found["family"]), points, schedule)

    def questions(self, targets: Sequence[float] = TARGETS) -> Iterator[ForecastQuestion]:
        """From parts of the run, and from some epochs after each declared drop."""
        yield from questions_at([point.loss for point in self.points], PARTS, targets)
        if not self.schedule.drops:
            return
        rates = [0.1 * self.schedule.factor ** self._passed(n) for n in range(len(self.points))]
        named = [
            replace(point, learning_rate=rate)
            for point, rate in zip(self.points, rates, strict=True)
        ]
        yield from questions_after_drops(named, AFTER_DROP, targets)

    def _passed(self, epochs: int) -> int:
        return sum(drop <= epochs for drop in self.schedule.drops)


Asked = tuple[Run, ForecastQuestion]


def published_runs() -> list[Run]:
    """All published runs."""
    return [Run.of(each) for each in json.loads(RUNS.read_text())]


def runs_kept_apart() -> list[Run]:
    """Runs on which nothing was chosen, of ten epochs and more."""
    found = [Run.of(each) for each in json.loads(KEPT_APART.read_text())]
    return [run for run in found if len(run.points) >= LEAST_EPOCHS]


def main() -> None:
    """Evaluate, choose the constants or leave out parts of the model, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--choose", action="store_true", help="select the constants")
    parser.add_argument("--ablation", action="store_true", help="leave out parts of the model")
    parser.add_argument("--everywhere", action="store_true", help="targets as for --choose")
    parser.add_argument("--kept-apart", action="store_true", help="runs nothing was chosen on")
    options = parser.parse_args()
    runs = runs_kept_apart() if options.kept_apart else published_runs()
    targets = CHOSEN_TARGETS if options.choose or options.everywhere else TARGETS
    asked = [(run, question) for run in runs for question in run.questions(targets)]
    found: dict[str, object]
    if options.choose:
        known = [(run, question) for run in runs for question in run.questions()]
        found = chosen(asked, known)
    elif options.ablation:
        found = {name: ablated(asked, fit) for name, fit in ABLATIONS.items()}
    else:
        found = evaluated(asked)
    print(json.dumps(found, indent=2))


def evaluated(asked: Sequence[Asked]) -> dict[str, object]:
    """Errors, coverage and width by origin, over all and by family."""
    found: dict[str, object] = {}
    for origin in dict.fromkeys(question.origin for _, question in asked):
        of_origin = [
            (run, question, predict(run.points, run.schedule, question))
            for run, question in asked
            if question.origin == origin
        ]
        families = dict.fromkeys(run.family for run, _, _ in of_origin)
        plain = [predict(run.points, None, question) for run, question, _ in of_origin]
        found[origin] = {
            **summary([each for _, _, each in of_origin]),
            "without_schedule": round(fmean(each.error or 0.0 for each in plain), 4),
            "paper": round(fmean(paper_error(each[0].points, each[1]) for each in of_origin), 4),
            "twice": round(fmean(_twice(question) for _, question, _ in of_origin), 4),
            "with_rates": round(fmean(_with_rates(*each[:2]) for each in of_origin), 4),
            "three_quarters": round(fmean(_guess(*each[:2]) for each in of_origin), 4),
            "after_last_drop": round(fmean(_after_last_drop(*each[:2]) for each in of_origin), 4),
            "error_interval": error_interval(
                [
                    [each.error or 0.0 for run, _, each in of_origin if run.family == family]
                    for family in families
                ]
            ),
            "families": {
                family: summary([each for run, _, each in of_origin if run.family == family])
                for family in families
            },
        }
    return found


def _twice(question: ForecastQuestion) -> float:
    """The error of the rule that a target is met at twice the epochs seen."""
    if question.true is None:
        return 0.0
    return min(abs(2.0 * question.seen - question.true) / question.run, 1.0)


def summary(found: Sequence[EvaluatedForecast]) -> dict[str, float]:
    """Means over forecasts."""
    return {
        "predictions": len(found),
        "error": round(fmean(each.error or 0.0 for each in found), 4),
        "interval_holds": round(fmean(each.covered for each in found), 4),
        "interval_width": round(fmean(each.width for each in found), 4),
    }


def error_interval(families: Sequence[Sequence[float]]) -> tuple[float, float]:
    """95 % of the mean error, by a bootstrap over families."""
    rng, means = np.random.default_rng(1), []
    for _ in range(BOOTSTRAPS):
        drawn = rng.integers(len(families), size=len(families))
        means.append(fmean(each for n in drawn for each in families[n]))
    low, high = np.quantile(means, (0.025, 0.975))
    return round(float(low), 4), round(float(high), 4)


def _guess(run: Run, question: ForecastQuestion) -> float:
    return _off(GUESS * run.schedule.end, question)


def _after_last_drop(run: Run, question: ForecastQuestion) -> float:
    """Three epochs after the last declared drop: when a threshold is met at the earliest."""
    return _off(run.schedule.last_drop(run.schedule.end) + QUIET_EPOCHS, question)


def _with_rates(run: Run, question: ForecastQuestion) -> float:
    """The losses alone, cut at the drops and at the declared end."""
    dropped = run.schedule.last_drop(question.seen)
    seen = [
        replace(point, learning_rate=run.schedule.factor if (point.epoch or 0) > dropped else 1.0)
        for point in run.points[: question.seen]
    ]
    curve = LossCurve.fit(seen if dropped else run.points[: question.seen])
    if isinstance(curve, NotReady):
        return _off(run.schedule.end, question)
    return _off(curve.time_to_goal(question.goal).within(run.schedule.end).point, question)


def _off(epoch: float, question: ForecastQuestion) -> float:
    true = question.true or 0
    return min(abs(max(epoch, question.seen + 1) - true) / question.run, 1.0)


def chosen(asked: Sequence[Asked], known: Sequence[Asked]) -> dict[str, object]:
    """The best constants of the grid on all families, the score of each family under those that are
    best on the others, and the errors of the ``known`` questions under these."""
    asked = [each for each in asked if each[1].origin in CHOSEN_ON]
    families = list(dict.fromkeys(run.family for run, _ in asked))
    answers = [_answers(*each) for each in asked]
    scores = [
        {
            family: fmean(
                pinball(each[n], question)
                for each, (run, question) in zip(answers, asked, strict=True)
                if run.family == family
            )
            for family in families
        }
        for n in range(len(GRID))
    ]

    def best(of: Sequence[str]) -> int:
        return min(range(len(GRID)), key=lambda n: fmean(scores[n][each] for each in of))

    others = {family: best([each for each in families if each != family]) for family in families}
    unseen = [
        (question, _answer(run, question, *GRID[others[run.family]])) for run, question in known
    ]
    overall = best(families)
    return {
        "best": _described(overall),
        "score_of_best": fmean(scores[overall].values()),
        "score_of_product": fmean(scores[GRID.index((CourseFamily(), CurveConstants()))].values()),
        "left_out": {family: _described(n) for family, n in others.items()},
        "errors_of_left_out": {
            origin: _errors([each for each in unseen if each[0].origin == origin])
            for origin in dict.fromkeys(question.origin for question, _ in unseen)
        },
    }


def _described(n: int) -> dict[str, float]:
    family, constants = GRID[n]
    return {"drop_lag": family.drop_lags[0], **asdict(constants)}


def _errors(found: Sequence[tuple[ForecastQuestion, TimeToGoal | None]]) -> dict[str, float]:
    """Means over forecasts; one that says "not reachable" is off by a whole run."""
    return {
        "error": fmean(
            1.0 if each is None else min(abs(each.point - (asked.true or 0)) / asked.run, 1.0)
            for asked, each in found
        ),
        "interval_holds": fmean(
            each is not None and each.low <= (asked.true or 0) <= each.high for asked, each in found
        ),
        "interval_width": fmean(
            1.0 if each is None else (each.high - each.low) / asked.run for asked, each in found
        ),
    }


def _answers(run: Run, question: ForecastQuestion) -> list[TimeToGoal]:
    """The forecast under each of the grid's; the fits of one family are the same."""
    curves = [_fitted(run, question, family) for family in FAMILIES]
    return [
        replace(curve, constants=each).time_to_goal(question.goal)
        for curve, each in product(curves, CONSTANTS)
    ]


def _answer(
    run: Run, question: ForecastQuestion, family: CourseFamily, constants: CurveConstants
) -> TimeToGoal:
    curve = _fitted(run, question, family)
    return replace(curve, constants=constants).time_to_goal(question.goal)


def _fitted(run: Run, question: ForecastQuestion, family: CourseFamily) -> LossCurve:
    curve = LossCurve.under(run.points[: question.seen], run.schedule, family)
    if not isinstance(curve, LossCurve):
        raise TypeError(f"{run.family}: {curve}")
    return curve


Fit = Callable[[Sequence[LossPoint], LearningRateSchedule], Curve | NotReady]


def _with(family: CourseFamily) -> Fit:
    return lambda points, schedule: LossCurve.under(points, schedule, family)


def _end_alone(points: Sequence[LossPoint], schedule: LearningRateSchedule) -> Curve | NotReady:
    return LossCurve.under(points, LearningRateSchedule(schedule.end, DecayShape.CONSTANT))


ABLATIONS: Mapping[str, Fit] = {
    "all": LossCurve.under,
    "no losses since a drop alone": _with(CourseFamily(since_drop=False)),
    "no deeper drops": _with(CourseFamily(deeper=0.0)),
    "drops followed at once": _with(CourseFamily(drop_lags=(math.inf,))),
    "drops followed late": _with(CourseFamily(drop_lags=CourseFamily().drop_lags[:1])),
    "one power of the rate": _with(CourseFamily(powers=(1.0,))),
    "nothing goes with the rate": _with(CourseFamily(shares=())),
    "no floors": _with(CourseFamily(floors=(0.0,))),
    "hyperbolas": _with(CourseFamily(forms=(1.0,))),
    "exponentials": _with(CourseFamily(forms=(0.02,))),
    "declared end, no schedule": _end_alone,
    "no end and no schedule": lambda points, _: LossCurve.fit(points),
    "paper's curve": lambda points, _: PublishedCurve.fit(points),
}


def ablated(asked: Sequence[Asked], fit: Fit) -> dict[str, object]:
    """Errors by origin, and the CPU time of a fit with one forecast."""
    begun = time.process_time()
    found = [(question, _until(fit, run, question)) for run, question in asked]
    milliseconds = 1000 * (time.process_time() - begun) / len(asked)
    return {
        "ms": round(milliseconds, 3),
        **{
            origin: _errors([each for each in found if each[0].origin == origin])
            for origin in dict.fromkeys(question.origin for question, _ in found)
        },
    }


def _until(fit: Fit, run: Run, question: ForecastQuestion) -> TimeToGoal | None:
    curve = fit(run.points[: question.seen], run.schedule)
    found = curve if isinstance(curve, NotReady) else curve.until(question.goal)
    return None if isinstance(found, NotReady) else found


def pinball(found: TimeToGoal, question: ForecastQuestion) -> float:
    """The mean pinball loss of the three quantiles, as a part of the run."""
    true = float(question.true or 0)
    errors = zip(QUANTILES, (found.low, found.point, found.high), strict=True)
    return fmean(
        (share if true > at else share - 1) * (true - at) / question.run for share, at in errors
    )


if __name__ == "__main__":
    main()
