"""Whether the kube-scheduler beside this process leads, by its Lease."""

import json
from dataclasses import dataclass, field

import pytest

from extender.leadership import LeaseReader, OnlyReplica, leadership
from optimus.kube.errors import ErrorKind, KubeError
from tests.cases import cases


@dataclass
class FakeClient:
    """Answers reads of the Lease with its holder, or with an error."""

    holder: str | None = None
    transitions: int | None = None
    error: KubeError | None = None
    body: bytes | None = None
    reads: list[tuple[str, str]] = field(default_factory=list)

    def get(self, what: str, path: str) -> bytes:
        self.reads.append((what, path))
        if self.error is not None:
            raise self.error
        spec = {"holderIdentity": self.holder, "leaseTransitions": self.transitions}
        spec = {name: value for name, value in spec.items() if value is not None}
        stored = {"metadata": {"name": "optimus"}, "spec": spec}
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
