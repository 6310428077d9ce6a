"""Forecasts of published runs whose schedule is declared: ``python -m benchmarks.scheduled_runs``.

The runs are those of ``tests/data/curves/published_runs.json`` (GluonCV and GluonNLP): a loss per
epoch, or the error of a metric, and what the script printed of the whole run. Forecasts see nothing
after the epochs seen. For each origin: the mean error as a part of the run, the part of the 80 %
intervals that hold the true epoch, and their width, over all questions and by family; beside them
the model without a schedule, the paper's curve, the rule "twice the epochs seen", and three
quarters of the declared end.

``--choose`` selects the model's constants by cross-validation: for each family those that are best
on all others, by the pinball loss of the median and of the interval's ends (a proper score:
Gneiting and Raftery 2007), and the errors of each family under constants that never saw it. The
optimum is flat: ``score_of_product`` beside ``score_of_best`` shows what the product's round
numbers cost."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean

from optimus.cli.convergence_evaluation import (
    EvaluatedForecast,
    Question,
    predict,
    questions_after_drops,
    questions_at,
)
from optimus.models.convergence import AnnealedCurve, LearningRateSchedule, TimeToGoal
from optimus.models.convergence.annealed import AnnealingConstants
from optimus.progress.types import Declared, LossPoint

RUNS = Path(__file__).parents[1] / "tests" / "data" / "curves" / "published_runs.json"
PARTS, TARGETS, AFTER_DROP = (0.05, 0.1, 0.2, 0.3, 0.5), (0.6, 0.75, 0.9), 5
CHOSEN_ON = ("0.3", "0.5", f"drop+{AFTER_DROP}")
"""Earlier the losses say little: the constants would learn where the questions' targets are."""
GUESS = 0.75
GRID = [
    AnnealingConstants(*each)
    for each in product((0.2, 0.3, 0.4, 0.5, 0.7), (0.0, 0.5, 1.0, 1.5), (0.02, 0.05, 0.1))
]
QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True, slots=True)
class Run:
    """One published run."""

    family: str
    is_loss: bool
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
        return cls(str(found["family"]), found["value"] == "training loss", points, schedule)

    def questions(self) -> Iterator[Question]:
        """From parts of the run, and from some epochs after each declared drop."""
        yield from questions_at([point.loss for point in self.points], PARTS, TARGETS)
        if not self.schedule.drops:
            return
        rates = [0.1 * self.schedule.factor ** self._passed(n) for n in range(len(self.points))]
        named = [
            replace(point, learning_rate=rate)
            for point, rate in zip(self.points, rates, strict=True)
        ]
        yield from questions_after_drops(named, AFTER_DROP, TARGETS)

    def _passed(self, epochs: int) -> int:
        return sum(drop <= epochs for drop in self.schedule.drops)


Asked = tuple[Run, Question]


def main() -> None:
    """Evaluate, or choose the constants, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--choose", action="store_true", help="select the constants")
    parser.add_argument("--losses", action="store_true", help="no errors of metrics")
    options = parser.parse_args()
    runs = [Run.of(each) for each in json.loads(RUNS.read_text())]
    asked = [
        (run, question)
        for run in runs
        if run.is_loss or not options.losses
        for question in run.questions()
    ]
    print(json.dumps(chosen(asked) if options.choose else evaluated(asked), indent=2))


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
            "paper": round(fmean(each.paper_error or 0.0 for each in plain), 4),
            "twice": round(fmean(each.twice_error or 0.0 for each in plain), 4),
            "three_quarters": round(fmean(_guess(*each[:2]) for each in of_origin), 4),
            "families": {
                family: summary([each for run, _, each in of_origin if run.family == family])
                for family in families
            },
        }
    return found


def summary(found: Sequence[EvaluatedForecast]) -> dict[str, float]:
    """Means over forecasts."""
    return {
        "predictions": len(found),
        "error": round(fmean(each.error or 0.0 for each in found), 4),
        "interval_holds": round(fmean(each.covered for each in found), 4),
        "interval_width": round(fmean(each.width for each in found), 4),
    }


def _guess(run: Run, question: Question) -> float:
    true = question.true or 0
    return abs(max(GUESS * run.schedule.end, question.seen + 1) - true) / question.run


def chosen(asked: Sequence[Asked]) -> dict[str, object]:
    """The best constants of the grid on all families, and the scores of each family under those
    that are best on the others."""
    families = list(dict.fromkeys(run.family for run, _ in asked))
    answers = [_answers(*each) for each in asked]
    scores = [
        {
            family: fmean(
                pinball(each[n], question)
                for each, (run, question) in zip(answers, asked, strict=True)
                if run.family == family and question.origin in CHOSEN_ON
            )
            for family in families
        }
        for n in range(len(GRID))
    ]

    def best(of: Sequence[str]) -> int:
        return min(range(len(GRID)), key=lambda n: fmean(scores[n][each] for each in of))

    left_out = {
        family: (
            best([each for each in families if each != family]),
            [n for n, (run, _) in enumerate(asked) if run.family == family],
        )
        for family in families
    }
    unseen = [
        (asked[n][1], answers[n][constants]) for constants, of in left_out.values() for n in of
    ]
    return {
        "best": asdict(GRID[best(families)]),
        "product": asdict(AnnealingConstants()),
        "score_of_best": fmean(scores[best(families)].values()),
        "score_of_product": fmean(scores[GRID.index(AnnealingConstants())].values()),
        "left_out": {family: asdict(GRID[n]) for family, (n, _) in left_out.items()},
        "errors_of_left_out": {
            origin: {
                "error": fmean(
                    min(abs(found.point - (question.true or 0)) / question.run, 1.0)
                    for question, found in unseen
                    if question.origin == origin
                ),
                "interval_holds": fmean(
                    found.low <= (question.true or 0) <= found.high
                    for question, found in unseen
                    if question.origin == origin
                ),
            }
            for origin in dict.fromkeys(question.origin for question, _ in unseen)
        },
    }


def _answers(run: Run, question: Question) -> list[TimeToGoal]:
    """The forecast under each of the constants; the fit is the same."""
    curve = AnnealedCurve.fit(run.points[: question.seen], run.schedule)
    if not isinstance(curve, AnnealedCurve):
        raise TypeError(f"{run.family}: {curve}")
    return [replace(curve, constants=each).time_to_goal(question.goal) for each in GRID]


def pinball(found: TimeToGoal, question: Question) -> float:
    """The mean pinball loss of the three quantiles, as a part of the run."""
    true = float(question.true or 0)
    errors = zip(QUANTILES, (found.low, found.point, found.high), strict=True)
    return fmean(
        (share if true > at else share - 1) * (true - at) / question.run for share, at in errors
    )


if __name__ == "__main__":
    main()
