"""On which kind of nodes a run trains."""

import pytest

from autoscaler.cluster import Observation
from autoscaler.logs import poller as log_poller
from autoscaler.logs.poller import LogPoller, Run
from optimus.jobs import Counts, Role
from optimus.kube.nodes import ClusterNode
from optimus.nodes import Node
from optimus.resources import Resources
from tests.unit.autoscaler.fake_logs import AT, TIMEOUT_SECONDS, Logs, pod, progress_log

NODES = {"f": "fast", "f2": "fast", "s": "slow", "plain": None} | {
    f"n{n}": f"kind-{n}" for n in range(9)
}


@pytest.mark.parametrize(
    ("workers", "others", "kind"),
    [
        pytest.param(["f", "f2"], {}, "fast", id="alike"),
        pytest.param(
            ["f", "s", "f2"], {}, "fast*2,slow*1", id="several kinds, each with its workers"
        ),
        pytest.param(["f"], {Role.PS: "s", Role.CHIEF: "s"}, "fast", id="only workers count"),
        pytest.param([], {Role.CHIEF: "s"}, "slow", id="without workers the chief does"),
        pytest.param(["plain", "plain"], {}, "", id="no label"),
        pytest.param(
            ["f", "plain"], {}, "*1,fast*1", id="a node without the label beside one with it"
        ),
        pytest.param(["f", "gone"], {}, "*1,fast*1", id="a node that is not there"),
        pytest.param(["f", None], {}, "fast", id="a worker without a node has no kind yet"),
        pytest.param(["f"] * 5 + ["s"], {}, "fast*5,slow*1", id="also workers that are not read"),
        pytest.param([f"n{n}" for n in range(9)], {}, "", id="too many kinds to learn from"),
    ],
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
    seen = Observation.of(AT, [], nodes, [], [], "kind")
    run = log_poller.run_of(pods, Counts(1, 1), seen.node_kinds)
    assert run is not None
    assert run.node_kind == kind


def test_speed_samples_carry_the_node_kind_of_their_run(logs: Logs, poller: LogPoller) -> None:
    log = progress_log()
    logs.printed["a-worker-0"] = [f"step={step} loss=2.0" for step in range(30)]
    poller.poll(
        [(log, Run("r", Counts(1, 1), (pod("a-worker-0", uid="a-worker-0-0"),), "fast"))],
        AT,
        timeout_seconds=TIMEOUT_SECONDS,
    )
    assert [sample.node_kind for sample in log.progress(AT + 60).samples] == ["fast"]
