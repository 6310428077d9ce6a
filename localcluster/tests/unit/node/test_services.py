"""Host names of training jobs as local ports, run by run, and the ports themselves."""

import json
import socket
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.node.peer_addresses import PeerAddresses
from localcluster.ports import NoPortLeft, PortAllocator, pick_ports
from tests.unit.node.pods import pod


class Counter:
    """Ports in order, with a list of those given back."""

    def __init__(self) -> None:
        self.next = 100
        self.released: list[int] = []

    def allocate(self) -> int:
        self.next += 1
        return self.next

    def release(self, port: int) -> None:
        self.released.append(port)

    def addresses(self) -> PeerAddresses:
        return PeerAddresses(self.allocate, self.release)


def replica(uid: str, job: str = "job-1", kind: str = "TFJob") -> dict[str, Any]:
    """Return a replica of a training job."""
    return pod(name=uid, uid=uid, owner=(kind, job))


TF_CONFIG = json.dumps(
    {
        "cluster": {
            "ps": ["j-ps-0.ns.svc:2222"],
            "worker": ["j-worker-0.ns.svc:2222", "j-worker-1.ns.svc:2222"],
        },
        "task": {"type": "ps", "index": 0},
        "environment": "cloud",
    }
)


def cluster_of(table: PeerAddresses, which: dict[str, Any]) -> dict[str, Any]:
    """Return the cluster in a replica's environment."""
    rewritten = table.rewrite(which, {"TF_CONFIG": TF_CONFIG, "OTHER": "j-ps-0.ns.svc:2222"})
    assert list(rewritten) == ["TF_CONFIG"]
    cluster: dict[str, Any] = json.loads(rewritten["TF_CONFIG"])["cluster"]
    return cluster


def test_all_replicas_of_a_run_get_the_same_distinct_ports() -> None:
    table = Counter().addresses()
    for uid in ("a", "b"):
        table.pod_seen(replica(uid))
    first = cluster_of(table, replica("a"))
    assert first == {"ps": ["127.0.0.1:101"], "worker": ["127.0.0.1:102", "127.0.0.1:103"]}
    assert cluster_of(table, replica("b")) == first


def test_a_run_ends_with_its_last_pod_and_the_next_one_gets_new_ports() -> None:
    ports = Counter()
    table = ports.addresses()
    table.pod_seen(replica("a"))
    table.pod_seen(replica("b"))
    first = cluster_of(table, replica("a"))
    table.pod_gone(replica("a"))
    table.pod_gone(replica("b"))
    assert ports.released == [101, 102, 103]
    table.pod_seen(replica("c"))
    assert cluster_of(table, replica("c")) != first


@given(
    st.lists(
        st.tuples(st.sampled_from(["saw", "lost", "ask"]), st.integers(0, 2), st.integers(0, 2)),
        max_size=40,
    )
)
def test_within_a_run_answers_agree_and_no_two_live_services_share_a_port(
    steps: list[tuple[str, int, int]],
) -> None:
    ports = Counter()
    table = ports.addresses()
    alive: dict[int, set[int]] = {}
    told: dict[int, dict[int, int]] = {}
    for what, job, index in steps:
        which = replica(f"{job}-{index}", job=f"job-{job}")
        if what == "saw":
            table.pod_seen(which)
            alive.setdefault(job, set()).add(index)
        elif what == "lost":
            table.pod_gone(which)
            alive.get(job, set()).discard(index)
        elif alive.get(job):
            port = table.port(which, f"j-worker-{index}.ns.svc", 2222)
            assert told.setdefault(job, {}).setdefault(index, port) == port
        if not alive.get(job):
            told.pop(job, None)
        held = [port for run in told.values() for port in run.values()]
        assert len(held) == len(set(held))
        assert not set(held) & set(ports.released)


def test_mxnet_gets_the_same_root_in_both_forms() -> None:
    table = Counter().addresses()
    config = {
        "cluster": {
            "scheduler": [{"url": "j-scheduler-0", "port": 9091}],
            "server": [{"url": "j-server-0", "port": 9091}],
        },
        "task": {"type": "server", "index": 0},
    }
    which = replica("a", kind="MXJob")
    table.pod_seen(which)
    told = table.rewrite(
        which,
        {
            "MX_CONFIG": json.dumps(config),
            "DMLC_PS_ROOT_URI": "j-scheduler-0",
            "DMLC_PS_ROOT_PORT": "9091",
        },
    )
    root = json.loads(told["MX_CONFIG"])["cluster"]["scheduler"][0]
    assert root == {"url": "127.0.0.1", "port": int(told["DMLC_PS_ROOT_PORT"])}
    assert (told["DMLC_PS_ROOT_URI"], told["DMLC_NODE_HOST"]) == ("127.0.0.1", "127.0.0.1")
    assert "PORT" not in told


def test_the_ranks_of_a_pytorch_job_meet_at_one_address() -> None:
    table = Counter().addresses()
    master, worker = replica("a", kind="PyTorchJob"), replica("b", kind="PyTorchJob")
    variables = {
        f"{prefix}MASTER_{end}": value
        for prefix in ("", "PET_")
        for end, value in (("ADDR", "j-master-0"), ("PORT", "23456"))
    }
    told = [table.rewrite(pod, {**variables, "RANK": "0"}) for pod in (master, worker)]
    assert told[0] == told[1]
    assert {told[0]["MASTER_ADDR"], told[0]["PET_MASTER_ADDR"]} == {"127.0.0.1"}
    assert told[0]["MASTER_PORT"] == told[0]["PET_MASTER_PORT"] != "23456"


def test_a_sparse_cluster_is_rewritten_too() -> None:
    table = Counter().addresses()
    table.pod_seen(replica("a"))
    sparse = json.dumps({"cluster": {"worker": {"1": "j-worker-1.ns.svc:2222"}}})
    told = table.rewrite(replica("a"), {"TF_CONFIG": sparse})
    assert json.loads(told["TF_CONFIG"])["cluster"] == {"worker": {"1": "127.0.0.1:101"}}


def test_a_released_port_is_reused_only_after_a_delay() -> None:
    seconds = [0.0]
    (port,) = pick_ports(1)
    with closing(PortAllocator([port], clock=lambda: seconds[0])) as agent:
        agent.release(agent.allocate())
        with pytest.raises(NoPortLeft):
            agent.allocate()
        seconds[0] = 121.0
        assert agent.allocate() == port


def test_a_port_in_use_is_skipped() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(NoPortLeft):
            PortAllocator([port]).allocate()


def test_two_agents_never_hand_out_the_same_port() -> None:
    candidates = pick_ports(10)
    with closing(PortAllocator(candidates)) as one, closing(PortAllocator(candidates)) as other:
        handed = [(one, other)[index % 2].allocate() for index in range(10)]
        assert sorted(handed) == sorted(candidates)
        with pytest.raises(NoPortLeft, match=f"between {min(candidates)} and {max(candidates)}"):
            one.allocate()
