"""Speeds: of whole jobs, of runs one after the other, on kinds of nodes."""

import msgspec
import pytest

from optimus.jobs import Counts, Role, TrainingMode
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.state import LogState
from optimus.progress.types import LogLine, PodRun
from tests.cases import cases
from tests.unit.progress.jobs import START, stamped
from tests.unit.progress.reads import LATER, SYNC, observe, pairs


class TestSpeed:
    def test_global_steps_are_the_jobs_and_are_not_summed_over_pods(self) -> None:
        log = ProgressLog(LogFormatOptions(mode=TrainingMode.ASYNC))
        for index in range(3):
            lines = stamped(pairs(1 + index, 200, every=10), every=2.0)
            log.observe(f"w{index}", Role.WORKER, index, Counts(1, 3), lines, "r")
        (sample,) = log.progress(LATER).samples
        assert sample.counts == Counts(1, 3)
        assert sample.steps_per_second == pytest.approx(5.0)

    @cases(
        ("mode", "expected"),
        {
            "sync workers tick together": (TrainingMode.SYNC, 10.0),
            "async workers add up, two sampled of four": (TrainingMode.ASYNC, 40.0),
        },
    )
    def test_batches_of_each_worker(self, mode: TrainingMode, expected: float) -> None:
        log = ProgressLog(LogFormatOptions(mode=mode))
        texts = [
            f"Epoch[{n // 5}] Batch [{n % 5 * 20}]/[100]\tSpeed: 640 samples/sec\tloss=1"
            for n in range(40)
        ]
        for index in range(2):
            log.observe(
                f"w{index}", Role.WORKER, index, Counts(1, 4), stamped(texts, every=2.0), "r"
            )
        assert log.progress(LATER).samples[0].steps_per_second == pytest.approx(expected, rel=0.01)

    def test_warm_up_is_left_out(self) -> None:
        log = ProgressLog(SYNC)
        slow = [LogLine(START, "step=1 loss=1"), LogLine(START + 30, "step=11 loss=1")]
        steady = stamped(pairs(21, 101, every=10), start=START + 32, every=2.0)
        observe(log, [*slow, *steady], "r")
        assert log.progress(LATER).samples[0].steps_per_second == pytest.approx(5.0)

    def test_a_stall_is_left_out(self) -> None:
        log = ProgressLog(SYNC)
        before, after = stamped(pairs(1, 20)), stamped(pairs(21, 40), start=START + 120)
        observe(log, [*before, *after], "r")
        assert log.progress(LATER).samples[0].steps_per_second == pytest.approx(1.0)

    def test_lines_that_come_in_lumps_are_measured_from_lump_to_lump(self) -> None:
        lines = [
            LogLine(START + 10.0 * (n // 10) + n % 10 * 0.001, f"step={n + 1} loss=1")
            for n in range(80)
        ]
        log = ProgressLog(SYNC)
        observe(log, lines, "r")
        assert log.progress(LATER).samples[0].steps_per_second == pytest.approx(1.0)

    def test_each_run_gives_a_sample_at_its_counts(self) -> None:
        log = ProgressLog(SYNC)
        for number, counts in enumerate([Counts(1, 1), Counts(2, 3)]):
            first, start = 1 + 30 * number, START + 100.0 * number
            lines = stamped(pairs(first, first + 29), start=start, every=1.0 / (number + 1))
            observe(log, lines, f"run-{number}", counts)
        speeds = {sample.counts: sample.steps_per_second for sample in log.progress(LATER).samples}
        assert speeds == pytest.approx({Counts(1, 1): 1.0, Counts(2, 3): 2.0})
        assert log.progress(LATER).trained_seconds == pytest.approx(28 + 14)

    def test_no_sample_is_from_the_future(self) -> None:
        log = ProgressLog(SYNC)
        observe(log, stamped(pairs(1, 20)), "r")
        assert log.progress(START + 5).samples[0].at == START + 5


class TestKindsOfNodes:
    @staticmethod
    def runs(*kinds: str | None, log: ProgressLog | None = None, first: int = 0) -> ProgressLog:
        """Half a minute of training on each kind of node, one run after the other."""
        log = log or ProgressLog(SYNC)
        for run, kind in enumerate(kinds, first):
            lines = stamped(pairs(30 * run + 1, 30 * run + 30), start=START + 100 * run)
            observe(log, lines, PodRun(f"run-{run}", kind), Counts(1, 1 + run))
        return log

    @cases(
        ("kinds", "known", "now"),
        {
            "nobody looks: as if there were no kinds": ([None, None], ["", ""], None),
            "nodes without the label are of one kind": (["", ""], ["", ""], ""),
            "each run's sample bears its own kind": (["fast", "slow"], ["fast", "slow"], "slow"),
            "a run on nodes without the label after one with it": (["fast", ""], ["fast", ""], ""),
            "a run on labelled nodes after one without": (["", "fast"], ["", "fast"], "fast"),
            "what was stored before anybody looked": ([None, "fast"], ["fast", "fast"], "fast"),
        },
    )
    def test_samples_say_on_which_kind_they_were_measured(
        self, kinds: list[str | None], known: list[str], now: str | None
    ) -> None:
        progress = self.runs(*kinds).progress(LATER)
        assert ([sample.node_kind for sample in progress.samples], progress.node_kind) == (
            known,
            now,
        )

    def test_a_node_that_is_gone_does_not_make_its_runs_kind_unknown(self) -> None:
        log = self.runs("fast")
        observe(log, stamped(["step=31 loss=1"], start=START + 30), PodRun("run-0", ""))
        assert log.progress(LATER).node_kind == "fast"

    def test_what_an_earlier_release_stored_is_read(self) -> None:
        stored = msgspec.to_builtins(self.runs(None, None).to_state())
        del stored["node_kind"]
        for sample in stored["samples"]:
            del sample["node_kind"]
        log = ProgressLog.from_state(SYNC, msgspec.convert(stored, LogState))
        progress = self.runs("fast", log=log, first=2).progress(LATER)
        assert [sample.node_kind for sample in progress.samples] == ["fast"] * 3

    def test_the_kind_is_stored(self) -> None:
        stored = msgspec.convert(
            msgspec.to_builtins(self.runs("fast", "slow").to_state()), LogState
        )
        assert ProgressLog.from_state(SYNC, stored).progress(LATER) == self.runs(
            "fast", "slow"
        ).progress(LATER)
