"""Logs are read a little at a time while a pod runs, and once more when it has ended."""

import math
from collections.abc import Iterator

from autoscaler.logs.poller import LogPoller, Run
from autoscaler.logs.poller import run_of as poller_run_of
from optimus.jobs import Counts, Role
from optimus.kube.pods import Pod
from optimus.kube.results import Refused
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.types import LogLine, LogRead
from tests.unit.autoscaler.fake_logs import (
    AT,
    TIMEOUT_SECONDS,
    Logs,
    Nodes,
    Turns,
    pod,
    progress_log,
    run_of,
    runs_on,
    wait_until,
)


def test_a_log_is_read_again_only_after_a_while(logs: Logs, poller: LogPoller) -> None:
    log, run = progress_log(), run_of(pod("a-worker-0", uid="a-worker-0-0"))
    logs.printed["a-worker-0"] = ["step=1 loss=2.0"]
    for now in (AT, AT + 5, AT + 11):
        poller.poll([(log, run)], now, timeout_seconds=TIMEOUT_SECONDS)
    assert logs.reads == ["a-worker-0-0"] * 2


def test_the_last_lines_of_a_pod_are_read_when_it_has_ended(logs: Logs, poller: LogPoller) -> None:
    log, run = progress_log(), run_of(pod("a-worker-0", uid="a-worker-0-0"))
    logs.printed["a-worker-0"] = ["step=1 loss=2.0"]
    poller.poll([(log, run)], AT, timeout_seconds=TIMEOUT_SECONDS)
    logs.printed["a-worker-0"] += ["step=2 loss=1.5", "step=2 loss=1.5 checkpoint=2"]
    for now in (AT + 1, AT + 2):
        poller.poll([], now, timeout_seconds=TIMEOUT_SECONDS)
    assert log.progress(AT + 2).checkpoint_step == 2
    assert logs.reads == ["a-worker-0-0"] * 2


def test_the_log_of_a_deleted_pod_is_requested_once(logs: Logs, poller: LogPoller) -> None:
    log, run = progress_log(), run_of(pod("a-worker-0", uid="a-worker-0-0"))
    logs.printed["a-worker-0"] = ["step=1 loss=2.0"]
    poller.poll([(log, run)], AT, timeout_seconds=TIMEOUT_SECONDS)
    logs.printed.clear()
    for now in (AT + 1, AT + 2):
        poller.poll([], now, timeout_seconds=TIMEOUT_SECONDS)
    assert log.progress(AT + 2).step == 1
    assert logs.reads == ["a-worker-0-0"] * 2


def test_the_log_of_a_pods_successor_is_a_log_of_its_own(logs: Logs, poller: LogPoller) -> None:
    log = progress_log()
    logs.printed["a-worker-0"] = ["step=7 loss=2.0"]
    poller.poll(
        [(log, run_of(pod("a-worker-0", uid="a-worker-0-0")))],
        AT,
        timeout_seconds=TIMEOUT_SECONDS,
    )
    logs.printed["a-worker-0"] = ["step=3 loss=2.5"]
    poller.poll(
        [(log, run_of(pod("a-worker-0", uid="a-worker-0-1")))],
        AT + 1,
        timeout_seconds=TIMEOUT_SECONDS,
    )
    assert log.progress(AT + 1).step == 3
    assert logs.reads == ["a-worker-0-0", "a-worker-0-1"]


def test_a_log_that_may_not_be_read_is_said_of_its_job_until_it_may_be(
    logs: Logs, poller: LogPoller
) -> None:
    log, run = progress_log(), run_of(pod("a-worker-0", node="node-00"))
    logs.printed["a-worker-0"] = ["step=1 loss=2.0"]
    logs.forbidden = True
    poller.poll([(log, run)], AT, timeout_seconds=TIMEOUT_SECONDS)
    said = log.progress(AT).diagnostic or ""
    assert f"may not read logs in the namespace {run.read[0].namespace}" in said
    assert "doctor" in said
    logs.forbidden = False
    poller.poll([(log, run)], AT + 100, timeout_seconds=TIMEOUT_SECONDS)
    assert log.progress(AT + 100).diagnostic is None
    assert log.progress(AT + 100).step == 1


def test_a_log_that_goes_on_after_a_read_is_read_again_at_the_next_poll(
    logs: Logs, poller: LogPoller
) -> None:
    log, run = progress_log(), run_of(pod("a-worker-0", uid="a-worker-0-0"))
    logs.printed["a-worker-0"] = [f"step={step} loss=2.0" for step in range(1, 8)]
    logs.most_lines = 3
    for now in (AT, AT + 1, AT + 2, AT + 3, AT + 4):
        poller.poll([(log, run)], now, timeout_seconds=TIMEOUT_SECONDS)
    assert log.progress(AT + 4).step == 7
    assert len(logs.reads) == 3


class TestBetweenPolls:
    """Readers go on while nobody polls, in the order of what matters most."""

    def test_logs_are_read_on_after_the_time_that_a_poll_waits(self, nodes: Nodes) -> None:
        runs = runs_on(*[f"node{n}" for n in range(20)])
        poller = LogPoller(nodes, readers=2, poll_seconds=10)
        poller.poll(runs, AT, timeout_seconds=0)
        wait_until(lambda: nodes.reads.total() == 20)

        def taken_in() -> bool:
            poller.poll(runs, AT + 1, timeout_seconds=0)
            return all(log.progress(AT).step == 1 for log, _ in runs)

        wait_until(taken_in)
        poller.close()
        assert nodes.reads.total() == 20

    def test_leading_pods_are_read_four_times_as_often_where_readers_are_few(
        self, nodes: Nodes
    ) -> None:
        runs = []
        for job in range(5):
            pods = [pod(f"job{job}-worker-{n}", index=n, node=f"node{job}-{n}") for n in range(5)]
            runs.append((progress_log(), Run(pods[0].uid, Counts(1, 5), tuple(pods))))
        turns = Turns(nodes)
        poller = LogPoller(turns, readers=1, poll_seconds=1)
        for tick in range(400):
            poller.poll(runs, AT + tick, timeout_seconds=0)
            turns.grant(tick + 1)
        poller.close()
        turns.over.set()
        leading = [nodes.reads[f"job{job}-worker-0"] for job in range(5)]
        others = [nodes.reads[f"job{job}-worker-{n}"] for job in range(5) for n in range(1, 5)]
        assert 3 <= min(leading) / max(others) <= max(leading) / min(others) <= 5

    def test_a_job_that_waits_for_a_checkpoint_is_read_first(self, logs: Logs) -> None:
        runs = runs_on(*[f"node{n}" for n in range(10)])
        poller = LogPoller(logs, readers=1, poll_seconds=10)
        poller.poll(runs, AT, timeout_seconds=TIMEOUT_SECONDS, awaited={runs[7][1].name})
        poller.close()
        assert logs.reads[0] == "job7-worker-0"

    def test_the_lag_is_that_of_the_leading_pod_that_waited_longest(self, nodes: Nodes) -> None:
        nodes.hanging = {"dead"}
        runs = runs_on("dead", "node")
        poller = LogPoller(nodes, readers=2, poll_seconds=10)
        assert poller.lag_seconds(AT) == 0
        poller.poll(runs[1:], AT, timeout_seconds=TIMEOUT_SECONDS)
        poller.poll(runs, AT, timeout_seconds=0.01)
        for at in (AT + 10, AT + 20):
            poller.poll(runs, at, timeout_seconds=TIMEOUT_SECONDS)
        assert poller.lag_seconds(AT + 25) == 25
        poller.poll(runs[1:], AT + 30, timeout_seconds=TIMEOUT_SECONDS)
        assert poller.lag_seconds(AT + 31) == 1
        poller.close()


class Printing:
    """A pod that prints ten lines a second; a read has sixty at most."""

    most_lines = 60

    def __init__(self) -> None:
        self.now = AT
        self.lines_per_second = 10
        self.asked: list[int | None] = []

    def read(
        self, pod: Pod, *, since: float | None = None, last_lines: int | None = None
    ) -> LogRead | Refused:
        del pod
        self.asked.append(last_lines)
        first = math.ceil(((AT if since is None else since) - AT) * self.lines_per_second)
        last = int((self.now - AT) * self.lines_per_second)
        steps = range(first, last + 1)
        cut = steps[: self.most_lines] if last_lines is None else steps[-last_lines:]
        lines = [LogLine(AT + n / self.lines_per_second, f"step={n + 1} loss=2") for n in cut]
        if last_lines is None:
            return LogRead(lines, truncated=len(cut) < len(steps))
        return LogRead(lines, skipped=len(cut) < len(steps))


class TestTooLargeLogs:
    """Of a log that prints more than can be read only the end is."""

    @staticmethod
    def _polls(printing: Printing, until: float) -> ProgressLog:
        log, run = progress_log(), run_of(pod("a-worker-0", uid="a-worker-0-0"))
        poller = LogPoller(printing, readers=1, poll_seconds=10)
        while printing.now < AT + until:
            poller.poll([(log, run)], printing.now, timeout_seconds=TIMEOUT_SECONDS)
            printing.now += 7.0
        poller.close()
        return log

    @staticmethod
    def _seconds_read(printing: Printing, log: ProgressLog) -> float:
        return (log.progress(printing.now).step or 0) / printing.lines_per_second

    def test_its_end_is_read_once_it_is_behind_for_long_and_gets_further_behind(self) -> None:
        printing = Printing()
        log = self._polls(printing, until=60)
        assert printing.asked[:5] == [None] * 5
        assert set(printing.asked[7:]) == {500}
        assert self._seconds_read(printing, log) > printing.now - AT - 22

    def test_what_is_passed_over_is_known(self) -> None:
        printing = Printing()
        printing.lines_per_second = 100
        log = self._polls(printing, until=60)
        assert log.progress(printing.now).is_too_large

    def test_a_long_log_that_is_caught_up_with_is_read_to_its_end(self) -> None:
        printing = Printing()
        printing.now, printing.lines_per_second = AT + 1000, 1
        log = self._polls(printing, until=1300)
        assert set(printing.asked) == {None}
        assert self._seconds_read(printing, log) > printing.now - AT - 22
        assert not log.progress(printing.now).is_too_large

    def test_whether_it_has_become_smaller_is_seen_after_a_while(self) -> None:
        printing = Printing()
        self._polls(printing, until=800)
        first_end = printing.asked.index(500)
        assert None in printing.asked[first_end:]


def test_lines_beyond_a_jobs_budget_are_taken_in_at_later_polls_and_delay_no_other(
    logs: Logs,
) -> None:
    """A job whose lines take all the time that there is, beside one with a single line."""
    slow, quick = runs_on("node-0", "node-1")
    for _, run in (slow, quick):
        logs.printed[run.pods[0].name] = ["step=1 loss=2"]
    endless = Endless()
    poller = LogPoller(logs, readers=1, poll_seconds=10)
    for _ in range(3):
        poller.poll([(endless, slow[1]), quick], AT, timeout_seconds=TIMEOUT_SECONDS)
    poller.close()
    assert quick[0].progress(AT).step == 1
    assert logs.reads.count("job0-worker-0") == 1  # not on, before its lines are taken in


def test_large_reads_do_not_pile_up_and_small_ones_are_taken_in_all_the_same(logs: Logs) -> None:
    logs.most_lines = 600
    runs = runs_on(*(f"node-{number}" for number in range(81)))
    for _, run in runs:
        logs.printed[run.pods[0].name] = ["step=1 loss=2" + 1000 * " "] * 600
    small, run = runs[80]
    logs.printed[run.pods[0].name] = ["step=7 loss=2"]
    large = [(Endless(), run) for _, run in runs[:80]]
    poller = LogPoller(logs, readers=1, poll_seconds=10)
    for _ in range(5):
        poller.poll([*large, (small, run)], AT, timeout_seconds=TIMEOUT_SECONDS)
    assert 30 * 2**20 < poller._intake._memory.total() <= 32 * 2**20
    assert small.progress(AT).step == 7
    poller.close()


class Endless(ProgressLog):
    """A log of which each line takes time, and that has no end."""

    def __init__(self) -> None:
        super().__init__(LogFormatOptions())

    def observing(self, *_: object) -> Iterator[None]:
        while True:
            yield


def test_a_large_read_has_room_beside_any_number_of_small_ones_that_wait(logs: Logs) -> None:
    """Of jobs that print too much the last lines are read: these fill no room of long logs."""
    logs.most_lines = 600
    runs = runs_on(*(f"node-{number}" for number in range(81)))
    for _, run in runs[:80]:
        logs.printed[run.pods[0].name] = ["step=1 loss=2"] * 500
    small = [(Endless(), run) for _, run in runs[:80]]
    long, run = runs[80]
    poller = LogPoller(logs, readers=1, poll_seconds=10)
    for _ in range(3):
        poller.poll([*small, (long, run)], AT, timeout_seconds=TIMEOUT_SECONDS)
    logs.printed[run.pods[0].name] = [f"step={step} loss=2" for step in range(1, 601)]
    for number in range(1, 81):
        poller.poll([*small, (long, run)], AT + 10 * number, timeout_seconds=0.5)
        if long.progress(AT).step is not None:
            break
    assert long.progress(AT).step is not None
    poller.close()


def test_an_evaluators_log_is_read_beside_the_trainers() -> None:
    chief, evaluator = (
        pod(f"a-{role.value}-0", role=role, node="n") for role in (Role.CHIEF, Role.EVALUATOR)
    )
    run = poller_run_of([evaluator, chief], Counts(1, 0), {})
    assert run is not None
    assert (run.pods, run.read) == ((chief,), (chief, evaluator))
    assert poller_run_of([evaluator], Counts(1, 0), {}) is None
