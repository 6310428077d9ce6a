"""What moving a job has saved: against its own counts, measured or predicted."""

from dataclasses import replace

import pytest

from optimus.jobs import Batch, BatchScope, Counts, TrainingMode
from optimus.lifecycle import JobRecord
from optimus.lifecycle.books import Books, books_of
from optimus.progress.types import SpeedSample, TrainingProgress
from tests.cases import cases
from tests.unit.interval.cluster import job

OWN, LARGE = Counts(1, 2), Counts(2, 4)
MOVED = JobRecord(user_counts=OWN, stopped_seconds=40.0, redone_seconds=10.0)


def trained(*runs: tuple[Counts, float, float]) -> TrainingProgress:
    """Counts, steps per second and seconds of each run."""
    return TrainingProgress(samples=tuple(SpeedSample(*run, 0.0) for run in runs))


def test_what_it_was_faster_by_less_what_it_stood_and_did_again() -> None:
    books = books_of(job("a", OWN), MOVED, trained((OWN, 1.0, 100.0), (LARGE, 2.0, 300.0)))
    assert books == Books(OWN, 400.0, 300.0, 40.0, 10.0)
    assert books.saved_seconds == 250.0
    assert books.saved_fraction == pytest.approx(250 / 700)
    assert books.text() == "4 min 10 s sooner than at 1 PS + 2 workers"


def test_where_its_own_counts_were_not_measured_it_says_so() -> None:
    books = books_of(job("a", LARGE), MOVED, trained((LARGE, 2.0, 300.0)))
    assert books is not None
    assert books.is_predicted
    assert books.text().endswith("than at 1 PS + 2 workers, by its predicted speed there")


def test_a_step_of_more_workers_that_have_a_batch_each_counts_for_more() -> None:
    batch = Batch(32, BatchScope.WORKER, rate_follows=True)
    sync = replace(job("a", OWN), mode=TrainingMode.SYNC, batch=batch)
    runs = trained((OWN, 1.0, 100.0), (LARGE, 1.0, 100.0))
    books = books_of(sync, JobRecord(user_counts=OWN), runs)
    assert books is not None
    assert books.faster_seconds == pytest.approx(100.0)


@cases(
    ("record", "progress"),
    {
        "its own counts are not known": (JobRecord(), trained((LARGE, 1.0, 10.0))),
        "nothing was measured": (MOVED, TrainingProgress()),
        "it stands still": (MOVED, trained((OWN, 0.0, 10.0))),
    },
)
def test_there_are_none(record: JobRecord, progress: TrainingProgress) -> None:
    assert books_of(job("a", OWN), record, progress) is None


@cases(
    ("books", "text"),
    {
        "it lost": (Books(OWN, 100.0, 0.0, 40.0), "40 s later than at 1 PS + 2 workers"),
        "hours": (Books(OWN, 1e4, 7300.0), "2 h 1 min sooner than at 1 PS + 2 workers"),
        "it was not moved": (Books(OWN, 100.0), "as soon as at 1 PS + 2 workers"),
    },
)
def test_what_its_user_reads(books: Books, text: str) -> None:
    assert books.text() == text
