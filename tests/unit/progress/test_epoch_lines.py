"""Lines with an epoch and its loss, and no position within the epoch."""

import pytest

from optimus.jobs import Counts, Role, TrainingMode
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.types import LogLine, TrainingProgress
from tests.cases import cases

RULES = LogFormatOptions(mode=TrainingMode.SYNC)


def progress_of(*texts: str) -> TrainingProgress:
    """The progress from one worker's log, a line every 10 seconds."""
    log = ProgressLog(RULES)
    lines = [LogLine(10.0 * number, text) for number, text in enumerate(texts)]
    log.observe("w0", Role.WORKER, 0, Counts(1, 1), lines, "run")
    return log.progress(1e6)


@pytest.mark.parametrize(
    "form", ["epoch={} loss={}", "epoch={}, loss={} lr=0.1", '{{"epoch": {}, "loss": {}}}']
)
@pytest.mark.parametrize("first", [0, 1])
def test_each_is_an_epoch_that_has_ended_whatever_number_the_first_one_has(
    form: str, first: int
) -> None:
    progress = progress_of(
        *(form.format(first + n, loss) for n, loss in enumerate((3.0, 2.0, 1.5)))
    )
    assert [(point.epoch, point.loss) for point in progress.losses] == [
        (1.0, 3.0),
        (2.0, 2.0),
        (3.0, 1.5),
    ]
    assert progress.epoch == 3.0


def test_a_restart_goes_back_to_the_epoch_it_prints() -> None:
    progress = progress_of(
        "epoch=1 loss=3",
        "epoch=2 loss=2",
        "epoch=3 loss=1.5",
        "epoch=2 loss=2.1",
        "epoch=3 loss=1.4",
    )
    assert [(point.epoch, point.loss) for point in progress.losses] == [
        (1.0, 3.0),
        (2.0, 2.1),
        (3.0, 1.4),
    ]


@cases(
    "line",
    {
        "a batch, of which nobody knows how many there are": "epoch=2 batch=30 loss=1.5",
        "an iteration": "epoch=2 iter=30 loss=1.5",
        "a step that is no whole number": "epoch=2 step=0.5 loss=1.5",
        "not the training loss": "epoch=2 val_loss=1.5",
        "no epoch": "loss=1.5",
    },
)
def test_no_epoch_has_ended_by(line: str) -> None:
    epoch = progress_of("epoch=1 loss=3", line).epoch
    assert epoch is not None
    assert epoch < 2.0


def test_a_batch_of_which_nobody_knows_how_many_there_are_is_training_in_its_epoch() -> None:
    progress = progress_of("epoch=1 loss=3", "epoch=2 batch=30 loss=1.5", "epoch=2 loss=1.4")
    assert [point.loss for point in progress.losses] == [3.0, 1.5]
    assert progress.epoch == 2.0


def test_steps_are_preferred_to_epochs() -> None:
    progress = progress_of("epoch=1 step=10 loss=3", "epoch=2 loss=2", "epoch=2 step=20 loss=1.5")
    assert [(point.step, point.loss) for point in progress.losses] == [(10, 3.0), (20, 1.5)]
