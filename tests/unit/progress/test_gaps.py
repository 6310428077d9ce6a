"""Parts of a log that is too large are passed over: what is derived from the rest is right or not
known, never wrong."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.jobs import Counts, Role
from optimus.progress.log import ProgressLog
from optimus.progress.types import LogLine, PodRun, TrainingProgress
from tests.unit.progress.reads import SYNC
from tests.unit.properties import examples

COUNTS = Counts(1, 1)
PER_EPOCH, EPOCHS = 20, 4
"""In all logs here a step takes a second."""


def steps() -> list[LogLine]:
    return [
        LogLine(float(step), f"epoch={(step - 1) // PER_EPOCH} step={step} loss={99 / step:.4f}")
        for step in range(1, EPOCHS * PER_EPOCH + 1)
    ]


def mxnet() -> list[LogLine]:
    lines = []
    for epoch in range(EPOCHS):
        for batch in range(2, PER_EPOCH, 2):
            at = float(epoch * PER_EPOCH + batch)
            text = f"Epoch[{epoch}] Batch [{batch}]\tSpeed: 100.00 samples/sec\tloss={99 / at:.3f}"
            lines.append(LogLine(at, text))
        at = float((epoch + 1) * PER_EPOCH)
        lines.append(LogLine(at, f"Epoch[{epoch}] Train-loss={99 / at:.3f}"))
        lines.append(LogLine(at, f"Epoch[{epoch}] Time cost=20.000"))
    return lines


def keras() -> list[LogLine]:
    lines = []
    for epoch in range(EPOCHS):
        lines.append(LogLine(float(epoch * PER_EPOCH), f"Epoch {epoch + 1}/{EPOCHS}"))
        for batch in range(2, PER_EPOCH + 1, 2):
            at = float(epoch * PER_EPOCH + batch)
            lines.append(LogLine(at, f"{batch}/{PER_EPOCH} - 9s - loss: {99 / at:.4f}"))
    return lines


def read(lines: Sequence[LogLine], passed_over: Sequence[tuple[int, int]] = ()) -> TrainingProgress:
    """The progress after a read of each stretch between what is passed over."""
    log, begin = ProgressLog(SYNC), 0
    for number, (first, last) in enumerate([*passed_over, (len(lines), len(lines))]):
        run = PodRun("run", read_at=lines[min(first, len(lines) - 1)].at, skipped=number > 0)
        log.observe("a-worker-0", Role.WORKER, 0, COUNTS, lines[begin:first], run)
        begin = last
    return log.progress(1e6)


LOGS = [steps, mxnet, keras]


@pytest.mark.parametrize("printed", LOGS)
@examples(60)
@given(data=st.data())
def test_nothing_wrong_is_derived_across_a_gap(
    printed: Callable[[], list[LogLine]], data: st.DataObject
) -> None:
    lines = printed()
    ends = data.draw(st.lists(st.integers(1, len(lines) - 12), max_size=8, unique=True).map(sorted))
    gaps = list(zip(ends[::2], ends[1::2], strict=False))
    whole, found = read(lines), read(lines, gaps)
    assert found.epoch is None or found.epoch == pytest.approx(whole.epoch, abs=0.5)
    assert found.step in (None, whole.step)
    assert found.steps_per_epoch in (None, whole.steps_per_epoch)
    assert all(0.9 < each.steps_per_second < 1.1 for each in found.samples)
    assert found.losses[-1].loss == whole.losses[-1].loss
    assert found.is_too_large == bool(gaps)


def test_a_loss_after_a_gap_has_the_weight_of_its_own_line() -> None:
    found = read(steps(), [(10, 50)])
    assert {point.weight for point in found.losses} == {1.0}


def test_the_length_of_an_epoch_is_not_learned_from_an_end_after_a_gap() -> None:
    lines = mxnet()
    assert read(lines[:11]).steps_per_epoch == pytest.approx(PER_EPOCH, abs=1)
    assert read(lines[:11], [(4, 9)]).steps_per_epoch is None


def test_a_bar_below_a_header_that_was_passed_over_is_of_no_known_epoch() -> None:
    found = read(keras()[:30], [(8, 15)])
    assert found.epoch is not None
    assert found.epoch > 2.5  # that of the third header
    early = read(keras()[:15], [(8, 13)])
    assert early.epoch == 0.7


def test_a_save_that_began_before_a_gap_is_not_complete_after_it() -> None:
    saving = LogLine(20.5, "Saving checkpoints for 20 into model.ckpt.")
    lines = [*steps()[:20], saving, *steps()[20:]]
    assert read(lines[:60]).checkpoint_step == 20
    assert read(lines[:60], [(21, 40)]).checkpoint_step is None
