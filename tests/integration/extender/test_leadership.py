"""Who leads, read from a Lease over real HTTP."""

from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from extender.leadership import LeaseReader, leadership
from optimus.kube.client import Client, connect

pytestmark = pytest.mark.integration

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/optimus-scheduler"


@pytest.fixture
def client(kubeconfig: Path) -> Client:
    return connect(kubeconfig, user_agent="test")


def reader(client: Client, every_seconds: float = 0.0) -> LeaseReader:
    return LeaseReader(client, "kube-system/optimus-scheduler", "host-1", every_seconds)


def lease(holder: str | None, transitions: int | None = None) -> dict[str, Any]:
    spec: dict[str, Any] = {} if holder is None else {"holderIdentity": holder}
    if transitions is not None:
        spec["leaseTransitions"] = transitions
    return {"metadata": {"name": "optimus-scheduler"}, "spec": spec}


@pytest.mark.parametrize(
    ("holder", "leads"),
    [
        pytest.param("host-1_3af1c280-e842", True, id="the kube-scheduler of this host"),
        pytest.param("host-1", True, id="the very name"),
        pytest.param("host-10_3af1c280-e842", False, id="a host whose name only begins alike"),
        pytest.param("", False, id="given up"),
        pytest.param(None, False, id="never held"),
    ],
)
def test_who_leads(httpserver: HTTPServer, client: Client, holder: str | None, leads: bool) -> None:
    httpserver.expect_request(LEASE).respond_with_json(lease(holder))
    assert reader(client).leads() is leads


def test_without_a_lease_nobody_leads_yet(httpserver: HTTPServer, client: Client) -> None:
    httpserver.expect_request(LEASE).respond_with_json({"kind": "Status", "code": 404}, status=404)
    assert reader(client).leads() is False


@pytest.mark.parametrize(
    ("status", "body"),
    [
        pytest.param(500, "{}", id="a server error"),
        pytest.param(403, "{}", id="no right to read it"),
        pytest.param(200, "nonsense", id="no JSON"),
    ],
)
def test_what_was_read_last_holds_while_the_lease_cannot_be_read(
    httpserver: HTTPServer, client: Client, status: int, body: str
) -> None:
    httpserver.expect_ordered_request(LEASE).respond_with_json(lease("host-1_a"))
    httpserver.expect_ordered_request(LEASE).respond_with_data(body, status=status)
    httpserver.expect_ordered_request(LEASE).respond_with_json(lease("host-2_b"))
    asked = reader(client)
    assert [asked.leads() for _ in range(3)] == [True, True, False]


def test_the_lease_is_not_read_at_every_question(httpserver: HTTPServer, client: Client) -> None:
    httpserver.expect_oneshot_request(LEASE).respond_with_json(lease("host-1_a"))
    asked = reader(client, every_seconds=1000.0)
    assert [asked.leads() for _ in range(3)] == [True] * 3


def test_a_reason_to_look_has_the_lease_read_before_its_time(
    httpserver: HTTPServer, client: Client
) -> None:
    httpserver.expect_ordered_request(LEASE).respond_with_json(lease("host-2_b"))
    httpserver.expect_ordered_request(LEASE).respond_with_json(lease("host-1_a"))
    asked = reader(client, every_seconds=1000.0)
    assert [asked.leads(), asked.leads()] == [False, False]
    asked.called_as_follower()
    assert asked.leads()


def test_without_leader_election_there_is_one_only(client: Client) -> None:
    assert leadership(client, "", "host-1").leads()


def test_an_identity_that_matches_nobody_is_named_once_when_kube_scheduler_asks(
    httpserver: HTTPServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    for holder in ("node-7_a", "node-7_a", "node-7_a", "node-7_c", "host-1_b"):
        httpserver.expect_ordered_request(LEASE).respond_with_json(lease(holder))
    caplog.set_level("INFO")
    asked, found = reader(client), []
    for _ in range(5):
        found.append((asked.leads(), asked.mismatch))
        asked.called_as_follower()
    assert found == [(False, False), (False, True), (False, True), (False, True), (True, False)]
    texts = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert [text.split(", ")[1] for text in texts] == [
        "but lease kube-system/optimus-scheduler is held by node-7_a",
        "but lease kube-system/optimus-scheduler is held by node-7_c",
    ]
    assert all("expected is host-1 or host-1_...: nothing is planned" in text for text in texts)


def test_another_leader_is_nothing_to_warn_of(
    httpserver: HTTPServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    for holder in ("replica-b_a", "host-1_b", "replica-b_c"):
        httpserver.expect_ordered_request(LEASE).respond_with_json(lease(holder))
    caplog.set_level("INFO")
    asked = reader(client)
    assert [(asked.leads(), asked.mismatch) for _ in range(3)] == [
        (False, False),
        (True, False),
        (False, False),
    ]
    said = [each for each in caplog.records if each.name == "extender.leadership"]
    assert [(each.levelname, each.getMessage()) for each in said] == [
        ("INFO", "leader: kube-scheduler replica-b_a; this extender does not plan"),
        ("INFO", "leader: kube-scheduler host-1_b; this extender plans"),
        ("INFO", "leader: kube-scheduler replica-b_c; this extender does not plan"),
    ]


@pytest.mark.parametrize(
    ("terms", "leads"),
    [
        pytest.param([("host-1_a", 3), ("host-1_a", 3)], [True, True], id="the same term"),
        pytest.param(
            [("host-1_a", 3), ("host-1_b", 4), ("host-1_b", 4)],
            [True, True, True],
            id="its kube-scheduler was started again",
        ),
        pytest.param(
            [("host-1_a", 3), ("host-1_b", 5), ("host-1_b", 5)],
            [True, False, True],
            id="another has led between two readings",
        ),
        pytest.param([("host-2_a", 3), ("host-1_b", 5)], [False, True], id="it has not led before"),
    ],
)
def test_a_leader_between_two_readings_is_noticed(
    httpserver: HTTPServer, client: Client, terms: list[tuple[str, int]], leads: list[bool]
) -> None:
    for term in terms:
        httpserver.expect_ordered_request(LEASE).respond_with_json(lease(*term))
    asked = reader(client)
    assert [asked.leads() for _ in terms] == leads
