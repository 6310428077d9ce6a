"""Tables of values: a header names the columns, each row is an evaluation."""

import pytest

from optimus.cli.training_log import read_progress
from optimus.progress.formats import parse_line
from optimus.progress.parsed_line import LogFormatOptions, clean
from optimus.progress.types import TrainingProgress
from optimus.progress.value_table import header, row

NOTEBOOK = """\
Epoch\tTraining Loss\tValidation Loss\tAccuracy
1\tNo log\t0.6\t0.70
2\t0.5\t0.55\t0.75
3\t0.4\t0.5\t0.80"""
MODEL_CARD = """\
| Training Loss | Epoch | Step | Validation Loss | Accuracy |
|:-------------:|:-----:|:----:|:---------------:|:--------:|
| 0.69          | 0.5   | 250  | 0.6             | 0.7      |
| 0.5           | 1.0   | 500  | 0.55            | 0.75     |
| 0.4           | 2.0   | 1000 | 0.5             | 0.8      |"""
FASTAI = """\
epoch     train_loss  valid_loss  accuracy  time
0         1.2         1.0         0.70      00:10
1         0.8         0.9         0.75      00:10
Better model found at epoch 1 with valid_loss value: 0.9."""
KERAS_CSV = """\
epoch,accuracy,loss,val_accuracy,val_loss
0,0.5,1.2,0.45,1.3
1,0.6,1.0,0.55,1.2"""
STEPS = """\
Step  Training Loss  Validation Loss
500   0.5            0.6
1000  0.4            0.5"""


def of(text: str) -> TrainingProgress:
    return read_progress(text.splitlines(), None)


def losses(progress: TrainingProgress) -> list[tuple[float, float | None, int | None]]:
    return [(point.loss, point.epoch, point.step) for point in progress.losses]


def metrics(progress: TrainingProgress) -> dict[str, tuple[bool, list[float]]]:
    return {
        each.name: (each.evaluated, [point.loss for point in each.points])
        for each in progress.metrics
    }


def test_the_notebook_table_of_hugging_face() -> None:
    progress = of(NOTEBOOK)
    assert [(loss, epoch) for loss, epoch, _ in losses(progress)] == [(0.5, 2.0), (0.4, 3.0)]
    assert metrics(progress) == {
        "Validation Loss": (True, [0.6, 0.55, 0.5]),
        "Accuracy": (True, [0.7, 0.75, 0.8]),
    }
    assert [point.epoch for point in progress.metrics[0].points] == [1.0, 2.0, 3.0]


def test_a_table_with_epochs_and_steps_gives_the_length_of_an_epoch() -> None:
    progress = of(MODEL_CARD)
    assert progress.steps_per_epoch == 500
    assert losses(progress) == [(0.69, 0.5, 250), (0.5, 1.0, 500), (0.4, 2.0, 1000)]
    assert metrics(progress)["Accuracy"] == (True, [0.75, 0.8])


def test_columns_of_blanks_with_epochs_from_zero() -> None:
    progress = of(FASTAI)
    assert [(loss, epoch) for loss, epoch, _ in losses(progress)] == [(1.2, 1.0), (0.8, 2.0)]
    assert metrics(progress) == {
        "valid_loss": (True, [1.0, 0.9]),
        "accuracy": (True, [0.7, 0.75]),
    }


def test_a_metric_that_has_one_of_the_evaluation_beside_it_is_of_the_training() -> None:
    progress = of(KERAS_CSV)
    assert metrics(progress)["accuracy"] == (False, [0.5, 0.6])
    assert metrics(progress)["val_accuracy"] == (True, [0.45, 0.55])


def test_a_table_with_steps_alone() -> None:
    assert losses(of(STEPS)) == [(0.5, None, 500), (0.4, None, 1000)]


def test_other_lines_between_the_rows_do_not_end_the_table() -> None:
    lines = NOTEBOOK.splitlines()
    between = [line for each in lines for line in (each, "Saving model checkpoint to out", "")]
    assert of("\n".join(between)).losses == of(NOTEBOOK).losses


def test_a_user_may_name_a_column_as_the_loss() -> None:
    progress = read_progress(NOTEBOOK.splitlines(), "Validation Loss")
    assert [point.loss for point in progress.losses] == [0.6, 0.55, 0.5]


@pytest.mark.parametrize(
    "text",
    [
        "Epoch\tGizmo",
        "Training Loss  Validation Loss",
        "Epoch",
        "Epoch  loss  loss",
        "Starting epoch, the loss of the last is 3",
        "epoch,0.5,loss",
        "|:---:|:----:|",
        "epoch " * 40,
        "",
    ],
)
def test_no_header(text: str) -> None:
    assert header(text) == ()


@pytest.mark.parametrize(
    "text",
    ["1\t2", "1\t2\t3\t4", "a\t0.5\t0.6", "-1\t0.5\t0.6", "|:-:|:-:|:-:|", ""],
)
def test_no_row(text: str) -> None:
    assert row(text, ("Epoch", "loss", "val_loss"), LogFormatOptions()) is None


@pytest.mark.parametrize("text", ["\t" * 4096, "| " * 2048, "  a" * 1300, "1," * 2048, "e" * 4096])
def test_a_long_line_is_no_table(text: str) -> None:
    assert header(f"epoch{text}"[:4096]) == ()
    assert row(text, ("Epoch", "loss"), LogFormatOptions()) is None


COCO = "{prefix}Average Precision  (AP) @[ IoU={iou} | area={area} | maxDets=100 ] = {value}"


@pytest.mark.parametrize(
    ("iou", "area", "value", "found"),
    [
        ("0.50:0.95", "   all", "0.401", {"AP": 0.401}),
        ("0.50     ", "   all", "0.609", {"AP50": 0.609}),
        ("0.75     ", "   all", "0.433", {"AP75": 0.433}),
        ("0.50:0.95", " small", "0.215", None),
        ("0.50:0.95", "   all", "-1.000", None),
    ],
)
@pytest.mark.parametrize("prefix", ["=", " "])
def test_the_table_of_the_coco_evaluation(
    prefix: str, iou: str, area: str, value: str, found: dict[str, float] | None
) -> None:
    line = COCO.format(prefix=prefix, iou=iou, area=area, value=value)
    parsed = parse_line(clean(line), LogFormatOptions())
    assert (parsed and parsed.evaluated) == found
