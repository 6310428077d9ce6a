"""What the record of a job keeps of its rescales, of what it received and of what it cost."""

from typing import Any

from optimus.jobs import NO_COUNTS, Counts
from optimus.lifecycle import (
    EndedRescale,
    JobRecord,
    received_until,
    rescale_ended,
    service_began,
    service_ended,
)
from tests.cases import cases

SMALL, LARGE = Counts(1, 2), Counts(2, 3)


def ended(**fields: Any) -> EndedRescale:
    known = {"at": 50.0, "before": SMALL, "target": LARGE, "happened": True, "reached": True}
    return EndedRescale(**{**known, **fields})


def test_what_a_job_received_is_divided_among_its_workers_kinds_of_nodes() -> None:
    record = service_began(JobRecord(), 100.0, {"old": 1, "new": 3})
    assert received_until(record, 140.0).by_kind == {"old": 10.0, "new": 30.0}
    record = service_ended(record, 140.0)
    assert received_until(record, 1000.0).seconds == 40.0
    record = service_began(record, 200.0, {"new": 2})
    received = received_until(record, 210.0)
    assert (received.seconds, received.by_kind) == (50.0, {"old": 10.0, "new": 40.0})
    assert record.began_at == 100.0


def test_a_job_that_holds_nothing_receives_nothing() -> None:
    assert received_until(JobRecord(), 100.0).seconds == 0.0
    assert service_ended(JobRecord(), 100.0) == JobRecord()


@cases(
    ("end", "rescales", "moves"),
    {
        "a growing job": (ended(), 1, (50.0,)),
        "it only gives capacity away": (ended(before=LARGE, target=SMALL), 1, ()),
        "it did not begin": (ended(happened=False, reached=False), 0, ()),
        "a profiling run": (ended(is_counted=False, is_chosen=False), 0, ()),
        "a slow worker": (ended(before=LARGE, target=LARGE, replaces=True), 1, (50.0,)),
    },
)
def test_what_counts_as_a_rescale(
    end: EndedRescale, rescales: int, moves: tuple[float, ...]
) -> None:
    record = rescale_ended(JobRecord(), end)
    assert (record.rescales, record.moves) == (rescales, moves)
    assert record.last_rescaled_at == (50.0 if rescales else None)


def test_what_rescales_cost_is_summed_up_and_the_last_prices_are_kept() -> None:
    record = JobRecord()
    for price in range(1, 12):
        record = rescale_ended(record, ended(price_seconds=10.0 + price, redone_seconds=4.0))
    assert record.prices == tuple(6.0 + price for price in range(3, 12)), "without what is redone"
    assert (record.stopped_seconds, record.redone_seconds) == (132.0, 44.0)


def test_a_pause_is_counted_apart() -> None:
    pause = ended(target=NO_COUNTS, reached=False, is_counted=False, is_pause=True)
    record = rescale_ended(JobRecord(), pause)
    assert (record.pauses, record.rescales, record.last_rescaled_at) == (1, 0, None)
