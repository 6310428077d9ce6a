"""Logs are read a little at a time while a pod runs, and once more when it has ended."""

from autoscaler.logs.poller import LogPoller, Run
from optimus.jobs import Counts
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
