"""The last lines of a pod are read before its job is suspended."""

from autoscaler.logs.poller import LogPoller
from tests.unit.autoscaler.fake_logs import AT, TIMEOUT_SECONDS, Nodes, poll_until, runs_on


class TestLastLines:
    """A suspension waits for its job's last lines over some ticks, and never holds up the loop for
    long."""

    def test_last_lines_are_read_at_once_where_nodes_answer(self, nodes: Nodes) -> None:
        (log, run), *_ = runs_on("node")
        poller = LogPoller(nodes, readers=2, poll_seconds=10, last_read_seconds=TIMEOUT_SECONDS)
        assert poller.read_now(log, run)
        poller.close()
        assert log.progress(AT).step == 1

    def test_a_suspension_goes_ahead_without_lines_that_do_not_come(self, nodes: Nodes) -> None:
        nodes.hanging = {"dead"}
        ((log, run),) = runs_on("dead")
        poller = LogPoller(nodes, readers=2, poll_seconds=10, last_read_seconds=0.01)
        poller.poll([], AT, timeout_seconds=0)
        finished = []
        for tick in range(3):
            finished.append(poller.read_now(log, run))
            poller.poll([(log, run)], AT + tick, timeout_seconds=0)
        poller.close()
        assert finished == [False, False, True]

    def test_jobs_on_a_node_that_hangs_do_not_delay_another_job(self, nodes: Nodes) -> None:
        nodes.hanging = {"dead"}
        runs = runs_on(*["dead"] * 40, "node")
        poller = LogPoller(nodes, readers=2, poll_seconds=10, last_read_seconds=0.01)
        for log, run in runs[:40]:
            poller.read_now(log, run)
        log, run = runs[40]
        for _ in range(3):
            if poller.read_now(log, run):
                break
        poll_until(poller, runs, lambda: log.progress(AT).step == 1)
        poller.close()
        assert nodes.hangs["dead"] <= 3

    def test_a_node_known_not_to_answer_is_skipped(self, nodes: Nodes) -> None:
        nodes.refusing = {"bad"}
        ((log, run),) = runs_on("bad")
        poller = LogPoller(nodes, readers=2, poll_seconds=10)
        poller.poll([(log, run)], AT, timeout_seconds=TIMEOUT_SECONDS)
        assert poller.read_now(log, run)
        poller.close()
        assert nodes.reads.total() == 1
