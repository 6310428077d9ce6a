"""Lines of an evaluation are not taken for training."""

import pytest

from optimus.progress.formats import parse_line
from optimus.progress.parsed_line import LogFormatOptions, ParsedLine
from tests.cases import cases
from tests.unit.progress.jobs import job

OPTIONS = LogFormatOptions()
KATIB = LogFormatOptions.of(job(metrics_format=r"([\w-]+)=([\d.]+)"))


@cases("options", {"known forms": OPTIONS, "metrics-format": KATIB})
@pytest.mark.parametrize(
    "text",
    [
        "Validation: loss=0.31 accuracy=0.9",
        "validation epoch=3 loss=0.31",
        "[eval] step=1200 loss=0.31",
        "INFO:root:[Eval] step=1200 loss=0.31",
        "2026-01-01T00:00:00Z [val] epoch=3 loss=0.31",
        "Evaluating - step=1200 loss=0.31",
        "Test: epoch=3 loss=0.31",
        "step=1200 mode=eval loss=0.31",
        "epoch=3 phase=val loss=0.31",
        '{"mode": "eval", "step": 1200, "loss": "0.31"}',
        '{"step": 1200, "loss": 0.31, "split":"validation"}',
    ],
)
def test_an_evaluation_says_nothing_of_the_training(text: str, options: LogFormatOptions) -> None:
    assert parse_line(text, options) == ParsedLine()


@pytest.mark.parametrize(
    "text",
    [
        "step=1200 loss=0.31",
        "epoch=3 step=1200 loss=0.31 val_loss=0.4",
        "step=1200 loss=0.31 eval=0.4",
        "val=0.4 epoch=3 loss=0.31",
        "step=1200 loss=0.31 evaluated_at=1000",
        "[Epoch 3] train=0.104067 val=0.116500 loss=0.31 time: 60.370274",
        '{"mode": "train", "step": 1200, "loss": 0.31}',
        "devices=8 step=1200 loss=0.31",
    ],
)
def test_training_that_names_an_evaluation_is_read(text: str) -> None:
    parsed = parse_line(text, OPTIONS)
    assert parsed is not None
    assert parsed.loss == 0.31
