"""What a rescale that has ended leaves in its job's record."""

from dataclasses import replace
from typing import Any

from optimus.jobs import NO_COUNTS, Counts
from optimus.lifecycle import JobRecord
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.record import rescale_ended
from optimus.rescale.words import End, Outcome, PauseReason, RescaleRecord, Step
from tests.cases import cases

SMALL, LARGE = Counts(1, 2), Counts(2, 3)
RECORD = RescaleRecord("1", 0.0, SMALL, LARGE, "", Step.VERIFY, 0.0)


def ended(outcome: Outcome = Outcome.REACHED, **fields: Any) -> End:
    return End(outcome, replace(RECORD, **fields), "")


@cases(
    ("end", "rescales", "moves"),
    {
        "a growing job": (ended(), 1, (50.0,)),
        "it only gives capacity away": (ended(before=LARGE, target=SMALL), 1, ()),
        "it did not begin": (ended(Outcome.ABANDONED), 0, ()),
        "a recovery": (ended(purpose=RescalePurpose.RECOVERY), 0, ()),
        "a slow worker": (ended(before=LARGE, purpose=RescalePurpose.STRAGGLER), 1, (50.0,)),
    },
)
def test_what_counts_as_a_rescale(end: End, rescales: int, moves: tuple[float, ...]) -> None:
    record = rescale_ended(JobRecord(), end, 50.0)
    assert (record.rescales, record.moves) == (rescales, moves)
    assert record.last_rescaled_at == (50.0 if rescales else None)


def test_a_profiling_run_is_a_move_that_no_cooldown_follows() -> None:
    record = rescale_ended(JobRecord(), ended(purpose=RescalePurpose.PROFILING), 50.0)
    assert (record.rescales, record.moves, record.last_rescaled_at) == (1, (), None)


def test_what_rescales_cost_is_summed_up_and_the_last_prices_are_kept() -> None:
    record = JobRecord()
    for price in range(1, 12):
        end = replace(ended(), price_seconds=10.0 + price, redone_seconds=4.0)
        record = rescale_ended(record, end, 50.0)
    assert record.prices == tuple(6.0 + price for price in range(3, 12)), "without what is redone"
    assert (record.stopped_seconds, record.redone_seconds) == (132.0, 44.0)


def test_a_pause_is_counted_apart() -> None:
    pause = ended(Outcome.PAUSED, target=NO_COUNTS, pause=PauseReason.POLICY)
    record = rescale_ended(JobRecord(), pause, 50.0)
    assert (record.pauses, record.rescales, record.last_rescaled_at) == (1, 0, None)
