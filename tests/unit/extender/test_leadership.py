"""Whether the kube-scheduler beside this process leads, by its Lease."""

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from extender.leadership import LeaseReader, OnlyReplica, leadership
from optimus.kube.errors import ErrorKind, KubeError
from tests.cases import cases


class FakeCoordination:
    def read_namespaced_lease(self) -> None:
        """What a read of the Lease calls."""


@dataclass
class FakeClient:
    """Answers reads of the Lease with its holder, or with an error."""

    holder: str | None = None
    transitions: int | None = None
    error: KubeError | None = None
    body: bytes | None = None
    reads: list[tuple[str, str, str]] = field(default_factory=list)
    coordination: FakeCoordination = field(default_factory=FakeCoordination)

    def call(self, what: str, method: Callable[[], None], *, name: str, namespace: str) -> bytes:
        assert method == self.coordination.read_namespaced_lease
        self.reads.append((what, namespace, name))
        if self.error is not None:
            raise self.error
        spec = {"holderIdentity": self.holder, "leaseTransitions": self.transitions}
        spec = {name: value for name, value in spec.items() if value is not None}
        stored = {"metadata": {"name": name}, "spec": spec}
        return self.body or json.dumps(stored).encode()


def reader(client: FakeClient, every_seconds: float = 0.0) -> LeaseReader:
    return LeaseReader(client, "kube-system/optimus", "host-1", every_seconds)  # type: ignore[arg-type]


@cases(
    ("holder", "leads"),
    {
        "kube-scheduler's identity is that of its host": ("host-1_7f3a", True),
        "the identity itself": ("host-1", True),
        "a host whose name only begins alike": ("host-10_7f3a", False),
        "another host": ("other_host-1_", False),
        "nobody": ("", False),
        "a Lease that nobody has held yet": (None, False),
    },
)
def test_who_leads(holder: str | None, leads: bool) -> None:
    lease = reader(FakeClient(holder))
    assert lease.holder == ""
    assert lease.leads() is leads
    assert lease.holder == (holder or "")


def test_between_two_reads_the_last_one_holds() -> None:
    client = FakeClient("host-1_a")
    lease = reader(client, every_seconds=3600.0)
    assert lease.leads()
    client.holder = "host-2_b"
    assert lease.leads()
    assert len(client.reads) == 1
    lease.called_as_follower()
    assert not lease.leads()
    assert not lease.leads()
    assert len(client.reads) == 2


@cases(
    ("transitions", "leads"),
    {
        "none between": ((3, 3), True),
        "its own kube-scheduler began to lead again": ((3, 4), True),
        "another has led and ended": ((3, 5), False),
        "it is not known how many there were": ((None, 9), True),
        "it is not known how many there are": ((3, None), True),
    },
)
def test_another_leader_between_two_reads_is_noticed(
    transitions: tuple[int | None, int | None], leads: bool
) -> None:
    client = FakeClient("host-1_a", transitions=transitions[0])
    lease = reader(client)
    assert lease.leads()
    client.transitions = transitions[1]
    assert lease.leads() is leads
    assert lease.leads(), "it leads again with the next reading"


def test_transitions_before_this_one_led_do_not_count() -> None:
    client = FakeClient("host-2_b", transitions=3)
    lease = reader(client)
    assert not lease.leads()
    client.holder, client.transitions = "host-1_a", 5
    assert lease.leads()


@cases(
    "change",
    {
        "no answer": {"error": KubeError(ErrorKind.TRANSIENT, "no answer")},
        "no right": {"error": KubeError(ErrorKind.FORBIDDEN, "no right")},
        "no Lease": {"body": b"no JSON"},
    },
)
def test_while_the_lease_cannot_be_read_the_last_holder_leads(
    change: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    client = FakeClient("host-1_a")
    lease = reader(client)
    lease.leads()
    for name, value in change.items():
        setattr(client, name, value)
    assert lease.leads()
    assert lease.holder == "host-1_a"
    assert "lease kube-system/optimus: " in caplog.text


def test_without_a_lease_nobody_leads() -> None:
    client = FakeClient("host-1_a")
    lease = reader(client)
    lease.leads()
    client.error = KubeError(ErrorKind.NOT_FOUND, "there is none")
    assert not lease.leads()
    assert lease.holder == ""


def test_a_change_of_the_holder_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    client = FakeClient("host-1_a")
    lease = reader(client)
    for holder in ("host-1_a", "host-1_a", "host-2_b", "host-2_b", ""):
        client.holder = holder
        lease.leads()
    assert [record.getMessage() for record in caplog.records] == [
        "leader: kube-scheduler host-1_a; this extender plans",
        "leader: kube-scheduler host-2_b; this extender does not plan",
        "leader: kube-scheduler (none); this extender does not plan",
    ]


def test_an_identity_that_matches_no_kube_scheduler_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = FakeClient("host-2_b")
    lease = reader(client)
    lease.leads()
    found = [lease.mismatch]  # with two replicas a follower that is not asked is ordinary
    for _ in range(3):
        lease.called_as_follower()
        lease.leads()
    (said,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "lease kube-system/optimus is held by host-2_b" in said.getMessage()
    assert "expected is host-1 or host-1_..." in said.getMessage()
    for holder in ("host-2_b", "host-3_c"):  # of another holder it may not be so
        client.holder = holder
        lease.leads()
        found.append(lease.mismatch)
    assert found == [False, True, False]


def test_without_a_lease_to_read_the_only_replica_leads() -> None:
    only = leadership(FakeClient(), "", "host-1")  # type: ignore[arg-type]
    assert isinstance(only, OnlyReplica)
    only.called_as_follower()
    assert (only.leads(), only.holder, only.mismatch) == (True, "", False)
    assert isinstance(leadership(FakeClient(), "a/b", "host-1"), LeaseReader)  # type: ignore[arg-type]


@cases(
    ("holders", "leads"),
    {
        "nobody led before": (("host-1_a",), True),
        "another process of this host did": (("host-1_a", "host-1_b"), True),
        "another host did": (("host-2_a", "host-1_b"), False),
        "another host did, and nobody for a moment": (("host-2_a", "", "host-1_b"), False),
    },
)
def test_after_another_host_it_leads_once_what_that_has_bound_has_ended(
    holders: tuple[str, ...], leads: bool
) -> None:
    client = FakeClient()
    lease = LeaseReader(client, "ns/lease", "host-1", 0.0, handover_seconds=3600.0)  # type: ignore[arg-type]
    for client.holder in holders:
        found = lease.leads()
    assert found is leads


def test_the_time_after_another_hosts_lead_ends() -> None:
    client = FakeClient("host-2_a")
    lease = LeaseReader(client, "ns/lease", "host-1", 0.0, handover_seconds=0.01)  # type: ignore[arg-type]
    assert not lease.leads()
    client.holder = "host-1_b"
    assert not lease.leads()
    time.sleep(0.02)
    assert lease.leads()
