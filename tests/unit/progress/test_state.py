"""What is stored of a log, and taken up again."""

import msgspec
import pytest

from optimus.jobs import Counts, Role
from optimus.progress.log import MAX_STORED_LOSSES, ProgressLog
from optimus.progress.state import LogState
from tests.unit.progress.jobs import START, stamped
from tests.unit.progress.reads import DATA, LATER, SYNC, pairs


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
        whole.observe("w", Role.WORKER, 0, Counts(2, 2), lines, "r")
        log.observe("w", Role.WORKER, 0, Counts(2, 2), lines[:half], "r")
        stored = msgspec.json.encode(log.to_state())
        again = ProgressLog.from_state(SYNC, msgspec.json.decode(stored, type=LogState))
        again.observe("w", Role.WORKER, 0, Counts(2, 2), lines[half:], "r")
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
        log.observe("w", Role.WORKER, 0, Counts(1, 1), stamped(pairs(1, 5)), "r")
        state = log.to_state()
        log.observe("w", Role.WORKER, 0, Counts(1, 1), stamped(pairs(6, 9), start=START + 60), "r")
        assert state.step == 5
