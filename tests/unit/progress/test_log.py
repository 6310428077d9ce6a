"""Reads of a log, one after the other: each line is taken once, and a restore takes back what it
undid."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.jobs import Counts
from optimus.progress.log import ProgressLog
from optimus.progress.state import LogState
from optimus.progress.types import LogLine
from tests.unit.progress.jobs import START, stamped
from tests.unit.progress.reads import GLUON, LATER, SYNC, observe, pairs, read
from tests.unit.properties import examples


class TestReadingTwice:
    def test_overlapping_reads_take_each_line_once(self) -> None:
        lines = stamped(pairs(1, 20))
        once, often = ProgressLog(SYNC), ProgressLog(SYNC)
        observe(once, lines, "r")
        for end in range(1, 21):
            observe(often, lines[max(end - 4, 0) : end], "r")
        assert often.progress(LATER) == once.progress(LATER)

    def test_lines_of_one_instant_are_distinguished_by_their_text(self) -> None:
        log = ProgressLog(SYNC)
        observe(log, [LogLine(START, "step=1 loss=3")], "r")
        observe(log, [LogLine(START, "step=1 loss=3"), LogLine(START, "step=2 loss=2")], "r")
        assert [point.step for point in log.progress(LATER).losses] == [1, 2]

    def test_the_next_read_starts_at_the_last_line(self) -> None:
        log = ProgressLog(SYNC)
        assert log.next_since("w") is None
        observe(log, stamped(["a", "b", "c"]), "r")
        assert log.next_since("w") == START + 2

    def test_one_event_under_two_prefixes_is_one_point(self) -> None:
        event = "loss = 2.5, step = 100 (0.5 sec)"
        progress = read(
            [f"INFO:tensorflow:{event}", f"I0401 16:50:17.657439 1403 hooks.py:260] {event}"]
        )
        assert [(point.step, point.loss) for point in progress.losses] == [(100, 2.5)]

    def test_lines_of_the_run_before_come_too_late(self) -> None:
        log = ProgressLog(SYNC)
        observe(log, stamped(pairs(1, 5)), "old")
        observe(log, stamped(pairs(6, 9), start=START + 60), "new", Counts(1, 2))
        observe(log, stamped(pairs(6, 8), start=START + 6), "old")
        assert log.progress(LATER).step == 9


class TestGoingBack:
    def test_a_new_run_takes_away_what_came_after_the_checkpoint(self) -> None:
        log = ProgressLog(SYNC)
        observe(log, stamped([*pairs(1, 17), *pairs(18, 20, checkpoint=15)]), "1")
        observe(log, stamped(["step=16 loss=9 checkpoint=15"], start=START + 60), "2", Counts(2, 2))
        progress = log.progress(LATER)
        assert [point.step for point in progress.losses] == list(range(1, 17))
        assert progress.losses[-1].loss == 9
        assert (progress.step, progress.checkpoint_step) == (16, 15)

    def test_a_sparse_log_goes_back_to_the_checkpoint_that_its_first_line_names(self) -> None:
        log = ProgressLog(SYNC)
        observe(log, stamped(pairs(10, 100, every=10)), "1")
        observe(log, stamped(pairs(90, 90, checkpoint=65), start=START + 60), "2")
        assert [point.step for point in log.progress(LATER).losses] == [10, 20, 30, 40, 50, 60, 90]

    def test_a_container_that_restarts_within_a_run_goes_back_too(self) -> None:
        progress = read([*pairs(1, 10), "step=4 loss=8"])
        assert [point.step for point in progress.losses] == [1, 2, 3, 4]
        assert progress.step == 4

    def test_mxnet_goes_back_to_the_beginning_of_its_epoch(self) -> None:
        speed = "Epoch[{}] Batch [{}]\tSpeed: 5 samples/sec\tloss={}"
        log = ProgressLog(SYNC)
        texts = [speed.format(epoch, batch, 1) for epoch in range(3) for batch in (10, 20)]
        observe(log, stamped(texts), "1")
        observe(log, stamped([speed.format(1, 10, 2)], start=START + 60), "2")
        assert [point.loss for point in log.progress(LATER).losses] == [1, 1, 2]

    def test_a_container_that_restarts_within_an_epoch_is_measured_again(self) -> None:
        texts = [GLUON.format(batch) for batch in (*range(0, 40, 2), *range(0, 30, 3))]
        progress = read(texts)
        assert progress.step == 28
        assert [point.step for point in progress.losses] == list(range(1, 31, 3))
        assert progress.samples[0].steps_per_second == pytest.approx(3.0)

    def test_a_training_that_starts_over_has_no_checkpoint(self) -> None:
        log = ProgressLog(SYNC)
        observe(log, stamped(pairs(1, 20, checkpoint=15)), "1")
        observe(log, stamped(pairs(1, 2), start=START + 60), "2")
        progress = log.progress(LATER)
        assert (progress.step, progress.checkpoint_step, len(progress.losses)) == (2, None, 2)


@examples(150)
@given(st.data())
def test_how_a_log_is_cut_into_reads_does_not_matter(data: st.DataObject) -> None:
    """Reads overlap, the autoscaler restarts in between, and the progress is that of one single
    read."""
    count = data.draw(st.integers(1, 60))
    steps = data.draw(
        st.lists(st.integers(1, 9) | st.integers(-30, -1), min_size=count, max_size=count)
    )
    places = [max(sum(steps[: n + 1]), 1) for n in range(count)]
    texts = [
        f"epoch={place // 20} step={place} loss={1 / place + n % 3}"
        for n, place in enumerate(places)
    ]
    lines = stamped(texts, every=data.draw(st.sampled_from([0.1, 0.5, 3.0])))
    whole = ProgressLog(SYNC)
    observe(whole, lines, "r")
    log, end = ProgressLog(SYNC), 0
    while end < count:
        since = log.next_since("w")
        end += data.draw(st.integers(1, 20))
        seen = [line for line in lines[:end] if since is None or line.at >= int(since)]
        observe(log, seen, "r")
        if data.draw(st.booleans()):
            log = ProgressLog.from_state(
                SYNC, msgspec.convert(msgspec.to_builtins(log.to_state()), LogState)
            )
    assert log.progress(LATER) == whole.progress(LATER)
