"""The clocks of nodes, which may be ahead, behind, or be set while a job trains."""

from collections.abc import Callable, Sequence

import pytest

from optimus.jobs import Counts, Role
from optimus.progress.log import ProgressLog
from optimus.progress.types import LogLine, PodRun
from tests.cases import cases
from tests.unit.progress.jobs import START
from tests.unit.progress.reads import LATER, SYNC, observe


def served(lines: Sequence[LogLine], since: float | None) -> list[LogLine]:
    """As a kubelet answers: from a whole second on, in the order in which they were printed."""
    return [line for line in lines if since is None or line.at >= int(since)]


class TestClocks:
    """The kubelet's clock stamps the lines, the reader's says when they were read: every ten
    seconds."""

    @staticmethod
    def polled(stamp: Callable[[int], float], steps: int = 300) -> ProgressLog:
        """A step a second, of which the kubelet says that it was printed at another instant."""
        log = ProgressLog(SYNC)
        printed = [
            LogLine(stamp(step), f"step={step} loss={1 / step:.6f}") for step in range(1, steps + 1)
        ]
        for now in range(10, steps + 10, 10):
            lines = served(printed[:now], log.next_since("w"))
            observe(log, lines, PodRun("r", read_at=START + now))
        return log

    @cases(
        "stamp",
        {
            "the same clock": lambda step: START + step,
            "ahead for one line": lambda step: START + step + (7200 if step == 95 else 0),
            "ahead, then set right": lambda step: START + step + (7200 if step < 95 else 0),
            "ahead for a minute": lambda step: START + step + (7200 if 35 < step < 95 else 0),
            "ahead from then on": lambda step: START + step + (7200 if step > 95 else 0),
            "always ahead": lambda step: START + step + 7200,
            "always behind": lambda step: START + step - 7200,
            "set back a little": lambda step: START + step - (40 if step > 95 else 0),
        },
    )
    def test_no_clock_mutes_a_log_or_repeats_it(self, stamp: Callable[[int], float]) -> None:
        log = self.polled(stamp)
        progress = log.progress(LATER)
        steps = [point.step or 0 for point in progress.losses]
        assert steps == sorted(set(steps))
        assert steps[-1] == 300
        assert len(steps) > 240, "a line or a read may be lost when a clock is set, no more"

    def test_a_speed_survives_a_line_from_the_future(self) -> None:
        (sample,) = (
            self.polled(lambda step: START + step + (7200 if step == 95 else 0))
            .progress(LATER)
            .samples
        )
        assert sample.steps_per_second == pytest.approx(1.0, rel=0.02)

    @cases("skew", {"the same clock": 0, "ahead": 7200, "behind": -7200})
    def test_a_checkpoint_is_younger_than_the_read_that_did_not_show_it(self, skew: float) -> None:
        log = ProgressLog(SYNC)
        for read_at, line in [
            (10, "step=1 loss=1"),
            (20, "step=2 loss=1"),
            (620, "step=3 loss=1 checkpoint=3"),
        ]:
            lines = [LogLine(START + read_at + skew - 1, line)]
            observe(log, lines, PodRun("r", read_at=START + read_at))
        for read_at in (630, 640):  # nothing new is printed: the checkpoint grows old
            observe(log, [], PodRun("r", read_at=START + read_at))
        assert log.progress(LATER).checkpoint_since == START + 20

    def test_another_pods_read_does_not_make_a_checkpoint_younger(self) -> None:
        log = ProgressLog(SYNC)
        log.observe("w0", Role.WORKER, 0, Counts(1, 2), [], PodRun("r", read_at=START))
        log.observe("w1", Role.WORKER, 1, Counts(1, 2), [], PodRun("r", read_at=START + 600))
        lines = [LogLine(START + 100, "step=5 loss=1 checkpoint=5")]
        log.observe("w0", Role.WORKER, 0, Counts(1, 2), lines, PodRun("r", read_at=START + 610))
        assert log.progress(LATER).checkpoint_since == START

    @cases(("stamp", "since"), {"of late": (-100, -100), "from the future": (7200, 0)})
    def test_of_the_first_read_the_kubelets_clock_gives_the_age(
        self, stamp: float, since: float
    ) -> None:
        log = ProgressLog(SYNC)
        lines = [LogLine(START + stamp, "step=5 loss=1 checkpoint=5")]
        observe(log, lines, PodRun("r", read_at=START))
        assert log.progress(LATER).checkpoint_since == START + since
