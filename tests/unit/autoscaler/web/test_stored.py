"""However many read the page, the API server is asked seldom."""

import threading
from dataclasses import dataclass, field

from autoscaler.web.copies import JobCopy
from autoscaler.web.stored import BUSY, StoredJobs
from optimus.jobs import JobKey
from optimus.kube.job_display import StoredJobText
from optimus.kube.job_events import DisplayedJob
from tests.unit.autoscaler.web.sample_cluster import SampleCluster

JOBS: list[JobCopy] = [*SampleCluster(24).copy().jobs.values()]


@dataclass
class Reads:
    """Counts reads; each waits for ``go``."""

    keys: list[JobKey] = field(default_factory=list)
    go: threading.Event = field(default_factory=threading.Event)

    def read(self, job: DisplayedJob) -> StoredJobText:
        self.keys.append(job.key)
        self.go.wait(10)
        return StoredJobText(yaml=f"{job.kind} {job.uid}")


def test_a_job_is_read_once_in_five_seconds_however_often_it_is_asked_for() -> None:
    reads, now = Reads(), [100.0]
    reads.go.set()
    jobs = StoredJobs(reads, lambda: now[0])
    texts = [jobs.of(JOBS[0]).yaml for _ in range(50)]
    assert (len(reads.keys), set(texts)) == (1, {f"{JOBS[0].kind} {JOBS[0].uid}"})
    now[0] += 5.1
    jobs.of(JOBS[0])
    assert len(reads.keys) == 2


def test_two_jobs_a_second_are_read_at_most() -> None:
    reads, now = Reads(), [100.0]
    reads.go.set()
    jobs = StoredJobs(reads, lambda: now[0])
    answers = [jobs.of(job) for job in JOBS]
    assert len(reads.keys) == 10
    assert answers[10:] == [BUSY] * 14
    now[0] += 5.1
    assert jobs.of(JOBS[20]) != BUSY


def test_two_silent_reads_hold_up_no_third_reader() -> None:
    reads = Reads()
    jobs = StoredJobs(reads)
    silent = [threading.Thread(target=jobs.of, args=(job,)) for job in JOBS[:2]]
    for thread in silent:
        thread.start()
    while len(reads.keys) < 2:
        threading.Event().wait(0.01)
    assert jobs.of(JOBS[2]) == BUSY
    reads.go.set()
    for thread in silent:
        thread.join(10)
    assert jobs.of(JOBS[2]) != BUSY
