"""Goals in a metric other than the training loss."""

from dataclasses import replace

import pytest

from optimus.errors import NotReady
from optimus.jobs import Counts, TargetMetric
from optimus.models.convergence import PublishedCurve
from optimus.models.forecast import current_value, forecast_job, goal_is_met
from optimus.models.metric_goal import series_of
from optimus.progress.types import LossPoint, MetricSeries, TrainingProgress
from tests.unit.models.forecasting import JOB, PER_EPOCH, SAMPLES, after, forecast_of, speed

ACCURACY = TargetMetric("accuracy", 0.8, at_least=True)


def series(
    name: str, *values: float, evaluated: bool = False, rises: bool | None = True
) -> MetricSeries:
    """One value at the end of each epoch."""
    points = [
        LossPoint(value, float(epoch), int(epoch * PER_EPOCH))
        for epoch, value in enumerate(values, start=1)
    ]
    return MetricSeries(name, evaluated, rises, tuple(points))


def accuracy(epochs: int, scale: float = 1.0) -> MetricSeries:
    """The error falls along 0.6 / (0.2 k + 1) + 0.1: to 0.2 after 25 epochs."""
    values = (1 - 0.1 - 0.6 / (0.2 * k + 1) for k in range(1, epochs + 1))
    return series("val_acc", *(scale * value for value in values), evaluated=True)


def shows(*metrics: MetricSeries, epochs: float = 15.0) -> TrainingProgress:
    return TrainingProgress(
        (), epochs, int(epochs * PER_EPOCH), PER_EPOCH, SAMPLES, metrics=metrics
    )


@pytest.mark.parametrize("scale", [1.0, 100.0], ids=["parts of 1", "percent"])
@pytest.mark.parametrize("value", [0.8, 80.0])
def test_an_accuracy_is_predicted_by_its_error(scale: float, value: float) -> None:
    found = forecast_of(shows(accuracy(15, scale)), replace(ACCURACY, value=value))
    assert found.remaining_epochs == pytest.approx(10, abs=0.2)
    assert found.at(Counts(3, 3)) == pytest.approx(10 * PER_EPOCH / speed(Counts(3, 3)), rel=0.02)
    assert not found.goal_met


def test_a_metric_that_falls_is_taken_as_it_is() -> None:
    falling = [50 / (0.2 * k + 1) + 5 for k in range(1, 16)]
    metric = series("ppl", *falling, rises=False)
    found = forecast_of(shows(metric), TargetMetric("perplexity", 15.0, at_least=False))
    assert found.remaining_epochs == pytest.approx(20 - 15, abs=0.2)


def test_the_training_loss_does_not_matter() -> None:
    with_loss = forecast_of(after(15, metrics=(accuracy(15),)), ACCURACY)
    without = forecast_of(shows(accuracy(15)), ACCURACY)
    assert with_loss.at(Counts(2, 2)) == without.at(Counts(2, 2))


@pytest.mark.parametrize(
    ("values", "met"),
    [
        ((0.2, 0.5, 0.81), False),
        ((0.2, 0.5, 0.81, 0.79), False),
        ((0.2, 0.5, 0.81, 0.80), True),
        ((0.81, 0.82), False),  # percent would be printed like this, too
        ((0.81, 0.82, 2.5), False),
        ((0.81, 0.82, 0.83), True),
        ((40.0, 80.0, 81.0), True),
    ],
)
def test_it_is_met_by_two_epochs_in_a_row(values: tuple[float, ...], met: bool) -> None:
    progress = shows(series("accuracy", *values), epochs=len(values))
    assert goal_is_met(ACCURACY, progress) is met
    found = forecast_job(JOB, progress, ACCURACY)
    assert (not isinstance(found, NotReady) and found.goal_met) is met


def test_percent_is_told_by_a_sibling() -> None:
    goal = replace(ACCURACY, name="acc-top1", value=40.0)
    top1, top5 = series("acc-top1", 0.4, 0.5, 0.6), series("acc-top5", 1.2, 1.25, 1.28)
    assert not goal_is_met(goal, shows(top1, top5, epochs=3))
    assert not goal_is_met(replace(goal, value=0.4), shows(top1, top5, epochs=3))


def test_where_percent_cannot_be_told_nothing_is_met_and_the_job_is_asked() -> None:
    goal = replace(ACCURACY, value=40.0)
    progress = shows(series("accuracy", 0.5, 0.6, 0.7), epochs=3)
    assert not goal_is_met(goal, progress)
    found = forecast_job(JOB, progress, goal)
    assert isinstance(found, NotReady)
    assert "percent is not clear yet" in found.reason
    assert "accuracy>=0.4" in found.reason


def test_what_rises_without_a_bound_has_no_forecast_until_it_is_met() -> None:
    goal = TargetMetric("reward", 500, at_least=True)
    below = shows(series("reward", 20, 100, 200, 300, 350, 400, 420, 430))
    found = forecast_job(JOB, below, goal, PublishedCurve.fit)
    assert found == NotReady(
        "reward rises without a bound: when it reaches its goal cannot be predicted"
    )
    assert forecast_of(shows(series("reward", 20, 100, 500, 510)), goal).goal_met


TRAINED, EVALUATED = series("acc-top1", 0.5, 0.6), series("acc-top1", 0.4, evaluated=True)
OTHERS = (series("acc-top5", 0.9), series("Validation-accuracy", 0.3, evaluated=True), TRAINED)


@pytest.mark.parametrize(
    ("name", "evaluated", "metrics", "meant"),
    [
        ("accuracy", None, OTHERS, "Validation-accuracy"),
        ("acc-top1", None, OTHERS, "acc-top1"),
        ("acc-top1", None, (TRAINED, EVALUATED), EVALUATED),
        ("train acc-top1", False, (TRAINED, EVALUATED), TRAINED),
        ("top5", None, OTHERS, "acc-top5"),
        ("ACC", False, OTHERS, "acc-top1"),
    ],
)
def test_which_series_a_name_means(
    name: str,
    evaluated: bool | None,
    metrics: tuple[MetricSeries, ...],
    meant: str | MetricSeries,
) -> None:
    goal = TargetMetric(name, 0.5, at_least=True, evaluated=evaluated)
    found = series_of(goal, metrics)
    assert isinstance(found, MetricSeries)
    assert meant in (found, found.name)


def test_a_metric_that_the_log_has_not_is_named_with_those_that_it_has() -> None:
    goal = TargetMetric("mAP", 0.5, at_least=True)
    found = forecast_job(JOB, shows(*OTHERS), goal)
    assert found == NotReady(
        "its log has shown no mAP yet; it has Validation-accuracy, acc-top1, acc-top5"
    )


def test_a_diverged_training_has_no_forecast() -> None:
    progress = replace(shows(accuracy(15)), diverged=True)
    assert forecast_job(JOB, progress, ACCURACY) == NotReady(
        "the last losses in the log are not numbers"
    )


def test_the_newest_value_is_shown_as_it_is_printed() -> None:
    progress = shows(accuracy(15, 100.0))
    name, value = current_value(ACCURACY, progress) or ("", 0.0)
    assert (name, round(value, 6)) == ("val_acc", 75.0)
    assert current_value(JOB.goal, progress) is None


def test_what_cannot_be_reached_is_said_of_the_metric() -> None:
    found = forecast_job(JOB, shows(accuracy(60, 100.0)), replace(ACCURACY, value=99.99))
    assert isinstance(found, NotReady)
    assert found.reason.startswith(
        "the error of val_acc, 1 - value / 100, is fitted as a loss: a loss of 0.0001 is not "
    )
