"""Which Events the users of waiting jobs get, and how often."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest

from extender.gang_states import counts_by_state, oldest_waits
from extender.inspection import Inspector
from extender.job_events import (
    LEAST_SECONDS,
    MOST_AT_ONCE,
    REPEAT_SECONDS,
    EventReporter,
    JobNotice,
)
from extender.metrics import Metrics
from extender.notices import AFTER_SECONDS, INCOMPLETE_SECONDS, waiting_notices
from optimus.jobs import Counts, Role
from optimus.kube.errors import ErrorKind
from optimus.kube.events import NO_ANNOTATIONS, EventType, Subject
from optimus.kube.results import Refused
from tests.cases import cases
from tests.unit.extender.fake_cluster import FakeCluster

T = TypeVar("T")


def notice(name: str = "j", cause: str = "room", text: str = "", after: float = 0.0) -> JobNotice:
    return JobNotice(
        "TFJob", "ns", name, f"uid-{name}", EventType.NORMAL, "Waiting", text, cause, after
    )


@dataclass
class EmittedEvents:
    notices: list[JobNotice] = field(default_factory=list)
    events: list[tuple[str, str]] = field(default_factory=list)
    refuse: bool = False
    now: float = 0.0

    def __post_init__(self) -> None:
        self.under_test = EventReporter(self.find, self.emit)

    def find(self) -> list[JobNotice]:
        return self.notices

    def emit(
        self,
        job: Subject,
        kind: EventType,
        reason: str,
        message: str,
        annotations: Mapping[str, str] = NO_ANNOTATIONS,
    ) -> object:
        if self.refuse:
            return Refused(ErrorKind.TRANSIENT, "no answer")
        self.events.append((job.name, message))
        return None

    def look(self, seconds: float = 5.0) -> list[tuple[str, str]]:
        """The Events of so many seconds."""
        before, end = len(self.events), self.now + seconds
        while self.now < end:
            self.now += 5.0
            self.under_test.look(self.now)
        return self.events[before:]


def test_one_event_for_a_cause_whatever_its_figures() -> None:
    emitted = EmittedEvents([notice(text="4 lack a place")])
    assert emitted.look() == [("j", "4 lack a place")]
    emitted.notices = [notice(text="3 lack a place")]
    assert emitted.look(REPEAT_SECONDS - 100) == []
    assert emitted.look(200) == [("j", "3 lack a place")]


def test_what_does_not_last_is_not_reported() -> None:
    emitted = EmittedEvents([notice(after=20.0)])
    assert emitted.look(20) == []
    assert len(emitted.look(5)) == 1
    emitted = EmittedEvents([notice(after=20.0)])
    emitted.look(15)
    emitted.notices = []
    assert emitted.look(200) == []


def test_an_event_that_the_api_server_refused_is_written_later() -> None:
    emitted = EmittedEvents([notice()], refuse=True)
    emitted.look()
    emitted.refuse = False
    assert len(emitted.look()) == 1


def test_a_fault_is_logged_and_the_next_look_reports(caplog: pytest.LogCaptureFixture) -> None:
    found: list[object] = [RuntimeError("broken"), [notice()]]

    def find() -> list[JobNotice]:
        now = found.pop(0)
        if isinstance(now, Exception):
            raise now
        assert isinstance(now, list)
        return now

    emitted = EmittedEvents()
    events = EventReporter(find, emitted.emit)
    events.look(5.0)
    events.look(10.0)
    assert [record.exc_info is not None for record in caplog.records] == [True]
    assert emitted.events == [("j", "")]


def test_events_are_written_by_a_thread_of_their_own() -> None:
    emitted = EmittedEvents([notice()])
    with ThreadPoolExecutor(1) as executor:
        EventReporter(emitted.find, emitted.emit, executor).look(5.0)
    assert emitted.events == [("j", "")]


class IdleExecutor(Executor):
    """Keeps what is to be done."""

    def __init__(self) -> None:
        self.given: list[Callable[[], object]] = []

    def submit(self, act: Callable[..., T], /, *args: Any, **more: Any) -> "Future[T]":
        self.given.append(lambda: act(*args, **more))
        return Future()


def test_nobody_waits_while_events_are_being_written() -> None:
    emitted, executor = EmittedEvents([notice()]), IdleExecutor()
    events = EventReporter(emitted.find, emitted.emit, executor)
    events.look(5.0)
    events.look(50.0)
    assert len(executor.given) == 1, "the first look has not ended"
    executor.given[0]()
    events.look(55.0)
    assert len(executor.given) == 2


@cases(
    ("cause", "seconds"),
    {"another cause": ("gates", LEAST_SECONDS), "the same": ("room", REPEAT_SECONDS)},
)
def test_the_next_event_comes_once_the_time_between_two_is_over(cause: str, seconds: float) -> None:
    emitted = EmittedEvents([notice()])
    emitted.look()
    emitted.notices = [notice(cause=cause)]
    assert emitted.look(seconds - 5.0) == []
    assert len(emitted.look()) == 1


# --- Events on gangs


@dataclass
class Waiting:
    cluster: FakeCluster = field(default_factory=lambda: FakeCluster({"a": 2}))

    def notices(self) -> list[tuple[str, EventType, float]]:
        found = waiting_notices(Inspector(self.cluster.planner, 600.0).waiting(), {"uid-other"})
        return [(each.message, each.type, each.after_seconds) for each in found]

    def submit(self, name: str, cpu: int = 1) -> None:
        self.cluster.spec(name, 1, 1)
        self.cluster.job(name, 1, 1, cpu)
        self.cluster.plan()


def test_a_gang_that_waits_for_others_is_reported_without_a_warning() -> None:
    waiting = Waiting()
    waiting.submit("first")
    assert waiting.notices() == []
    waiting.submit("other")
    waiting.submit("second")
    ((message, kind, after),) = waiting.notices()
    assert message.startswith("waits: 1 PS of 0.001 cpu lacks a place")
    assert "behind ns/other" in message
    assert (kind, after) == (EventType.NORMAL, AFTER_SECONDS)


def test_an_incomplete_gang_is_reported_after_a_while() -> None:
    waiting = Waiting()
    waiting.cluster.pod("j", Role.WORKER, 0, Counts(1, 1))
    assert [after for *_, after in waiting.notices()] == [INCOMPLETE_SECONDS]


# --- metrics


def test_metrics_count_waiting_gangs_by_state_and_have_the_longest_wait_by_priority() -> None:
    waiting = Waiting()
    waiting.submit("first")
    waiting.submit("second")
    waiting.cluster.now += 10
    waiting.cluster.spec("high", 1, 1)
    waiting.cluster.job("high", 1, 1, 5, priority=7)
    waiting.cluster.plan()
    state, metrics = waiting.cluster.state, Metrics()
    metrics.watch_by("waiting_gangs", "text", "state", lambda: counts_by_state(state))
    metrics.watch_by("oldest_wait_seconds", "text", "priority", lambda: oldest_waits(state))
    text = metrics.text().decode()
    assert 'optimus_extender_waiting_gangs{state="no room"} 2.0' in text
    assert 'optimus_extender_waiting_gangs{state="planned"} 1.0' in text
    assert 'optimus_extender_waiting_gangs{state="unused"} 0.0' in text
    assert 'optimus_extender_oldest_wait_seconds{priority="0"} 10.0' in text
    assert 'optimus_extender_oldest_wait_seconds{priority="7"} 0.0' in text


def placed(cluster: FakeCluster, name: str) -> None:
    for pod in cluster.job(name, 1, 1):
        assert cluster.place(pod)
        cluster.now += 2


def test_a_wait_is_observed_once_when_the_whole_gang_is_bound() -> None:
    cluster = FakeCluster({"a": 4})
    cluster.leading.begin()
    cluster.spec("j", 1, 1)
    names = cluster.job("j", 1, 1)
    cluster.now += 7
    assert cluster.place(names[0])
    assert cluster.waits == []
    cluster.now += 2
    assert cluster.place(names[1])
    assert cluster.waits == [9.0]
    cluster.delete(names[1])
    cluster.now += 50
    cluster.place(cluster.pod("j", Role.WORKER, 0, Counts(1, 1)).name)
    assert cluster.waits == [9.0]


def test_the_wait_of_a_gang_is_not_over_when_its_pods_are_deleted_or_another_leads() -> None:
    cluster = FakeCluster({"a": 4}, leads=False)
    for name in cluster.job("j", 1, 1):
        cluster.bind(name, "a")
    assert cluster.waits == []
    cluster.leading.begin()
    cluster.delete(*cluster.job("k", 1, 1))
    one = cluster.pod("l", Role.PS, 0, Counts(1, 1))
    cluster.bind(one.name, "a")
    assert cluster.waits == []


def test_many_jobs_of_one_namespace_keep_no_other_waiting_for_its_event() -> None:
    many = [notice(f"many-{number}") for number in range(5 * MOST_AT_ONCE)]
    other = replace(notice("honest"), namespace="other")
    emitted = EmittedEvents([*many, other])
    assert "honest" in [name for name, _ in emitted.look()]
