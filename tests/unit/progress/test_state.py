"""What is stored of a log, and taken up again."""

import dataclasses
from collections.abc import Iterator

import msgspec
import pytest

from optimus.jobs import Counts, Role
from optimus.progress.log import MAX_STORED_LOSSES, ProgressLog
from optimus.progress.state import LogState
from optimus.progress.types import LogLine, PodRun
from tests.unit.progress.jobs import START, stamped
from tests.unit.progress.reads import DATA, LATER, SYNC, observe, pairs


class TestStorage:
    @pytest.mark.parametrize(
        "name", ["sync_p2w2.w1.log", "keras_v2.log", "mxnet-sync-before-worker-0.log"]
    )
    @pytest.mark.parametrize("cut", [0.1, 0.5, 0.9])
    def test_goes_on_from_a_stored_state_as_if_nothing_had_happened(
        self, name: str, cut: float
    ) -> None:
        lines = stamped((DATA / name).read_text().splitlines())
        half = round(len(lines) * cut)
        whole, log = ProgressLog(SYNC), ProgressLog(SYNC)
        observe(whole, lines, "r", Counts(2, 2))
        observe(log, lines[:half], "r", Counts(2, 2))
        stored = msgspec.json.encode(log.to_state())
        again = ProgressLog.from_state(SYNC, msgspec.json.decode(stored, type=LogState))
        observe(again, lines[half:], "r", Counts(2, 2))
        assert again.progress(LATER) == whole.progress(LATER)

    def test_what_is_stored_is_bounded(self) -> None:
        log = ProgressLog(SYNC)
        for run in range(100):
            lines = stamped(pairs(1 + run * 100, 100 + run * 100), start=START + run * 1000.0)
            # The losses are the first worker's, and of the others only the last run is remembered.
            for index in range(10 if run == 99 else 1):
                log.observe(f"w{index}", Role.WORKER, index, Counts(1, 10), lines, f"run-{run}")
        state = log.to_state()
        assert len(state.losses) <= MAX_STORED_LOSSES
        assert len(msgspec.json.encode(state)) < 60_000

    def test_a_state_is_a_copy(self) -> None:
        log = ProgressLog(SYNC)
        observe(log, stamped(pairs(1, 5)), "r")
        state = log.to_state()
        observe(log, stamped(pairs(6, 9), start=START + 60), "r")
        assert state.step == 5

    def test_a_state_shares_nothing_with_the_log_that_later_lines_change(self) -> None:
        log = ProgressLog(SYNC)
        lines = [
            *(f"epoch=1 step={step} loss=0.5 accuracy=0.5 checkpoint=1" for step in range(1, 9)),
            "Epoch[0] Batch [20]\tSpeed: 5.00 samples/sec\taccuracy=0.5",
        ]
        for run in ("r", "s"):
            observe(log, stamped(lines), run)
        state = log.to_state()
        assert state == log.to_state()
        assert state.series
        assert state.samples
        assert state.pods[0].meter.marks
        own = {id(each) for name in log.copied() for each in changeable(getattr(log, name))}
        assert len(own) > 10
        assert not own & {id(each) for each in changeable(state)}


def changeable(value: object) -> Iterator[object]:
    """All objects below a value that can be changed in place."""
    is_record = dataclasses.is_dataclass(value) and not isinstance(value, type)
    if isinstance(value, list) or (is_record and not value.__dataclass_params__.frozen):  # type: ignore[attr-defined]
        yield value
    assert not isinstance(value, dict | set | bytearray)
    if isinstance(value, list | tuple):
        for each in value:
            yield from changeable(each)
    elif is_record:
        for each in dataclasses.fields(value):  # type: ignore[arg-type]
            yield from changeable(getattr(value, each.name))


class TestKnownProgress:
    """The progress is kept between two reads of the log."""

    @pytest.mark.parametrize(
        "name", ["sync_p2w2.w1.log", "keras_v2.log", "mxnet-sync-before-worker-0.log"]
    )
    def test_it_is_what_a_log_that_kept_nothing_shows(self, name: str) -> None:
        lines = stamped((DATA / name).read_text().splitlines())[:150]
        log = ProgressLog(SYNC)
        for first in range(0, len(lines), 7):
            observe(log, lines[first : first + 7], "r", Counts(2, 2))
            if first % 2:
                log.observe("c", Role.WORKER, 1, Counts(2, 2), lines[first : first + 2], "r")
            again = ProgressLog.from_state(SYNC, log)
            for now in (LATER, START):
                assert log.progress(now) == again.progress(now)
            run = PodRun("r", read_at=START + first, truncated=first % 2 == 0)
            observe(log, [], run, Counts(2, 2))
            again = ProgressLog.from_state(SYNC, log)
            assert log.progress(LATER) == again.progress(LATER)

    def test_a_read_without_a_new_line_counts(self) -> None:
        log = ProgressLog(SYNC)
        lines = stamped(["step=1 loss=1", "step=2 loss=1 checkpoint=2"])
        for at in (START + 10, START + 40):
            observe(log, lines, PodRun("r", read_at=at))
            log.progress(LATER)
        assert log.progress(LATER).read_interval_seconds == 30

    def test_another_kind_of_node_counts(self) -> None:
        log = ProgressLog(SYNC)
        for kind in (None, "fast", "slow"):
            lines = stamped(pairs(1, 9))
            observe(log, lines, PodRun("r", kind))
            assert log.progress(LATER).node_kind == kind

    def test_other_options_count(self) -> None:
        log = ProgressLog(SYNC)
        lines = stamped(pairs(1, 9), every=1.0)
        observe(log, lines, "r")
        assert log.progress(LATER).steps_per_epoch is None
        log.options = dataclasses.replace(SYNC, steps_per_epoch=5)
        assert log.progress(LATER).steps_per_epoch == 5

    def test_without_news_it_is_the_same_object(self) -> None:
        log = ProgressLog(SYNC)
        observe(log, stamped(pairs(1, 9)), "r")
        assert log.progress(LATER) is log.progress(LATER + 2)


def test_long_lines_are_known_again_and_not_stored() -> None:
    lines = [LogLine(1000.0, f"step {n} loss {'1,23' * 900}") for n in range(8)]
    told: list[str] = []
    log = ProgressLog(SYNC, on_line=lambda text, _: told.append(text))
    for _ in range(2):
        log.observe("p", Role.WORKER, 0, Counts(1, 1), lines, "run")
    assert len(told) == len(lines)
    state = log.to_state()
    assert sum(map(len, state.pods[0].texts)) < 8 * 300
    assert 0 < len(state.unclear) <= 40
