"""Reading a log in bounds, from a node's agent in miniature: whole seconds, so many bytes, the
oldest lines first."""

import math
from typing import cast

from optimus.jobs import Counts, NodeConstraints, Role
from optimus.kube.client import Client
from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.logs import LIMIT_BYTES, READ_SECONDS, TAIL_LINES, LogReader
from optimus.kube.pods import Pod
from optimus.kube.results import Refused
from optimus.kube.times import format_instant, parse_instant
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.types import LogLine
from optimus.resources import Resources
from tests.cases import cases

AT = 1_800_000_000.0
POD = Pod(
    uid="u",
    namespace="team",
    name="a-worker-0",
    created_at=AT,
    resources=Resources(pods=1),
    constraints=NodeConstraints(),
)


class Agent:
    """What a container has printed; answers as a kubelet does."""

    def __init__(self, *lines: LogLine) -> None:
        self.lines = list(lines)
        self.waits: list[float | None] = []
        self.asked: list[dict[str, str]] = []
        self.fails_after: int | None = None

    def get(
        self, what: str, path: str, query: list[tuple[str, str]], read_seconds: float | None = None
    ) -> bytes:
        self.waits.append(read_seconds)
        if self.fails_after is not None and len(self.waits) > self.fails_after:
            raise KubeError(ErrorKind.TRANSIENT, f"cannot {what}: no answer")
        asked = dict(query)
        self.asked.append(asked)
        since = math.floor(parse_instant(asked["sinceTime"])) if "sinceTime" in asked else -math.inf
        last = self.lines[-int(asked["tailLines"]) :] if "tailLines" in asked else self.lines
        text = "".join(
            f"{format_instant(line.at)} {line.text}\n" for line in last if line.at >= since
        )
        return text.encode()[: int(asked["limitBytes"])]

    def reader(self, limit_bytes: int = 1000) -> LogReader:
        return LogReader(cast("Client", self), limit_bytes)


def poll(agent: Agent, log: ProgressLog, *, times: int) -> None:
    reader = agent.reader()
    for _ in range(times):
        read = reader.read(POD, since=log.next_since(POD.name))
        assert not isinstance(read, Refused)
        log.observe(POD.name, Role.WORKER, 0, Counts(1, 1), read.lines, "run")


@cases(
    "flood",
    {
        "many lines": [LogLine(AT + 1 + n / 1000, f"row {n} of a matrix") for n in range(100)],
        "one line larger than a read": [LogLine(AT + 1, "x" * 5000)],
        "the same line again and again": [LogLine(AT + 1.5, "the same row") for _ in range(100)],
    },
)
def test_more_in_a_second_than_a_read_holds_does_not_end_the_reading(flood: list[LogLine]) -> None:
    later = [LogLine(AT + 2 + n, f"step={n} loss=1") for n in range(20)]
    log = ProgressLog(LogFormatOptions())
    poll(Agent(LogLine(AT, "step=0 loss=2"), *flood, *later), log, times=6)
    assert log.progress(AT + 100).step == 19


def test_a_log_that_ends_with_such_a_second_goes_on_when_more_is_printed() -> None:
    log, agent = (
        ProgressLog(LogFormatOptions()),
        Agent(*(LogLine(AT + n / 1000, f"row {n} of a matrix") for n in range(100))),
    )
    poll(agent, log, times=5)
    agent.lines.append(LogLine(AT + 60, "step=7 loss=1"))
    poll(agent, log, times=1)
    assert log.progress(AT + 100).step == 7


def test_a_full_read_that_brings_something_new_is_not_skipped_over() -> None:
    agent = Agent(*(LogLine(AT + n / 10, f"line {n} of a log") for n in range(100)))
    read = agent.reader().read(POD, since=AT)
    assert not isinstance(read, Refused)
    assert len(agent.waits) == 1
    assert read.lines == agent.lines[: len(read.lines)]


@cases(
    ("printed", "since", "truncated"),
    {
        "all of it": (10, None, False),
        "the first part of it": (100, None, True),
        "a part of what is new": (100, AT, True),
        "its end": (100, AT + 9, False),
    },
)
def test_a_read_says_whether_the_log_goes_on(
    printed: int, since: float | None, truncated: bool
) -> None:
    agent = Agent(*(LogLine(AT + n / 10, f"line {n} of a log") for n in range(printed)))
    read = agent.reader().read(POD, since=since)
    assert not isinstance(read, Refused)
    assert read.truncated is truncated


def test_no_line_is_passed_over_where_more_came_than_the_last_lines_asked_for() -> None:
    agent = Agent(*(LogLine(AT + n // 1000, f"line {n}") for n in range(TAIL_LINES + 2000)))
    read = agent.reader(LIMIT_BYTES).read(POD, since=AT + 1)
    assert not isinstance(read, Refused)
    assert [line.text for line in read.lines] == [line.text for line in agent.lines[1000:]]


def test_only_the_end_of_a_long_log_is_searched() -> None:
    agent = Agent(*(LogLine(AT + n, f"line {n}") for n in range(2 * TAIL_LINES)))
    read = agent.reader(LIMIT_BYTES).read(POD, since=AT + 2 * TAIL_LINES - 3)
    assert not isinstance(read, Refused)
    assert [line.at for line in read.lines] == [line.at for line in agent.lines[-3:]]
    assert [asked.get("tailLines") for asked in agent.asked] == [str(TAIL_LINES)]


@cases(
    ("printed", "since", "skipped"),
    {
        "all of it": (8, AT, False),
        "as many as asked for, from the last known line on": (10, AT, False),
        "the last ones": (30, AT, True),
        "the last ones of a log that was not read yet": (30, None, True),
        "those since then": (30, AT + 3, False),
    },
)
def test_the_last_lines_are_returned_and_whether_there_are_more_before_them(
    printed: int, since: float | None, skipped: bool
) -> None:
    agent = Agent(*(LogLine(AT + n / 8, f"line {n}") for n in range(printed)))
    read = agent.reader().read(POD, since=since, last_lines=10)
    assert not isinstance(read, Refused)
    begin = 0 if since is None else math.floor(since)
    expected = [line for line in agent.lines if line.at >= begin][-10:]
    assert (read.lines, read.truncated) == (expected, False)
    assert read.skipped is skipped


def test_a_second_of_which_a_part_was_passed_over_is_known() -> None:
    lines = [LogLine(AT + 1.5, "the same row") for _ in range(100)]
    later = LogLine(AT + 3, "step=3 loss=1")
    read = Agent(*lines, later).reader().read(POD, since=AT + 1.5)
    assert not isinstance(read, Refused)
    assert read.lines[-1] == later
    assert read.skipped


def test_an_agent_that_is_silent_is_not_waited_for_as_long_as_the_api_server() -> None:
    agent = Agent()
    agent.reader().read(POD)
    assert agent.waits == [READ_SECONDS]
