"""The line of a report, and what is read in it."""

from typing import Any

import numpy as np
import pytest

from optimus.progress.formats import parse_line
from optimus.progress.parsed_line import LogFormatOptions, SavedCheckpoint
from optimus_trainer.report import report


def printed(capsys: pytest.CaptureFixture[str], step: int, **values: Any) -> str:
    report(step, **values)
    return capsys.readouterr().out


def test_what_is_reported_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    line = printed(capsys, 120, epoch=3, loss=0.25, auc=0.71, checkpoint=100)
    assert line == "epoch=3 step=120 checkpoint=100 loss=0.25 auc=0.71\n"
    parsed = parse_line(line.rstrip(), LogFormatOptions())
    assert parsed is not None
    assert (parsed.epoch, parsed.step, parsed.loss) == (3, 120, 0.25)
    assert parsed.saved == SavedCheckpoint(step=100)


def test_the_length_of_the_run_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    parsed = parse_line(printed(capsys, 0, total_epochs=60).rstrip(), LogFormatOptions())
    assert parsed is not None
    assert parsed.declared is not None
    assert parsed.declared.epochs == 60


def test_arrays_of_one_number_are_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, 1, loss=np.float32(0.5)) == "step=1 loss=0.5\n"
    with pytest.raises(TypeError):
        report(1, loss=np.zeros(2))
