"""A checkpoint that is read late is not taken for a fresh one."""

from optimus.jobs import Counts, Role
from optimus.progress.log import ProgressLog
from optimus.progress.types import LogLine, PodRun
from tests.cases import cases
from tests.unit.progress.jobs import START
from tests.unit.progress.reads import LATER, SYNC

COUNTS = Counts(1, 2)


def line(second: float, **more: object) -> LogLine:
    rest = "".join(f" {name}={value}" for name, value in more.items())
    return LogLine(START + second, f"step={int(second) + 1} loss=1{rest}")


def take(
    log: ProgressLog, read_at: float, *lines: LogLine, truncated: bool = False, index: int = 0
) -> float | None:
    """Observe a read of a worker's log; returns since when the checkpoint is known to be."""
    run = PodRun("r", read_at=START + read_at, truncated=truncated)
    log.observe(f"w{index}", Role.WORKER, index, COUNTS, lines, run)
    return log.progress(LATER).checkpoint_since


def test_no_checkpoint_is_fresh_while_the_log_goes_on_after_the_read() -> None:
    log = ProgressLog(SYNC)
    assert take(log, 3590, line(0), truncated=True) is None
    assert take(log, 3600, line(1, checkpoint=1), truncated=True) is None
    assert take(log, 3610, line(2), truncated=True) is None


def test_once_the_log_is_read_to_its_end_the_newest_line_gives_the_age() -> None:
    log = ProgressLog(SYNC)
    take(log, 3590, line(0), truncated=True)
    take(log, 3600, line(1, checkpoint=1), truncated=True)
    assert take(log, 3610, line(2), line(3605)) == START + 3610 - 3604


@cases("skew", {"the same clock": 0, "ahead": 7200, "behind": -7200})
def test_a_log_that_could_not_be_read_for_an_hour_shows_an_old_checkpoint(skew: float) -> None:
    log = ProgressLog(SYNC)
    take(log, 0, line(skew))
    # The node did not answer until now; the reads before brought nothing.
    assert take(log, 3590) is None
    late = line(skew + 10, checkpoint=10), line(skew + 3599)
    assert take(log, 3600, *late) == START + 3600 - 3589


def test_a_pod_that_is_read_behind_does_not_hide_the_checkpoint_of_another() -> None:
    log = ProgressLog(SYNC)
    take(log, 0, line(0))
    take(log, 10, line(9, checkpoint=9))
    assert take(log, 11, line(1), truncated=True, index=1) == START


def test_a_restored_log_knows_that_it_is_behind() -> None:
    log = ProgressLog(SYNC)
    take(log, 10, line(9, checkpoint=9), truncated=True)
    restored = ProgressLog.from_state(SYNC, log.to_state())
    assert restored.progress(LATER).checkpoint_since is None
    assert take(restored, 20, line(15)) == START + 10 - 1
