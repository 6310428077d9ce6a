"""What a position counts: only a step is a step."""

import dataclasses
from collections.abc import Sequence
from typing import Final

import pytest

from optimus.jobs import Batch, BatchScope, Counts, Role, TargetSteps
from optimus.models.forecast import goal_is_met
from optimus.progress.log import ProgressLog
from tests.cases import cases
from tests.unit.progress.jobs import stamped
from tests.unit.progress.reads import LATER, SYNC, read


def _lines(form: str, first: int, last: int, step: int) -> list[str]:
    """Two epochs of a form: the count ``n``, ``p`` percent of the epoch."""
    return [
        form.format(e=e, n=n, p=100 * n / last, done=e - 1 + n / last, loss=3 - e - n / last)
        for e in (1, 2)
        for n in range(first, last + 1, step)
    ]


NO_STEPS: Final = {
    "parts of epochs": _lines("{{'loss': {loss:.4f}, 'epoch': {done:.2f}}}", 5, 100, 5),
    "whole ones without a point": _lines(
        "{{'loss': '{loss:.4g}', 'epoch': '{done:.4g}'}}", 5, 100, 5
    ),
    "parts in free text": _lines("epoch={done:.2f} loss={loss:.4f}", 5, 100, 5),
    "parts in front": _lines("{done:.2f} epochs: loss {loss:.4f}", 5, 100, 5),
    "of a table": ["epoch,loss", *_lines("{done:.2f},{loss:.4f}", 5, 100, 5)],
    "examples with percent": _lines(
        "Train Epoch: {e} [{n}/60000 ({p:.0f}%)]\tLoss: {loss:.4f}", 6000, 60000, 6000
    ),
    "without a name": _lines("[Epoch {e} {n}/17920] loss={loss:.4f}", 1792, 17920, 1792),
    "samples in front": _lines("epoch {e} samples {n}/60000 loss {loss:.4f}", 6000, 60000, 6000),
    "images behind": _lines("Epoch {e} | {n}/60000 images | loss {loss:.4f}", 6000, 60000, 6000),
    "per mille": _lines("Epoch {e} {n}/1000 loss {loss:.4f}", 100, 1000, 100),
    "a bar of images": _lines(
        "Epoch {e}: {p:.0f}%|##  | {n}/60000 [00:05<00:05, 45.3img/s, loss={loss:.4f}]",
        6000, 60000, 6000,
    ),
    "Keras before 2.1": [
        line
        for e in (1, 2)
        for line in (f"Epoch {e}/2", f"60000/60000 [==] - 5s 83us/sample - loss: {3 - e}.0")
    ],
    "whole epochs": ["epoch=1 loss=2.0", "epoch=2 loss=1.0"],
}  # fmt: skip


@pytest.mark.parametrize("lines", NO_STEPS.values(), ids=NO_STEPS.keys())
def test_no_position_but_a_step_is_a_step(lines: Sequence[str]) -> None:
    options = dataclasses.replace(SYNC, needs_steps=True)
    progress = read(lines, options)
    assert progress.epoch == pytest.approx(2.0)
    assert (progress.step, progress.steps_per_epoch) == (None, None)
    assert not goal_is_met(TargetSteps(1), progress)
    assert "print the step, too" in (progress.diagnostic or "")
    assert read(lines).diagnostic is None
    assert progress.speed_unit != "steps/s"


def test_a_job_that_says_what_an_epoch_has_counts_steps_by_it() -> None:
    for lines in NO_STEPS.values():
        progress = read(lines, dataclasses.replace(SYNC, steps_per_epoch=50.0))
        assert (progress.step, progress.steps_per_epoch) == (100, 50.0)
        for sample in progress.samples:
            assert sample.steps_per_second == pytest.approx(100 / len(lines), rel=0.2)


@cases(
    "form",
    {
        "of an epoch in brackets": "Epoch: [{e}] [{n}/40]\tLoss {loss}",
        "named in front": "epoch {e} iteration {n}/40 loss {loss}",
        "named behind": "| epoch {e} | {n}/40 batches | loss {loss}",
        "a bar": "Epoch {e}: {p:.0f}%|#  | {n}/40 [00:05<00:05, 1.2s/it, loss={loss}]",
    },
)
def test_a_batch_is_a_step(form: str) -> None:
    progress = read(_lines(form, 10, 40, 10), dataclasses.replace(SYNC, needs_steps=True))
    assert (progress.step, progress.steps_per_epoch, progress.diagnostic) == (80, 40.0, None)
    assert progress.speed_unit == "steps/s"


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("parts of epochs", "ten-thousandths of an epoch/s"),
        ("examples with percent", "examples/s"),
        ("whole epochs", "epochs/s"),
    ],
)
def test_a_speed_has_the_unit_of_what_is_counted(name: str, unit: str) -> None:
    assert read(NO_STEPS[name]).speed_unit == unit


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_examples_of_one_process_of_several_are_at_the_percentage(ranks: int) -> None:
    batches = 60000 // 64 // ranks
    lines = [
        f"Train Epoch: {e} [{n * 64}/60000 ({100 * n / batches:.0f}%)]\tLoss: {3 - e - n / 1000}"
        for e in (1, 2)
        for n in range(0, batches, 5)
    ]
    progress = read(lines)
    done = [point.epoch or 0.0 for point in progress.losses]
    right = [e + n / batches for e in (0, 1) for n in range(0, batches, 5)]
    assert done == pytest.approx(right, abs=0.0125)
    assert progress.epoch == pytest.approx(right[-1], rel=0.01)


def test_an_epoch_takes_as_long_by_parts_of_it_as_by_steps() -> None:
    """Where each synchronous worker has a batch of its own, too."""
    options = dataclasses.replace(SYNC, batch=Batch(16, BatchScope.WORKER))
    log = ProgressLog(options)
    log.observe("w", Role.WORKER, 0, Counts(1, 4), stamped(NO_STEPS["parts of epochs"]), "1")
    progress = log.progress(LATER)
    (sample,) = progress.samples
    assert progress.units_per_epoch is not None
    assert progress.units_per_epoch / sample.steps_per_second == pytest.approx(20.0)


@pytest.mark.parametrize("saved", ["step={0} checkpoint={0}", "step={0} samples_per_sec=9.5"])
@pytest.mark.parametrize(
    "line",
    [
        "Train Epoch: {epoch} [{done}/6400 ({percent}%)]\tLoss: {loss}",
        "[Epoch {epoch} Batch {batch}/100] loss={loss}",
        "Epoch {epoch} [{batch}/100] loss: {loss}",
        "epoch {epoch} step {batch} loss {loss}",
    ],
)
@pytest.mark.parametrize("every", [10, 7, 60])
def test_steps_without_a_loss_beside_batches_with_one(line: str, saved: str, every: int) -> None:
    texts = []
    for step in range(300):
        at = {"epoch": step // 100 + 1, "batch": step % 100 + 1, "done": 64 * (step % 100 + 1)}
        if step % 10 == 9:
            texts.append(line.format(**at, percent=at["batch"], loss=round(9 / (9 + step), 4)))
        if step % every == every - 1:
            texts.append(saved.format(step + 1))
    progress = read(texts)
    assert progress.epoch == 3.0
    assert progress.step == 300 // every * every
    assert progress.steps_per_epoch == pytest.approx(100, rel=0.06)
    assert len(progress.losses) == 30
    assert (progress.losses[0].epoch, progress.losses[-1].epoch) == (0.1, 3.0)
