"""Which logs are read, and when: a little at a time while a pod runs, and once more when it has ended."""

import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from autoscaler import log_reading
from autoscaler.log_reading import LogReading, Run
from autoscaler.observation import Observation
from kube.errors import ErrorKind
from kube.nodes import ClusterNode
from kube.outcomes import Refused
from kube.pods import Pod
from scheduling.jobs import Counts, NodeConstraints, Role
from scheduling.nodes import Node
from scheduling.progress.log import ProgressLog
from scheduling.progress.record import LogLine
from scheduling.progress.rules import LogRules
from scheduling.resources import Resources
from scheduling.snapshot import ReplicaId
from tests.unit.interval.cluster import job

AT = 1_000.0


class Logs:
    """What each pod has printed, by name; counts how often it is read."""

    def __init__(self) -> None:
        self.printed: dict[str, list[str]] = {}
        self.reads: list[str] = []

    def read(self, pod: Pod, *, since: float | None = None) -> list[LogLine] | Refused:
        self.reads.append(pod.uid)
        if pod.name not in self.printed:
            return Refused(ErrorKind.NOT_FOUND, f"pod {pod.name} is gone")
        lines = [LogLine(AT + second, text) for second, text in enumerate(self.printed[pod.name])]
        return [line for line in lines if since is None or line.at >= since]


@pytest.fixture
def logs() -> Logs:
    return Logs()


@pytest.fixture
def reading(logs: Logs) -> Iterator[LogReading]:
    reading = LogReading(logs, readers=2, poll_seconds=10)
    yield reading
    reading.close()


def worker(run: int = 0) -> Pod:
    return Pod(
        uid=f"a-worker-0-{run}",
        namespace="team",
        name="a-worker-0",
        created_at=AT,
        replica=ReplicaId("uid-a", Role.WORKER, 0),
        resources=Resources(pods=1),
        constraints=NodeConstraints(),
    )


def run_of(pod: Pod) -> Run:
    return Run(pod.uid, Counts(1, 1), (pod,))


def progress_log() -> ProgressLog:
    return ProgressLog(LogRules.of(job("a")))


def test_a_log_is_read_again_only_after_a_while(logs: Logs, reading: LogReading) -> None:
    log, run = progress_log(), run_of(worker())
    logs.printed["a-worker-0"] = ["step=1 loss=2.0"]
    for now in (AT, AT + 5, AT + 11):
        reading.poll([(log, run)], now, patience_seconds=10)
    assert logs.reads == ["a-worker-0-0"] * 2


def test_what_a_pod_printed_last_is_read_when_it_has_ended(logs: Logs, reading: LogReading) -> None:
    log, run = progress_log(), run_of(worker())
    logs.printed["a-worker-0"] = ["step=1 loss=2.0"]
    reading.poll([(log, run)], AT, patience_seconds=10)
    logs.printed["a-worker-0"] += ["step=2 loss=1.5", "step=2 loss=1.5 checkpoint=2"]
    for now in (AT + 1, AT + 2):
        reading.poll([], now, patience_seconds=10)
    assert log.progress(AT + 2).checkpoint_step == 2
    assert logs.reads == ["a-worker-0-0"] * 2


def test_a_pod_that_is_gone_with_its_log_is_asked_for_once(logs: Logs, reading: LogReading) -> None:
    log, run = progress_log(), run_of(worker())
    logs.printed["a-worker-0"] = ["step=1 loss=2.0"]
    reading.poll([(log, run)], AT, patience_seconds=10)
    logs.printed.clear()
    for now in (AT + 1, AT + 2):
        reading.poll([], now, patience_seconds=10)
    assert log.progress(AT + 2).step == 1
    assert logs.reads == ["a-worker-0-0"] * 2


def test_the_log_of_a_pods_successor_is_not_taken_for_its_own(logs: Logs, reading: LogReading) -> None:
    log = progress_log()
    logs.printed["a-worker-0"] = ["step=7 loss=2.0"]
    reading.poll([(log, run_of(worker(0)))], AT, patience_seconds=10)
    logs.printed["a-worker-0"] = ["step=3 loss=2.5"]
    reading.poll([(log, run_of(worker(1)))], AT + 1, patience_seconds=10)
    assert log.progress(AT + 1).step == 3
    assert logs.reads == ["a-worker-0-0", "a-worker-0-1"]


def gang_member(role: Role, index: int, node: str | None) -> Pod:
    return Pod(
        uid=f"{role}-{index}",
        namespace="team",
        name=f"a-{role}-{index}",
        created_at=AT,
        node=node,
        phase="Running" if node else "Pending",
        replica=ReplicaId("uid-a", role, index),
        resources=Resources(pods=1),
        constraints=NodeConstraints(),
    )


NODES = {"f": "fast", "f2": "fast", "s": "slow", "plain": None} | {f"n{n}": f"kind-{n}" for n in range(9)}


@pytest.mark.parametrize(
    ("workers", "others", "kind"),
    [
        pytest.param(["f", "f2"], {}, "fast", id="alike"),
        pytest.param(["f", "s", "f2"], {}, "fast*2,slow*1", id="several kinds, each with its workers"),
        pytest.param(["f"], {Role.PS: "s", Role.CHIEF: "s"}, "fast", id="only workers count"),
        pytest.param([], {Role.CHIEF: "s"}, "slow", id="without workers the chief does"),
        pytest.param(["plain", "plain"], {}, "", id="no label"),
        pytest.param(["f", "plain"], {}, "*1,fast*1", id="a node without the label beside one with it"),
        pytest.param(["f", "gone"], {}, "*1,fast*1", id="a node that is not there"),
        pytest.param(["f", None], {}, "fast", id="a worker without a node has no kind yet"),
        pytest.param(["f"] * 5 + ["s"], {}, "fast*5,slow*1", id="also workers that are not read"),
        pytest.param([f"n{n}" for n in range(9)], {}, "", id="too many kinds to learn from"),
    ],
)
def test_the_kind_of_a_run_is_that_of_its_workers_nodes(
    workers: list[str | None], others: dict[Role, str], kind: str
) -> None:
    nodes = [
        ClusterNode(name=name, node=Node(name, Resources(), {"kind": of} if of else {})) for name, of in NODES.items()
    ]
    pods = [gang_member(Role.WORKER, index, node) for index, node in enumerate(workers)]
    pods += [gang_member(role, 0, node) for role, node in others.items()]
    seen = Observation.of(AT, [], nodes, [], [], "kind")
    run = log_reading.run_of(pods, Counts(1, 1), seen.node_kinds)
    assert run is not None
    assert run.node_kind == kind


def test_the_lines_of_a_run_tell_its_speed_on_its_kind_of_nodes(logs: Logs, reading: LogReading) -> None:
    log = progress_log()
    logs.printed["a-worker-0"] = [f"step={step} loss=2.0" for step in range(30)]
    reading.poll([(log, Run("r", Counts(1, 1), (worker(),), "fast"))], AT, patience_seconds=10)
    assert [sample.node_kind for sample in log.progress(AT + 60).samples] == ["fast"]


class Nodes:
    """Pods on nodes: some answer, some refuse, on some a read hangs until the test ends."""

    def __init__(self) -> None:
        self.hanging: set[str] = set()
        self.refusing: set[str] = set()
        self.reads: Counter[str] = Counter()
        self.hangs: Counter[str] = Counter()
        self.over = threading.Event()

    def read(self, pod: Pod, *, since: float | None = None) -> list[LogLine] | Refused:
        del since
        self.reads[pod.name] += 1
        if pod.node in self.hanging:
            self.hangs[pod.node or ""] += 1
            self.over.wait(60.0)
        if pod.node in self.refusing:
            return Refused(ErrorKind.TRANSIENT, f"node {pod.node} does not answer")
        return [LogLine(AT, "step=1 loss=2.0")]


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    nodes = Nodes()
    yield nodes
    nodes.over.set()


def runs_on(*where: str) -> list[tuple[ProgressLog, Run]]:
    """One job of one worker for each node named."""
    runs = []
    for number, node in enumerate(where):
        pod = replace_pod(f"job{number}-worker-0", node)
        runs.append((progress_log(), Run(pod.uid, Counts(1, 1), (pod,))))
    return runs


def replace_pod(name: str, node: str) -> Pod:
    return Pod(
        uid=name,
        namespace="team",
        name=name,
        created_at=AT,
        node=node,
        phase="Running",
        replica=ReplicaId("uid-a", Role.WORKER, 0),
        resources=Resources(pods=1),
        constraints=NodeConstraints(),
    )


class TestNodesThatDoNotAnswer:
    def test_logs_elsewhere_are_read_as_often_as_ever(self, nodes: Nodes) -> None:
        nodes.hanging = {"dead"}
        runs = runs_on(*["dead"] * 40, *[f"node{n}" for n in range(20)])
        reading = LogReading(nodes, readers=4, poll_seconds=10)
        healthy = [run.pods[0].name for _, run in runs[40:]]
        for poll in range(400):
            reading.poll(runs, AT + 10 * poll, patience_seconds=0.02)
            if min(nodes.reads[name] for name in healthy) >= 5:
                break
        reading.close()
        assert min(nodes.reads[name] for name in healthy) >= 5
        assert nodes.hangs["dead"] <= 2

    def test_a_node_that_hangs_is_waited_for_once(self, nodes: Nodes) -> None:
        nodes.hanging = {"dead"}
        reading = LogReading(nodes, readers=4, poll_seconds=10)
        runs = runs_on("dead")
        reading.poll(runs, AT, patience_seconds=0.01)
        for poll in range(1, 4):  # with this patience a poll that waited again would not end within the test
            reading.poll(runs, AT + 10 * poll, patience_seconds=1e4)
        reading.close()
        assert nodes.hangs["dead"] == 1

    def test_nodes_that_fail_are_asked_seldom_and_by_half_the_readers_at_most(self, nodes: Nodes) -> None:
        nodes.refusing = {"bad"}
        runs = runs_on(*["bad"] * 30, "good")
        reading = LogReading(nodes, readers=4, poll_seconds=10)
        for poll in range(20):
            reading.poll(runs, AT + 10 * poll, patience_seconds=10)
        good = nodes.reads.pop("job30-worker-0")
        assert good == 20
        assert 2 <= nodes.reads.total() <= 2 + 20 / 2
        nodes.refusing.clear()
        for poll in range(20, 26):
            reading.poll(runs, AT + 10 * poll, patience_seconds=10)
        reading.close()
        assert all(log.progress(AT).step == 1 for log, _ in runs), "what answers again is read again soon"

    def test_a_log_that_cannot_be_read_leaves_the_others_of_its_node_alone(self, logs: Logs) -> None:
        runs = runs_on("node", "node")
        logs.printed["job1-worker-0"] = ["step=1 loss=2.0"]
        reading = LogReading(logs, readers=2, poll_seconds=10)
        for poll in range(16):
            reading.poll(runs, AT + 10 * poll, patience_seconds=10)
        reading.close()
        assert logs.reads.count("job1-worker-0") == 16
        assert logs.reads.count("job0-worker-0") <= 6

    def test_all_that_is_due_is_read_in_one_poll_where_nodes_answer(self, nodes: Nodes) -> None:
        runs = runs_on(*[f"node{n % 3}" for n in range(50)])
        reading = LogReading(nodes, readers=4, poll_seconds=10)
        reading.poll(runs, AT, patience_seconds=60)
        reading.close()
        assert all(log.progress(AT).step == 1 for log, _ in runs)


class TestLastLines:
    """A suspension waits for its job's last lines over some ticks, and never holds up the loop for long."""

    def test_they_are_read_at_once_where_nodes_answer(self, nodes: Nodes) -> None:
        (log, run), *_ = runs_on("node")
        reading = LogReading(nodes, readers=2, poll_seconds=10, last_read_seconds=60)
        assert reading.read_now(log, run)
        reading.close()
        assert log.progress(AT).step == 1

    def test_a_suspension_goes_on_without_lines_that_do_not_come(self, nodes: Nodes) -> None:
        nodes.hanging = {"dead"}
        ((log, run),) = runs_on("dead")
        reading = LogReading(nodes, readers=2, poll_seconds=10, last_read_seconds=0.01)
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
        reading = LogReading(nodes, readers=2, poll_seconds=10, last_read_seconds=0.01)
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
        reading = LogReading(nodes, readers=2, poll_seconds=10)
        reading.poll([(log, run)], AT, patience_seconds=10)
        assert reading.read_now(log, run)
        reading.close()
        assert nodes.reads.total() == 1
