"""However many read the page, the API server is asked seldom."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from autoscaler.web.copies import JobCopy
from autoscaler.web.stored import EVENTS_BUSY, Stored, read_events
from tests.unit.autoscaler.web.sample_cluster import SampleCluster, SampleSource

JOBS: list[JobCopy] = [*SampleCluster(24).copy().jobs.values()]


@dataclass
class Reads(SampleSource):
    """Counts reads, two for a job; each waits for ``go``."""

    reads: list[str] = field(default_factory=list)
    go: threading.Event = field(default_factory=threading.Event)

    def get(
        self,
        what: str,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        read_seconds: float | None = None,
        most_bytes: int | None = None,
    ) -> bytes:
        found = super().get(what, path, query)
        self.go.wait(10)
        return found


def test_a_job_is_read_once_in_five_seconds_however_often_it_is_asked_for() -> None:
    reads, now = Reads(), [100.0]
    reads.go.set()
    jobs = Stored(partial(read_events, reads), EVENTS_BUSY, timer=lambda: now[0])
    assert len({jobs.of(JOBS[0]) for _ in range(50)}) == 1
    assert len(reads.reads) == 2
    now[0] += 5.1
    jobs.of(JOBS[0])
    assert len(reads.reads) == 4


def test_two_jobs_a_second_are_read_at_most() -> None:
    reads, now = Reads(), [100.0]
    reads.go.set()
    jobs = Stored(partial(read_events, reads), EVENTS_BUSY, timer=lambda: now[0])
    answers = [jobs.of(job) for job in JOBS]
    assert len(reads.reads) == 20
    assert answers[10:] == [EVENTS_BUSY] * 14
    now[0] += 5.1
    assert jobs.of(JOBS[20]) != EVENTS_BUSY


def test_two_silent_reads_hold_up_no_third_reader() -> None:
    reads = Reads()
    jobs = Stored(partial(read_events, reads), EVENTS_BUSY)
    silent = [threading.Thread(target=jobs.of, args=(job,)) for job in JOBS[:2]]
    for thread in silent:
        thread.start()
    while len(reads.reads) < 2:
        threading.Event().wait(0.01)
    assert jobs.of(JOBS[2]) == EVENTS_BUSY
    reads.go.set()
    for thread in silent:
        thread.join(10)
    assert jobs.of(JOBS[2]) != EVENTS_BUSY
