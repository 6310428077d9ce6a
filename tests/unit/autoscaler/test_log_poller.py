"""Logs are read a little at a time while a pod runs, and once more when it has ended."""

import math
from collections.abc import Sequence

import msgspec

from autoscaler.logs.poller import JobRun, LogPoller
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
        [(log, run_of(pod("a-worker-0", uid="a-worker-0-0")))], AT, timeout_seconds=TIMEOUT_SECONDS
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
            runs.append((progress_log(), JobRun(pods[0].uid, Counts(1, 5), tuple(pods))))
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


class CostlyLog(ProgressLog):
    """A log that takes so much of the poller's time for each read."""

    def __init__(self, poller: "CountedPoller", seconds: float) -> None:
        super().__init__(LogFormatOptions())
        self.poller, self.seconds, self.taken = poller, seconds, 0

    def observe(self, *_: object) -> None:
        self.poller.seconds += self.seconds
        self.taken += 1


class CountedPoller(LogPoller):
    """Its clock is moved by what it takes in alone; all that is due is read in each poll."""

    def __init__(self, logs: Logs) -> None:
        self.seconds = 0.0
        super().__init__(logs, readers=1, poll_seconds=10, timer=lambda: self.seconds)

    def poll_at(self, runs: Sequence[tuple[ProgressLog, JobRun]], now: float) -> None:
        self.poll(runs, now, timeout_seconds=TIMEOUT_SECONDS)


class TestWhatIsTakenInAtOnce:
    """A job that prints much, or whose lines take long, does not delay the others."""

    def test_what_takes_longer_waits_for_the_next_tick_and_is_not_read_again_before(
        self, logs: Logs
    ) -> None:
        poller = CountedPoller(logs)
        runs = runs_on(*(f"node-{number}" for number in range(5)))
        logs.printed = {run.pods[0].name: ["step=1 loss=2"] for _, run in runs}
        costly = [(CostlyLog(poller, 0.2), run) for _, run in runs]
        taken = []
        for second in (0, 1, 2):
            poller.poll_at(costly, AT + second)
            taken.append(sum(log.taken for log, _ in costly))
        poller.close()
        assert taken == [2, 4, 5]
        assert len(logs.reads) == 5

    def test_small_reads_come_before_large_ones(self, logs: Logs) -> None:
        poller = CountedPoller(logs)
        runs = runs_on(*(f"node-{number}" for number in range(10)))
        logs.printed = {run.pods[0].name: ["step=1 loss=2"] * 900 for _, run in runs}
        logs.printed["job9-worker-0"] = ["step=7 loss=2"]
        costly = [(CostlyLog(poller, 0.2), run) for _, run in runs]
        costly[0][0].seconds = 0.4  # it is read first, and takes the time of the first poll
        for second in (0, 1):
            awaited = {runs[0][1].name}
            poller.poll(costly, AT + second, timeout_seconds=TIMEOUT_SECONDS, awaited=awaited)
        poller.close()
        assert costly[9][0].taken == 1
        assert sum(log.taken for log, _ in costly) <= 4

    def test_many_jobs_of_one_namespace_leave_time_to_another(self, logs: Logs) -> None:
        poller = CountedPoller(logs)
        runs = runs_on(*(f"node-{number}" for number in range(30)))
        logs.printed = {run.pods[0].name: ["step=1 loss=2"] for _, run in runs}
        costly = [(CostlyLog(poller, 0.2), run) for _, run in runs[:29]]
        honest, run = runs[29]
        other = msgspec.structs.replace(run.pods[0], namespace="other")
        quick = honest, JobRun("quick", run.counts, (other,))
        poller.poll_at(costly, AT)
        poller.poll_at([*costly, quick], AT + 1)
        poller.poll_at([*costly, quick], AT + 2)
        poller.close()
        assert honest.progress(AT + 2).step == 1

    def test_reads_of_one_namespace_that_wait_leave_memory_to_the_others(self, logs: Logs) -> None:
        poller = CountedPoller(logs)
        logs.most_lines = 600
        runs = runs_on(*(f"node-{number}" for number in range(81)))
        logs.printed = {run.pods[0].name: ["step=1" + 1000 * " "] * 600 for _, run in runs}
        costly = [(CostlyLog(poller, 0.2), run) for _, run in runs[:80]]
        other = msgspec.structs.replace(runs[80][1].pods[0], namespace="other")
        last = CostlyLog(poller, 0.0), JobRun("other", Counts(1, 1), (other,))
        for second in range(5):
            poller.poll_at(costly, AT + second)
        waiting = sum(read.size for read in poller._waiting)
        poller.poll_at([*costly, last], AT + 6)
        poller.poll_at([*costly, last], AT + 7)
        poller.close()
        assert 25 * 2**20 < waiting < 40 * 2**20
        assert last[0].taken == 1


def test_an_evaluators_log_is_read_beside_the_trainers() -> None:
    chief, evaluator = (
        pod(f"a-{role.value}-0", role=role, node="n") for role in (Role.CHIEF, Role.EVALUATOR)
    )
    run = poller_run_of([evaluator, chief], Counts(1, 0), {})
    assert run is not None
    assert (run.pods, run.read) == ((chief,), (chief, evaluator))
    assert poller_run_of([evaluator], Counts(1, 0), {}) is None
