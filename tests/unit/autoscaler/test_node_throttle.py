"""A node that does not answer does not delay the logs of others."""

from autoscaler.logs.poller import LogPoller
from tests.unit.autoscaler.fake_logs import (
    AT,
    TIMEOUT_SECONDS,
    Logs,
    Nodes,
    poll_until,
    runs_on,
    wait_ended,
)


class TestNodesThatDoNotAnswer:
    def test_logs_on_other_nodes_are_read_as_often_as_before(self, nodes: Nodes) -> None:
        nodes.hanging = {"dead"}
        runs = runs_on(*["dead"] * 40, *[f"node{n}" for n in range(20)])
        poller = LogPoller(nodes, readers=4, poll_seconds=10)
        healthy = [run.pods[0].name for _, run in runs[40:]]
        poll_until(poller, runs, lambda: min(nodes.reads[name] for name in healthy) >= 5)
        poller.close()
        assert nodes.hangs["dead"] <= 2

    def test_a_node_that_hangs_is_waited_for_once(self, nodes: Nodes) -> None:
        nodes.hanging = {"dead"}
        poller = LogPoller(nodes, readers=4, poll_seconds=10)
        runs = runs_on("dead")
        poller.poll(runs, AT, timeout_seconds=0.01)
        for poll in range(1, 4):  # a poll that waited again would not end within the test
            poller.poll(runs, AT + 10 * poll, timeout_seconds=1e4)
        assert nodes.hung.wait(TIMEOUT_SECONDS)
        poller.close()
        assert nodes.hangs["dead"] == 1

    def test_failing_nodes_are_read_seldom_and_by_half_the_readers_at_most(
        self, nodes: Nodes
    ) -> None:
        nodes.refusing = {"bad"}
        runs = runs_on(*["bad"] * 30, "good")
        poller = LogPoller(nodes, readers=4, poll_seconds=10)
        for poll in range(20):
            poller.poll(runs, AT + 10 * poll, timeout_seconds=TIMEOUT_SECONDS)
        good = nodes.reads.pop("job30-worker-0")
        assert good == 20
        assert 2 <= nodes.reads.total() <= 2 + 20 / 2
        nodes.refusing.clear()
        for poll in range(20, 26):
            poller.poll(runs, AT + 10 * poll, timeout_seconds=TIMEOUT_SECONDS)
            wait_ended(poller)
        poller.poll(runs, AT + 251, timeout_seconds=0)  # nothing is due: takes what was read
        poller.close()
        assert all(log.progress(AT).step == 1 for log, _ in runs), (
            "what answers again is read again soon"
        )

    def test_a_log_that_cannot_be_read_does_not_delay_others_on_its_node(self, logs: Logs) -> None:
        runs = runs_on("node", "node")
        logs.printed["job1-worker-0"] = ["step=1 loss=2.0"]
        poller = LogPoller(logs, readers=2, poll_seconds=10)
        for poll in range(16):
            poller.poll(runs, AT + 10 * poll, timeout_seconds=TIMEOUT_SECONDS)
        poller.close()
        assert logs.reads.count("job1-worker-0") == 16

    def test_all_that_is_due_is_read_in_one_poll_where_nodes_answer(self, nodes: Nodes) -> None:
        runs = runs_on(*[f"node{n % 3}" for n in range(50)])
        poller = LogPoller(nodes, readers=4, poll_seconds=10)
        poller.poll(runs, AT, timeout_seconds=TIMEOUT_SECONDS)
        poller.close()
        assert all(log.progress(AT).step == 1 for log, _ in runs)
