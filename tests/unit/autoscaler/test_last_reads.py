"""What a pod printed last is read before its job is suspended."""

from autoscaler.logs.poller import LogPoller
from tests.unit.autoscaler.fake_logs import AT, Nodes, runs_on


class TestLastLines:
    """A suspension waits for its job's last lines over some ticks, and never holds up the loop for
    long."""

    def test_they_are_read_at_once_where_nodes_answer(self, nodes: Nodes) -> None:
        (log, run), *_ = runs_on("node")
        reading = LogPoller(nodes, readers=2, poll_seconds=10, last_read_seconds=60)
        assert reading.read_now(log, run)
        reading.close()
        assert log.progress(AT).step == 1

    def test_a_suspension_goes_on_without_lines_that_do_not_come(self, nodes: Nodes) -> None:
        nodes.hanging = {"dead"}
        ((log, run),) = runs_on("dead")
        reading = LogPoller(nodes, readers=2, poll_seconds=10, last_read_seconds=0.01)
        reading.poll([], AT, patience_seconds=0)
        finished = []
        for tick in range(3):
            finished.append(reading.read_now(log, run))
            reading.poll([(log, run)], AT + tick, patience_seconds=0)
        reading.close()
        assert finished == [False, False, True]

    def test_jobs_on_a_node_that_hangs_cost_another_job_nothing(self, nodes: Nodes) -> None:
        nodes.hanging = {"dead"}
        runs = runs_on(*["dead"] * 40, "node")
        reading = LogPoller(nodes, readers=2, poll_seconds=10, last_read_seconds=0.01)
        for log, run in runs[:40]:
            reading.read_now(log, run)
        log, run = runs[40]
        for _ in range(3):
            if reading.read_now(log, run):
                break
        for tick in range(100):
            if log.progress(AT).step == 1:
                break
            reading.poll(runs, AT + 10 * tick, patience_seconds=0.02)
        reading.close()
        assert log.progress(AT).step == 1
        assert nodes.hangs["dead"] <= 3

    def test_a_node_known_not_to_answer_is_passed_over(self, nodes: Nodes) -> None:
        nodes.refusing = {"bad"}
        ((log, run),) = runs_on("bad")
        reading = LogPoller(nodes, readers=2, poll_seconds=10)
        reading.poll([(log, run)], AT, patience_seconds=10)
        assert reading.read_now(log, run)
        reading.close()
        assert nodes.reads.total() == 1
