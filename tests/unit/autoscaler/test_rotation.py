"""The logs of all workers, read in rotation."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec
import pytest

from autoscaler.logs.rotation import WorkerRotation
from optimus.jobs import Role
from optimus.kube.errors import ErrorKind
from optimus.kube.pods import ContainerState, Pod
from optimus.kube.results import Refused
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.stragglers import StragglerConfig
from optimus.progress.types import LogLine, LogRead
from tests.unit.autoscaler.fake_logs import TIMEOUT_SECONDS, pod

AT = 10_000.0
CONFIG = StragglerConfig(windows=3, window_seconds=60.0)
OPTIONS = LogFormatOptions()


@dataclass
class Workers:
    """Jobs of some workers, each of which prints its speed every ten seconds."""

    sizes: dict[str, int]
    now: float = AT
    started_at: float = 1.0
    reads: list[tuple[str, float | None]] = field(default_factory=list)
    truncated: bool = False
    restarts: int = 0
    refuses: bool = False
    breaks: bool = False
    may_answer: threading.Event = field(default_factory=threading.Event)
    seconds_per_look: float = 0.0
    """CPU time that passes from one look at it to the next."""
    cpu_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.may_answer.set()
        self.rotation = WorkerRotation(self, CONFIG, ThreadPoolExecutor(2), self.cpu_time)

    def cpu_time(self) -> float:
        self.cpu_seconds += self.seconds_per_look
        return self.cpu_seconds

    def pods_of(self, job_uid: str) -> list[Pod]:
        return [self.worker(job_uid, index) for index in range(self.sizes[job_uid])]

    def worker(self, job_uid: str, index: int) -> Pod:
        state = ContainerState(started_at=self.started_at, restarts=self.restarts)
        made = pod(f"{job_uid}-worker-{index}", index=index, node=f"n{index}")
        return msgspec.structs.replace(made, container=state)

    def read(
        self, pod: Pod, *, since: float | None = None, last_lines: int | None = None
    ) -> LogRead | Refused:
        self.reads.append((pod.name, since))
        assert self.may_answer.wait(TIMEOUT_SECONDS)
        if self.refuses:
            return Refused(ErrorKind.TRANSIENT, "no answer")
        if self.breaks:
            raise RuntimeError("this log breaks its reader")
        assert since is not None
        first = int(since // 10) * 10
        lines = [
            LogLine(at, f"step={at} loss=1 samples_per_sec=50")
            for at in range(first, int(self.now), 10)
        ]
        return LogRead(lines[:3] if self.truncated else lines, self.truncated)

    def step(self, seconds: float = 2.0) -> set[str]:
        self.now += seconds
        jobs = dict.fromkeys(self.sizes, OPTIONS)
        complete = set(self.rotation.step(jobs, self.pods_of, self.now))
        if self.may_answer.is_set():
            wait([read.answer for read in self.rotation._under_way])
        return complete

    def windows(self, job_uid: str) -> list[int]:
        """How many windows there are of each worker."""
        compared = self.rotation.compared(job_uid, self.pods_of(job_uid), {})
        return [len(each.log.speeds) for each in compared]


def test_each_worker_is_read_once_in_a_window_where_there_are_few() -> None:
    cluster = Workers({"a": 3, "b": 4})
    for _ in range(30):
        cluster.step()
    assert Counter(name for name, _ in cluster.reads) == dict.fromkeys(
        (*(f"a-worker-{n}" for n in range(3)), *(f"b-worker-{n}" for n in range(4))), 1
    )
    for _ in range(60):
        cluster.step()
    assert set(Counter(name for name, _ in cluster.reads).values()) == {3}
    assert cluster.windows("a") == [3] * 3


def test_reads_do_not_grow_with_the_cluster() -> None:
    cluster = Workers({f"j{number}": 8 for number in range(100)})
    for _ in range(200):
        before = len(cluster.reads)
        cluster.step()
        assert len(cluster.reads) - before <= 4
    assert Counter(name for name, _ in cluster.reads).total() == 800
    assert set(Counter(name for name, _ in cluster.reads).values()) == {1}, "job after job"


def test_a_new_job_does_not_wait_for_the_next_window_of_others() -> None:
    cluster = Workers({"a": 3})
    for _ in range(3):
        cluster.step()
    cluster.sizes["b"] = 3
    cluster.step()
    assert [name for name, _ in cluster.reads[3:]] == [f"b-worker-{n}" for n in range(3)]


def test_nodes_that_do_not_answer_take_no_more_than_the_reads_of_one_tick() -> None:
    cluster = Workers({"a": 9})
    cluster.may_answer.clear()
    for _ in range(10):
        cluster.step()
    assert len(cluster.rotation._under_way) == 4
    cluster.may_answer.set()
    for _ in range(10):
        cluster.step()
    assert len(cluster.reads) == 9


def test_logs_that_take_long_are_taken_in_one_in_a_tick() -> None:
    cluster = Workers({"a": 9})
    cluster.step()
    cluster.seconds_per_look = 1.0
    begun = []
    for _ in range(3):
        before = len(cluster.reads)
        cluster.step()
        begun.append(len(cluster.reads) - before)
    assert begun == [1, 1, 1]


def test_the_jobs_of_which_a_window_is_complete_are_named() -> None:
    cluster = Workers({"a": 3, "b": 3})
    named = [cluster.step() for _ in range(5)]
    assert set().union(*named) == {"a", "b"}
    assert named[0] == set()


def test_the_first_window_begins_after_the_warm_up() -> None:
    cluster = Workers({"a": 1}, started_at=AT)
    while cluster.now < AT + 59:
        cluster.step()
    assert not cluster.reads, "it is still warming up"
    while not cluster.windows("a")[0]:
        cluster.step()
    assert {since for _, since in cluster.reads} == {AT + 60}


def test_of_a_job_that_has_run_for_long_the_last_lines_are_read() -> None:
    cluster = Workers({"a": 1}, started_at=AT - 50_000)
    cluster.step()
    assert cluster.reads == [("a-worker-0", AT + 2 - 60)]


def test_each_read_begins_where_the_one_before_ended() -> None:
    cluster = Workers({"a": 1})
    for _ in range(90):
        cluster.step()
    sinces = [since for _, since in cluster.reads if since is not None]
    assert len(sinces) == 3
    assert all(50 <= after - before <= 70 for before, after in pairwise(sinces))


def test_a_log_that_prints_more_than_is_read_is_not_read_ever_later() -> None:
    cluster = Workers({"a": 1}, truncated=True)
    for _ in range(200):
        cluster.step()
    _, since = cluster.reads[-1]
    assert since is not None
    assert since >= cluster.now - 2 * 62


def test_after_a_long_time_without_a_read_only_the_last_windows_are_read() -> None:
    cluster = Workers({"a": 1})
    cluster.step()
    cluster.step(5_000.0)
    assert cluster.reads[-1] == ("a-worker-0", cluster.now - 600)


def test_a_restarted_container_begins_with_its_warm_up() -> None:
    cluster = Workers({"a": 1})
    for _ in range(90):
        cluster.step()
    assert cluster.windows("a") == [3]
    cluster.restarts, restarted_at = 1, cluster.now
    while cluster.windows("a") == []:
        cluster.step()
    assert cluster.windows("a") == [0]
    while cluster.windows("a") == [0]:
        cluster.step()
    assert cluster.now >= restarted_at + 60
    assert len(cluster.rotation._rounds["a"].speeds) == 1, "the process before is forgotten"


@pytest.mark.parametrize("fault", ["refuses", "breaks"])
def test_a_log_that_cannot_be_read_costs_the_others_nothing(fault: str) -> None:
    cluster = Workers({"a": 3})
    setattr(cluster, fault, True)
    assert not any(cluster.step() for _ in range(100))
    setattr(cluster, fault, False)
    assert any(cluster.step() for _ in range(60))


def test_other_roles_and_pods_that_do_not_run_are_not_read() -> None:
    cluster = Workers({"a": 1})
    ps = pod("a-ps-0", role=Role.PS, node="n0")
    pending = pod("a-worker-9", index=9)
    pods = [ps, pending, *cluster.pods_of("a")]
    cluster.rotation.step({"a": OPTIONS}, lambda _: pods, cluster.now)
    wait([read.answer for read in cluster.rotation._under_way])
    assert [name for name, _ in cluster.reads] == ["a-worker-0"]


def test_a_job_that_is_not_to_be_read_any_more_is_forgotten() -> None:
    cluster = Workers({"a": 3, "b": 3})
    for _ in range(5):
        cluster.step()
    del cluster.sizes["a"]
    cluster.step()
    cluster.sizes["a"] = 3
    assert cluster.windows("a") == []
    assert cluster.windows("b") == [1] * 3
