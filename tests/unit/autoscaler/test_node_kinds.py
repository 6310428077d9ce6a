"""On which kind of nodes a run trains."""

import pytest

from autoscaler.cluster import NodeList
from autoscaler.logs import poller as log_poller
from autoscaler.logs.poller import JobRun, LogPoller
from optimus.jobs import Counts, Role
from optimus.kube.kind_orders import kind_orders_of
from optimus.kube.leases import Lease
from optimus.kube.nodes import ClusterNode
from optimus.nodes import Node
from optimus.placement.first_kind import KindOrders
from optimus.resources import Resources
from tests.cases import cases
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_job import tf_job
from tests.unit.autoscaler.fake_logs import AT, TIMEOUT_SECONDS, Logs, pod, progress_log
from tests.unit.autoscaler.test_turns import KindsCluster

FAST_IS_TWICE = {"slow": -0.5, "fast": 0.5}
NODES = {"f": "fast", "f2": "fast", "s": "slow", "plain": None} | {
    f"n{n}": f"kind-{n}" for n in range(9)
}


@cases(
    ("workers", "others", "kind"),
    {
        "alike": (["f", "f2"], {}, "fast"),
        "several kinds, each with its workers": (["f", "s", "f2"], {}, "fast*2,slow*1"),
        "only workers count": (["f"], {Role.PS: "s", Role.CHIEF: "s"}, "fast"),
        "without workers the chief does": ([], {Role.CHIEF: "s"}, "slow"),
        "no label": (["plain", "plain"], {}, ""),
        "a node without the label beside one with it": (["f", "plain"], {}, "*1,fast*1"),
        "a node that is not there": (["f", "gone"], {}, "*1,fast*1"),
        "a worker without a node has no kind yet": (["f", None], {}, "fast"),
        "also workers that are not read": (["f"] * 5 + ["s"], {}, "fast*5,slow*1"),
        "too many kinds to learn from": ([f"n{n}" for n in range(9)], {}, ""),
    },
)
def test_the_node_kind_of_a_run_is_that_of_its_workers_nodes(
    workers: list[str | None], others: dict[Role, str], kind: str
) -> None:
    nodes = [
        ClusterNode(name=name, node=Node(name, Resources(), {"kind": of} if of else {}))
        for name, of in NODES.items()
    ]
    pods = [pod(f"a-worker-{index}", index=index, node=node) for index, node in enumerate(workers)]
    pods += [pod(f"a-{role}-0", role=role, node=node) for role, node in others.items()]
    seen = NodeList.of(nodes, "kind")
    run = log_poller.run_of(pods, Counts(1, 1), seen.kinds)
    assert run is not None
    assert run.node_kind == kind


def test_speed_samples_carry_the_node_kind_of_their_run(logs: Logs, poller: LogPoller) -> None:
    log = progress_log()
    logs.printed["a-worker-0"] = [f"step={step} loss=2.0" for step in range(30)]
    poller.poll(
        [(log, JobRun("r", Counts(1, 1), (pod("a-worker-0", uid="a-worker-0-0"),), "fast"))],
        AT,
        timeout_seconds=TIMEOUT_SECONDS,
    )
    assert [sample.node_kind for sample in log.progress(AT + 60).samples] == ["fast"]


@pytest.mark.parametrize("interval_seconds", [3, 20], ids=["during the move", "after the move"])
def test_a_job_that_is_moved_starts_on_the_kind_on_which_it_is_fastest(
    interval_seconds: float,
) -> None:
    """Also where the next interval is planned before its pods are placed."""
    cluster = KindsCluster(kinds={"slow": 8, "fast": 8}, cpus=16)
    harness = ControllerHarness(cluster, interval_seconds=interval_seconds, measures=False)
    state = harness.controller._decider._driver.state
    state.kind_factors = {f"before-{number}": FAST_IS_TWICE for number in range(12)}
    goal = {"target_loss": "0.12", "training_mode": "sync", "global_batch_size": "64"}
    job = cluster.submit(tf_job("a", 1, 1, **goal, rescale="any"))
    for _ in range(300):
        harness.run(1, tick=1)
        if job.counts != (1, 1) and job.pods and not job.suspended:
            break
    assert {pod["spec"]["nodeName"] for pod in job.pods} == {"fast"}


def test_a_job_whose_counts_are_fixed_moves_to_the_faster_kind_once() -> None:
    cluster = KindsCluster(kinds={"slow": 8, "fast": 8}, cpus=16)
    harness = ControllerHarness(cluster, interval_seconds=20, measures=False)
    state = harness.controller._decider._driver.state
    state.kind_factors = {f"before-{number}": FAST_IS_TWICE for number in range(12)}
    goal = {"target_loss": "0.12", "training_mode": "sync", "global_batch_size": "64"}
    fixed = {"max_ps": "1", "max_workers": "1"}
    job = cluster.submit(tf_job("a", 1, 1, **goal, **fixed, rescale="any"))
    uids = set[str]()
    for _ in range(300):
        harness.run(1, tick=1)
        uids |= {pod["metadata"]["uid"] for pod in job.pods}
    worker = [pod for pod in job.pods if "worker" in pod["metadata"]["name"]]
    assert job.counts == (1, 1)
    assert not job.suspended
    assert [pod["spec"]["nodeName"] for pod in worker] == ["fast"]
    assert len(uids) == 4, "the pods of two starts"


def test_the_extender_is_told_on_which_kind_new_jobs_are_to_start() -> None:
    """Once, while nothing changes; again where it was refused, or another leader wrote last."""
    cluster = KindsCluster(kinds={"slow": 8, "fast": 8}, cpus=16)

    def leads(instance: str) -> ControllerHarness:
        harness = ControllerHarness(cluster, instance=instance, measures=False)
        factors = {f"before-{number}": FAST_IS_TWICE for number in range(12)}
        harness.controller._decider._driver.state.kind_factors = factors
        return harness

    def told(holder: str) -> KindOrders:
        return kind_orders_of(Lease(holder, kind_orders=cluster.kind_orders))

    harness = leads("one")
    cluster.submit(tf_job("a", 1, 1, target_loss="0.12"))
    harness.run(60, tick=1)
    assert told("one").usual == ("fast", "slow")
    assert told("two").usual == ()
    leads("two").run(60, tick=1)
    assert told("two").usual == ("fast", "slow")
