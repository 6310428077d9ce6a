"""What the page asks the API server for, and how seldom, however many read it."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from autoscaler.web.copies import JobCopy
from autoscaler.web.stored import BUSY, StoredEvents, StoredLogs
from optimus.cli.job_facts import JobReader
from optimus.kube.profiles import ProfileStatus
from tests.unit.autoscaler.web.sample_cluster import SampleCluster, SampleSource
from tests.unit.cli.fake_api import NOW
from tests.unit.cli.test_advise import cluster, log, ranks, without_ps

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
    jobs = StoredEvents(reads, lambda: now[0])
    assert len({jobs.of(JOBS[0]) for _ in range(50)}) == 1
    assert len(reads.reads) == 2
    now[0] += 5.1
    jobs.of(JOBS[0])
    assert len(reads.reads) == 4


def test_two_jobs_a_second_are_read_at_most() -> None:
    reads, now = Reads(), [100.0]
    reads.go.set()
    jobs = StoredEvents(reads, lambda: now[0])
    answers = [jobs.of(job) for job in JOBS]
    assert len(reads.reads) == 20
    assert answers[10:] == [BUSY] * 14
    now[0] += 5.1
    assert jobs.of(JOBS[20]) != BUSY


def test_two_silent_reads_hold_up_no_third_reader() -> None:
    reads = Reads()
    jobs = StoredEvents(reads)
    silent = [threading.Thread(target=jobs.of, args=(job,)) for job in JOBS[:2]]
    for thread in silent:
        thread.start()
    while len(reads.reads) < 2:
        threading.Event().wait(0.01)
    assert jobs.of(JOBS[2]) == BUSY
    reads.go.set()
    for thread in silent:
        thread.join(10)
    assert jobs.of(JOBS[2]) != BUSY


def test_of_a_job_without_a_goal_there_is_what_its_log_shows_and_it_is_read_once_a_minute() -> None:
    stored = without_ps()
    stored["metadata"]["annotations"] = {"optimus.dl/global-batch-size": "64"}
    api = cluster(jobs=[stored], pods=ranks(), logs={"t-master-0": log()}, missing=("mxjobs",))
    facts = JobReader(api).read("ns", "t")
    job = facts.job
    copy = JobCopy(job.key, job.uid, job.kind, 0.0, job.job, ProfileStatus(), tuple(facts.pods))
    now = [100.0]
    logs = StoredLogs(api, lambda: now[0])
    shown = logs.of(job, copy, NOW)
    for said in (
        "loss 0.6",
        "steps/s at 1 master + 3 workers",
        "its end (40 epochs",
        "other counts",
    ):
        assert any(said in line for line in shown), shown
    api.forbidden = ("pods/log",)
    assert logs.of(job, copy, NOW) == shown
    now[0] += 61
    assert logs.of(job, copy, NOW) != shown
