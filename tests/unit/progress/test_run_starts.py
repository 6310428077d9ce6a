"""Where a run goes on, compared with where the one before it was stopped."""

from collections.abc import Sequence

from optimus.jobs import Counts, Role
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.types import RunStart
from tests.cases import cases
from tests.unit.progress.jobs import START, stamped


def line(step: int, checkpoint: int | None = None) -> str:
    return f"step={step} loss=1" if checkpoint is None else f"step={step} checkpoint={checkpoint}"


def start_of(before: Sequence[str], first: int) -> RunStart | None:
    """What is made of a run whose first line has this step, after a run that printed these."""
    log = ProgressLog(LogFormatOptions())
    for run, texts in (("one", before), ("two", [line(first)])):
        stamps = stamped(texts, start=START + 1000 * (run == "two"))
        log.observe("worker-0", Role.WORKER, 0, Counts(1, 2), stamps, run)
    return log.progress(START + 2000).run_start


@cases(
    ("before", "first", "saved", "lost"),
    {
        "at the checkpoint before": ([line(300, 300), line(370), line(380)], 310, False, True),
        "beyond what was printed": ([line(300, 300), line(370), line(380)], 386, True, False),
        "at the step printed last": ([line(300, 300), line(370), line(380)], 380, True, False),
        "it never saved, and begins again": ([line(370), line(380)], 1, False, True),
        "it never saved, and goes on": ([line(370), line(380)], 381, True, False),
        "only one line since the checkpoint": ([line(300, 300), line(310)], 311, False, False),
        "at the next checkpoint, printed after the last read": (
            [line(200, 200), line(300, 300), line(380), line(395)],
            401,
            False,
            False,
        ),
        "long before the next checkpoint": (
            [line(200, 200), line(300, 300), line(330), line(340)],
            346,
            True,
            False,
        ),
    },
)
def test_what_a_stop_lost(before: Sequence[str], first: int, saved: bool, lost: bool) -> None:
    start = start_of(before, first)
    assert start is not None
    assert (start.saved, start.lost) == (saved, lost)


@cases(
    ("before", "first", "step"),
    {
        "it begins again": ([line(100, 100), line(200, 200), line(250)], 1, 200),
        "before its only checkpoint": ([line(100, 100), line(150)], 10, 100),
        "it goes on": ([line(100, 100), line(200, 200), line(250)], 201, None),
        "from an older checkpoint": ([line(100, 100), line(200, 200), line(250)], 100, None),
        "nothing was saved": ([line(100), line(150)], 1, None),
    },
)
def test_which_checkpoint_was_not_loaded(
    before: Sequence[str], first: int, step: int | None
) -> None:
    start = start_of(before, first)
    assert start is not None
    assert start.unloaded_step == step


def test_without_steps_nothing_is_known() -> None:
    log = ProgressLog(LogFormatOptions())
    for run in ("one", "two"):
        lines = stamped(
            ["epoch=1 loss=0.5", "epoch=2 loss=0.4"], start=START + 100 * (run == "two")
        )
        log.observe("worker-0", Role.WORKER, 0, Counts(1, 2), lines, run)
    assert log.progress(START + 200).run_start is None
