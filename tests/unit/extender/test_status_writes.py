"""The limits of writes to pods: one a second to each, ever rarer, none while the API throttles."""

import logging
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from extender.status_writes import StatusWrite, StatusWrites
from optimus.jobs import NodeConstraints
from optimus.kube.errors import ErrorKind
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written
from optimus.resources import NONE
from tests.cases import cases

THROTTLED = Refused(ErrorKind.THROTTLED, "too many requests")


def pod(name: str) -> Pod:
    return Pod(
        uid=name,
        namespace="ns",
        name=name,
        created_at=0.0,
        resources=NONE,
        constraints=NodeConstraints(),
    )


ON_A, ON_B = StatusWrite(pod("p"), "a"), StatusWrite(pod("p"), "b")


@dataclass
class FakeWriter:
    """Gives the answers one by one, the last one again and again."""

    answers: list[Written | Refused] = field(default_factory=lambda: [Written()])
    written: list[tuple[str, str | None]] = field(default_factory=list)

    def nominate(self, pod: Pod, node: str | None) -> Written | Refused:
        self.written.append((pod.name, node))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def requeue(self, pod: Pod, reason: str) -> Written | Refused:
        self.written.append((pod.name, reason))
        return self.answers[0]


def writes_answered(*answers: Written | Refused) -> StatusWrites:
    return StatusWrites(FakeWriter([*answers]))


def times_due(writes: StatusWrites, write: StatusWrite, until: float) -> list[float]:
    """Writes it at each tenth of a second at which it is due; when that was."""
    found = []
    for tenths in range(int(10 * until) + 1):
        now = tenths / 10
        if writes.is_due(write, now):
            writes.write_all([write], now)
            found.append(now)
    return found


def test_the_same_write_is_repeated_at_doubling_intervals() -> None:
    times = times_due(writes_answered(Written()), ON_A, 250.0)
    assert times == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]


def test_the_back_off_of_a_pod_that_nothing_was_written_to_for_long_is_reset() -> None:
    writes = writes_answered(Written())
    for now in (0.0, 1.0, 3.0, 7.0):
        writes.write_all([ON_A], now)
    writes.write_all([StatusWrite(pod("other"), "a")], 128.0)
    assert times_due_from(writes, 128.0) == [128.0, 129.0]


def times_due_from(writes: StatusWrites, begin: float) -> list[float]:
    """The first two times at which a write to the pod is due, to a second."""
    found: list[float] = []
    now = begin
    while len(found) < 2:
        if writes.is_due(ON_A, now):
            writes.write_all([ON_A], now)
            found.append(now)
        now += 1.0
    return found


def test_a_write_that_is_no_longer_wanted_is_left_out() -> None:
    writer = FakeWriter()
    writes, other = StatusWrites(writer), StatusWrite(pod("q"), "a")
    outcomes = writes.write_all([ON_A, other], 0.0, lambda write: write is other)
    assert outcomes == [None, Written()]
    assert writer.written == [("q", "a")]
    assert writes.is_due(ON_A, 0.1), "nothing was written"
    assert not writes.is_due(other, 0.1)


def test_a_requeue_says_when_so_that_its_text_changes() -> None:
    writer = FakeWriter()
    StatusWrites(writer).write_all([StatusWrite(pod("p"), reason="planned on a")], 7.25)
    ((_, text),) = writer.written
    assert text is not None
    assert text.startswith("planned on a at 7.")


class OnlyTogether(FakeWriter):
    """Answers once two writes are under way."""

    def __init__(self) -> None:
        super().__init__()
        self.both = threading.Barrier(2, timeout=60)

    def nominate(self, pod: Pod, node: str | None) -> Written | Refused:
        self.both.wait()
        return super().nominate(pod, node)


def test_writes_of_a_run_are_made_side_by_side() -> None:
    several = [StatusWrite(pod(f"p{index}"), "a") for index in range(2)]
    with ThreadPoolExecutor(2) as executor:
        writes = StatusWrites(OnlyTogether(), executor=executor)
        assert writes.write_all(several, 0.0) == [Written()] * 2
    assert not any(writes.is_due(write, 0.5) for write in several)


# --- an API server that throttles


def throttled(writes: StatusWrites, times: Iterable[float]) -> None:
    for index, now in enumerate(times):
        writes.write_all([StatusWrite(pod(f"{index} at {now}"), "a")], now)


FRESH = StatusWrite(pod("fresh"), "a")


@cases(
    ("before", "seconds"),
    {
        "for a second at first": ((0.0,), 1),
        "for two the second time": ((0.0, 10.0), 2),
        "for eight the fourth": ((0.0, 10.0, 20.0, 30.0), 8),
        "never for more than a minute": (tuple(100.0 * at for at in range(20)), 60),
    },
)
def test_no_pod_is_written_to_while_the_api_server_throttles(
    before: tuple[float, ...], seconds: float
) -> None:
    writes = writes_answered(THROTTLED)
    throttled(writes, before)
    assert not writes.is_due(FRESH, before[-1] + seconds - 0.1)
    assert writes.write_all([FRESH], before[-1] + seconds - 0.1) == [None]
    assert writes.is_due(FRESH, before[-1] + seconds + 0.1)


def test_a_time_that_the_api_server_names_is_kept() -> None:
    writes = writes_answered(Refused(ErrorKind.THROTTLED, "later", retry_after_seconds=17.0))
    writes.write_all([ON_A], 0.0)
    assert not writes.is_due(FRESH, 16.9)
    assert writes.is_due(FRESH, 17.1)


def test_what_was_under_way_as_a_pause_began_makes_it_no_longer() -> None:
    writes = writes_answered(THROTTLED)
    writes.write_all([ON_A], 0.0)
    for _ in range(5):
        writes._record(pod("under way"), THROTTLED, 0.5)
    assert writes.is_due(FRESH, 1.6), "counted from the last answer, and not doubled"


def test_a_write_that_succeeds_has_the_next_pause_begin_with_a_second() -> None:
    writes = writes_answered(THROTTLED, THROTTLED, Written(), THROTTLED)
    throttled(writes, (0.0, 10.0, 20.0, 30.0))
    assert not writes.is_due(FRESH, 30.9)
    assert writes.is_due(FRESH, 31.1)


# --- what is counted and said


@cases(
    ("outcome", "counted", "said"),
    {
        "written": (Written(), "written", False),
        "gone": (Refused(ErrorKind.NOT_FOUND, "it"), "not found", False),
        "bound meanwhile": (Refused(ErrorKind.INVALID, "it"), "invalid", False),
        "recreated": (Refused(ErrorKind.CONFLICT, "it"), "conflict", False),
        "no answer": (Refused(ErrorKind.TRANSIENT, "it"), "transient", True),
        "without the right": (Refused(ErrorKind.FORBIDDEN, "it"), "forbidden", True),
        "throttled": (THROTTLED, "throttled", True),
    },
)
def test_only_what_is_wrong_is_said_and_everything_counted(
    outcome: Written | Refused, counted: str, said: bool, caplog: pytest.LogCaptureFixture
) -> None:
    counts: list[str] = []
    writes = StatusWrites(FakeWriter([outcome]), count_write=counts.append)
    writes.write_all([ON_A], 0.0)
    assert [count.replace("_", " ") for count in counts] == [counted]
    warned = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert bool(warned) is said


def test_a_pause_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    writes = writes_answered(THROTTLED)
    for _ in range(4):
        writes._record(pod("p"), THROTTLED, 0.0)
    assert len([each for each in caplog.records if each.levelno >= logging.WARNING]) == 1
    writes._record(pod("p"), THROTTLED, 5.0)
    assert len([each for each in caplog.records if each.levelno >= logging.WARNING]) == 2
