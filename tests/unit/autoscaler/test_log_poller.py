"""Logs are read a little at a time while a pod runs, and once more when it has ended."""

from autoscaler.logs.poller import LogPoller
from tests.unit.autoscaler.fake_logs import AT, TIMEOUT_SECONDS, Logs, pod, progress_log, run_of


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
