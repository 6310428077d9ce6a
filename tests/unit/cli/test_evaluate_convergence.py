"""``optimus evaluate convergence`` and ``optimus forecast``: results on recorded logs, and errors
in the input."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from benchmarks.forecast_questions import (
    paper_error,
    questions_after_drops,
    reached_above_never,
    unreachable,
)
from optimus.cli.evaluate_convergence import evaluated_runs, questions_at
from optimus.cli.training_log import read_training_log
from optimus.jobs import TargetLoss
from optimus.models.convergence import TimeToGoal
from optimus.models.forecast import when_text
from optimus.progress.types import LossPoint
from tests.cases import cases
from tests.unit.cli.conftest import CommandLine

CURVES = Path(__file__).parents[2] / "data" / "curves"
CONSTANT = [CURVES / name for name in ("softmax_digits.log", "mlp_noisy.log")]
TARGETS = (0.6, 0.75, 0.9)
STEPS = [CURVES / name for name in ("mlp_digits_step.log", "cnn_digits_step.log")]


Written = Callable[..., Path]


@pytest.fixture
def write_log(tmp_path: Path) -> Written:
    def write(*lines: str, name: str = "run.csv") -> Path:
        file = tmp_path / name
        file.write_text("\n".join(lines) + "\n")
        return file

    return write


def decay(epochs: int) -> list[float]:
    return [1 / (0.1 * k + 1) + 0.05 for k in range(1, epochs + 1)]


def csv_of(losses: Sequence[float]) -> list[str]:
    return ["epoch,loss", *(f"{n},{loss}" for n, loss in enumerate(losses, 1))]


class TestAccuracy:
    """Least accuracy of the model on the recorded curves."""

    @pytest.mark.parametrize(
        ("origin", "error", "width"), [("0.3", 0.18, 0.85), ("0.5", 0.08, 0.6)]
    )
    def test_at_a_constant_learning_rate(
        self, cli: CommandLine, origin: str, error: float, width: float
    ) -> None:
        found = cli.json(
            "evaluate", "convergence", *CONSTANT, "--at", origin, "--target-at", "0.6,0.75,0.9"
        )
        assert len(found) == 6
        errors = fmean(each["error"] for each in found)
        twice = fmean(
            abs(2 * each["seen_epochs"] - each["true_epoch"]) / each["run_epochs"] for each in found
        )
        assert errors <= error
        assert errors < twice
        assert fmean(each["low"] <= each["true_epoch"] <= each["high"] for each in found) >= 0.75
        assert fmean((each["high"] - each["low"]) / each["run_epochs"] for each in found) <= width

    def test_after_a_drop_of_the_learning_rate(self) -> None:
        logs = map(read_training_log, STEPS)
        asked = [
            (log, each)
            for log in logs
            for each in questions_after_drops(log.epoch_means(), 5, TARGETS)
        ]
        found = [each for _, each in evaluated_runs(asked)]
        seen = [each.question.seen for each in found]
        assert seen == [45] * 3 + [95] * 3 + [30] * 3 + [60] * 3
        segments = [50] * 3 + [60] * 3 + [30] * 3 + [25] * 3
        assert fmean(each.error or 0.0 for each in found) <= 0.1
        off = [
            (each.error or 0.0) * each.question.run / segment
            for each, segment in zip(found, segments, strict=True)
        ]
        assert fmean(off) <= 0.27
        assert fmean(each.covered for each in found) >= 0.75
        assert fmean(each.width for each in found) <= 0.7

    def test_targets_never_reached_have_lower_probabilities_than_others(self) -> None:
        logs = map(read_training_log, [*CONSTANT, *STEPS])
        asked = []
        for log in logs:
            losses = [point.loss for point in log.epoch_means()]
            questions = list(questions_at(losses, [0.3, 0.5], TARGETS))
            asked += [(log, each) for each in (*questions, *unreachable(questions, losses, 0.8))]
        evaluated = evaluated_runs(asked)
        found = [each for _, each in evaluated]
        never = [each.probability for each in found if each.question.true is None]
        assert len(never) >= 8
        assert (reached_above_never(found) or 0.0) >= 0.85
        known = [each for each in evaluated if each[1].question.true is not None]
        errors = [
            fmean(each.error or 0.0 for _, each in known),
            fmean(paper_error(log.epoch_means(), each.question) for log, each in known),
        ]
        assert errors == sorted(errors)


class TestQuestions:
    def test_the_true_epoch_is_the_second_in_a_row_at_or_below_the_target(self) -> None:
        losses = [5.0, 4.0, 4.5, 3.0, 3.5, 3.2, 2.0, 2.5, 1.0, 1.5]
        asked = list(questions_at(losses, [0.3], [0.2, 0.5, 0.6, 0.8, 1.0 - 1e-9]))
        assert [(each.seen, each.goal, each.true) for each in asked] == [
            (3, TargetLoss(3.5), 5),
            (3, TargetLoss(3.5), 5),
            (3, TargetLoss(2.5), 8),
            (3, TargetLoss(2.5), 8),
        ]

    def test_after_a_learning_rate_drop_targets_are_within_the_segment(self) -> None:
        losses = [
            9.0,
            8.0,
            7.0,
            6.0,
            *(5.0 - 0.1 * n for n in range(10)),
            *(3.0 - 0.1 * n for n in range(10)),
        ]
        rates = [0.1] * 4 + [0.01] * 10 + [0.001] * 10
        points = [
            LossPoint(y, n + 1.0, learning_rate=r)
            for n, (y, r) in enumerate(zip(losses, rates, strict=True))
        ]
        asked = list(questions_after_drops(points, 5, [0.5, 0.8]))
        assert [(each.seen, each.true, each.run) for each in asked] == [(9, 12, 24), (19, 22, 24)]


class TestResult:
    def test_an_unreachable_target_is_null_with_an_error_of_a_whole_run(
        self, cli: CommandLine, write_log: Written
    ) -> None:
        flat = [1.0] * 60 + [1e-9] * 40
        (found,) = cli.json(
            "evaluate", "convergence", write_log(*csv_of(flat)), "--at", "0.5", "--target-at", "0.9"
        )
        assert (found["predicted_epoch"], found["low"], found["high"], found["error"]) == (
            None,
            None,
            None,
            1.0,
        )
        text = cli.text("evaluate", "convergence", write_log(*csv_of(flat)), "--at", "0.5")
        assert text.splitlines()[1].split()[-1] == "2"

    def test_the_same_losses_in_several_log_formats_give_the_same_forecast(
        self, cli: CommandLine, write_log: Written
    ) -> None:
        losses = decay(60)
        forms = [
            write_log(*csv_of(losses)),
            write_log(
                "epoch,loss", *(f"{n},{loss}" for n, loss in enumerate(losses)), name="from0.csv"
            ),
            write_log(*csv_of(losses)[1:], name="headless.csv"),
            write_log('"epoch","loss"', *csv_of(losses)[1:], name="quoted.csv"),
            write_log(
                *(f"epoch={n} loss={loss}" for n, loss in enumerate(losses, 1)), name="pairs.log"
            ),
            write_log(
                *(f"Epoch[{n}] Train-loss={loss}" for n, loss in enumerate(losses)),
                name="mxnet.log",
            ),
            write_log(
                *(f"step={100 * n} loss={loss}" for n, loss in enumerate(losses, 1)),
                name="steps.log",
            ),
        ]
        answers = [cli.json("evaluate", "convergence", form) for form in forms]
        for answer in answers[1:]:
            assert [each["predicted_epoch"] for each in answer] == pytest.approx(
                [each["predicted_epoch"] for each in answers[0]], rel=1e-6
            )

    def test_a_declared_schedule_is_used(self, cli: CommandLine, write_log: Written) -> None:
        losses = [0.5 + 0.5 * (1 + np.cos(np.pi * n / 100)) for n in range(100)]
        epochs = [f"Epoch[{n}] Train-loss={loss}" for n, loss in enumerate(losses)]
        declared = "Namespace(lr=0.1, lr_mode='cosine', num_epochs=100)"
        known, unknown = (
            cli.json("evaluate", "convergence", write_log(*lines), "--at", "0.3")
            for lines in ([declared, *epochs], epochs)
        )
        assert fmean(each["error"] for each in known) < 0.1
        assert fmean(each["error"] for each in unknown) > 0.2


class TestForecast:
    def test_a_running_job(self, cli: CommandLine, write_log: Written) -> None:
        log = write_log(*csv_of(decay(60)))
        found = cli.json("forecast", log, "--target-loss", 0.15)  # met at 90
        assert (found["unit"], found["seen"], found["met_at"], found["reason"]) == (
            "epochs",
            60,
            None,
            None,
        )
        assert found["low"] < 90 < found["high"]
        assert found["predicted"] == pytest.approx(90, rel=0.2)
        assert "80 % between" in cli.text("forecast", log, "--target-loss", 0.15)

    def test_a_target_that_was_met(self, cli: CommandLine) -> None:
        found = cli.json("forecast", CONSTANT[0], "--target-loss", 0.5)
        losses = [point.loss for point in read_training_log(CONSTANT[0]).epoch_means()]
        assert found["met_at"] == int(np.argmax(np.array(losses) <= 0.5)) + 1
        assert found["predicted"] is None

    @cases(
        ("target", "said"),
        {
            "met at once": (3.5, "the target 3.5 was met after 1 epoch\n"),
            "far below where it flattens": (1.0, "is declared; it may never be met: it is with "),
        },
    )
    def test_what_is_said_of_a_loss_that_flattens_out_at_1_5(
        self, target: float, said: str, cli: CommandLine, write_log: Written
    ) -> None:
        log = write_log(*csv_of([1.5 + 3 / (1 + n / 2) for n in range(1, 41)]))
        assert said in cli.text("forecast", log, "--target-loss", target)

    @cases(
        "line",
        {
            "instants": "2026-01-01T{clock}.5Z epoch={epoch} step={step} loss={loss}",
            "instants of a logger": (
                "[2026-01-01 {clock},500] INFO: epoch={epoch} step={step} loss={loss}"
            ),
            "a bar": "Epoch {epoch}: 100%|##| 10/10 [00:50<00:00, 5.0s/it, loss={loss}]",
            "a fast bar": "Epoch {epoch}: 100%|##| 10/10 [00:50<00:00, 0.2it/s, loss={loss}]",
            "Keras": "Epoch {epoch}/150\n10/10 - 50s - 5s/step - loss: {loss}",
        },
    )
    def test_a_log_that_shows_its_speed_is_told_the_time(
        self, line: str, cli: CommandLine, write_log: Written
    ) -> None:
        lines = []
        for epoch, loss in enumerate(decay(60), 1):
            clock = f"{epoch * 50 // 60:02}:{epoch * 50 % 60:02}"
            lines.append(line.format(epoch=epoch, step=10 * epoch, loss=loss, clock=f"07:{clock}"))
        log = write_log(*lines, name="timed.log")
        found = cli.json("forecast", log, "--target-loss", 0.15)
        left = found["remaining_seconds"]
        assert left["median"] == pytest.approx(50 * (found["predicted"] - 60), rel=0.02)
        assert left["low"] < left["median"] < left["high"]
        text = cli.text("forecast", log, "--target-loss", 0.15)
        assert "at the speed that it shows, in " in text

    def test_where_both_ends_of_the_interval_are_one_there_is_none(self) -> None:
        assert when_text(TimeToGoal.at(1.0), "epochs") == "after 1 epoch"

    def test_a_log_with_steps_only(self, cli: CommandLine, write_log: Written) -> None:
        steps = [f"step={100 * n} loss={loss}" for n, loss in enumerate(decay(60), 1)]
        found = cli.json("forecast", write_log(*steps, name="steps.log"), "--target-loss", 0.15)
        assert (found["unit"], found["seen"]) == ("steps", 6000)
        assert found["remaining_seconds"] is None
        assert found["predicted"] == pytest.approx(9000, rel=0.25)

    @pytest.mark.parametrize(("scale", "shown"), [(1, "as a part of 1"), (100, "in percent")])
    @pytest.mark.parametrize("target", ["validation accuracy>=0.85", "acc >= 85%"])
    def test_an_accuracy_is_a_goal(
        self, scale: float, shown: str, target: str, cli: CommandLine, write_log: Written
    ) -> None:
        lines = [
            f"epoch={n} loss=0.5 train_acc={scale * 0.9} val_acc={scale * (1 - error):.6f}"
            for n, error in enumerate(decay(60), 1)
        ]
        log = write_log(*lines, name="accuracy.log")
        found = cli.json("forecast", log, "--target", target)
        assert (found["metric"], found["evaluated"], found["rises"]) == ("val_acc", True, True)
        assert (found["bound"], found["met_at"]) == (scale, None)
        assert found["target"] == pytest.approx(scale * 0.85)
        assert found["value"] == pytest.approx(scale * (1 - decay(60)[-1]), rel=1e-5)
        as_loss = cli.json("forecast", write_log(*csv_of(decay(60))), "--target-loss", 0.15)
        assert found["predicted"] == pytest.approx(as_loss["predicted"], rel=1e-3)
        text = cli.text("forecast", log, "--target", target)
        assert f"val_acc (of an evaluation, rises, {shown}) is " in text
        assert f"the target val_acc >= {scale * 0.85:g} is met after" in text

    def test_a_column_of_a_csv(self, cli: CommandLine, write_log: Written) -> None:
        rows = [f"{n},{loss},{100 - 100 * loss}" for n, loss in enumerate(decay(60), 1)]
        log = write_log("epoch,loss,val_accuracy", *rows)
        found = cli.json("forecast", log, "--target", "accuracy>=85")
        assert (found["metric"], found["bound"], found["unit"]) == ("val_accuracy", 100, "epochs")

    def test_a_metric_that_is_not_there(self, cli: CommandLine, write_log: Written) -> None:
        log = write_log(*(f"epoch={n} loss=0.5 val_acc=0.4" for n in range(1, 20)), name="a.log")
        message = cli.error("forecast", log, "--target", "mAP>=0.5")
        assert "its log has shown no mAP yet; it has val_acc" in message
        message = cli.error("forecast", write_log(*csv_of(decay(60))), "--target", "mAP>=0.5")
        assert "a column 'mAP' beside 'epoch' is expected; it has 'epoch,loss'" in message

    def test_a_threshold(self, cli: CommandLine, write_log: Written) -> None:
        log = write_log(*csv_of(decay(60)))
        found = cli.json("forecast", log, "--threshold", 0.01)
        assert (found["threshold"], found["met_at"]) == (0.01, 25)
        running = cli.json("forecast", log, "--threshold", 0.001)
        assert running["met_at"] is None
        assert running["low"] < 95 < running["high"]

    @pytest.mark.parametrize("target", ["accuracy", "accuracy<=0.5", "loss>=1", ""])
    def test_what_is_no_goal_is_refused(self, target: str, cli: CommandLine) -> None:
        assert "argument --target: " in cli.refused("forecast", CONSTANT[0], "--target", target)

    def test_learning_rate_drops_are_reported(self, cli: CommandLine) -> None:
        found = cli.json("forecast", STEPS[0], "--target-loss", 0.06)
        assert found["rate_dropped_at"] == [40, 90]


class TestBadInput:
    @cases(
        ("lines", "problem"),
        {
            "a word": (
                ["epoch,loss", "1,0.5", "2,abc"],
                ":3: a number from 0 to 1e+30 is expected as loss, found 'abc'",
            ),
            "no loss": (
                ["epoch,accuracy", "1,2"],
                ":1: a column 'loss' beside 'epoch' is expected",
            ),
            "no rows": (["epoch,loss"], ":1: rows of epoch and loss are expected below the header"),
            "backwards": (
                ["epoch,loss", "3,1", "2,1"],
                ":3: epochs from 0 on that do not fall are expected, found 2",
            ),
            "below 0 in a log": (["step=1 loss=1", "step=2 loss=-1"], "expected, loss 2 is -1"),
            "a huge cell": (
                ["epoch,loss", '1,"' + "1" * 200_000],
                "a CSV file is expected: field larger",
            ),
            "diverged": (["step=1 loss=nan"] * 3, "nan or infinite: training may have diverged"),
            "short": (
                ["epoch,loss", "1,1", "2,1"],
                ": at least 10 completed epochs are expected, 2 found",
            ),
            "no log": (["hello"], "no training loss was found in 1 lines"),
            "an empty file": ([""], "this file is empty"),
        },
    )
    def test_an_invalid_log_is_reported_in_one_line(
        self, cli: CommandLine, write_log: Written, lines: list[str], problem: str
    ) -> None:
        log = write_log(*lines)
        message = cli.error("evaluate", "convergence", log)
        assert str(log) in message
        assert problem in message

    @pytest.mark.parametrize("options", [["--at", "1.5"], ["--at", "x"], ["--target-at", "0"]])
    def test_invalid_options_are_refused(self, options: list[str], cli: CommandLine) -> None:
        assert "expected" in cli.refused("evaluate", "convergence", CONSTANT[0], *options)
