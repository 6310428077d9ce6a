"""Who may send a token to the page, and what becomes of it."""

import json
import logging
from dataclasses import dataclass, field
from typing import Any

import pytest
from flask.testing import FlaskClient

from autoscaler.web.feed import PageFeed
from autoscaler.web.log_offer import ELSEWHERE
from autoscaler.web.page import create_page
from optimus.interval.decision_settings import DecisionSettings
from optimus.kube.pods import Pod
from optimus.kube.reader_logs import LogEnd
from tests.cases import cases
from tests.unit.autoscaler.web.sample_cluster import SampleCluster, sample_display

PATH = "/api/logs/team-a/resnet-0"
TOKEN = "readers.own-token_1"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@dataclass
class Logs:
    """Keeps what it was asked."""

    asked: list[tuple[str, str, bool]] = field(default_factory=list)
    fault: Exception | None = None

    def read(self, pod: Pod, token: str, *, previous: bool) -> LogEnd:
        self.asked.append((pod.name, token, previous))
        if self.fault is not None:
            raise self.fault
        return LogEnd("epoch 1 loss 0.5")


def page(logs: Logs | None) -> FlaskClient:
    feed = PageFeed()
    feed.take(SampleCluster(24).copy())
    return create_page(feed, DecisionSettings(), sample_display(), logs).test_client()


def got(client: FlaskClient, path: str, **request: Any) -> dict[str, Any]:
    request.setdefault("headers", BEARER)
    answer = client.get(path, **request)
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    assert TOKEN not in answer.text
    found: dict[str, Any] = json.loads(answer.data)
    return found


def test_by_default_no_log_is_offered_and_none_is_read() -> None:
    client = page(None)
    assert got(client, PATH) == {"offered": False, "why": "", "pods": [], "morePods": 0}
    assert "not switched logs on" in got(client, f"{PATH}/resnet-0-worker-0")["problem"]


def test_pods_that_were_started_again_come_first_then_workers() -> None:
    offer = got(page(Logs()), PATH, headers={})
    assert offer["offered"]
    assert [each["name"] for each in offer["pods"]] == [
        "resnet-0-worker-1",
        "resnet-0-worker-0",
        "resnet-0-ps-0",
        "resnet-0-ps-1",
    ]
    assert offer["pods"][0]["restarts"] == 7


def test_a_log_is_read_with_the_token_of_the_request_and_no_other() -> None:
    logs = Logs()
    client = page(logs)
    found = got(client, f"{PATH}/resnet-0-worker-1?previous=true")
    assert found == {"text": "epoch 1 loss 0.5", "problem": ""}
    assert logs.asked == [("resnet-0-worker-1", TOKEN, True)]
    for headers in ({}, {"Cookie": f"token={TOKEN}"}, {"Authorization": "Basic eDp5"}):
        assert got(client, f"{PATH}/resnet-0-worker-1", headers=headers) == {
            "text": "",
            "problem": "a token is needed",
        }
    assert len(logs.asked) == 1


@pytest.mark.parametrize("pod", ["resnet-1-worker-0", "..", "%2e%2e", "x%2Fy", "resnet-0"])
def test_only_the_jobs_own_pods_are_read(pod: str) -> None:
    logs = Logs()
    assert page(logs).get(f"{PATH}/{pod}", headers=BEARER).status_code in (404, 308)
    assert logs.asked == []


@cases(
    ("host", "remote", "more"),
    {
        "another pod": ("127.0.0.1:8090", "10.0.0.7", {}),
        "a name that was rebound to loopback": ("evil.example:8090", "127.0.0.1", {}),
        "a name that begins as loopback": ("127.0.0.1.evil.example", "127.0.0.1", {}),
        "a proxy in the pod": ("127.0.0.1:8090", "127.0.0.1", {"X-Forwarded-For": "10.0.0.7"}),
        "a broken Host": ("[::1", "127.0.0.1", {}),
    },
)
def test_elsewhere_no_token_is_taken(host: str, remote: str, more: dict[str, str]) -> None:
    logs = Logs()
    request = {
        "headers": {**BEARER, "Host": host, **more},
        "environ_overrides": {"REMOTE_ADDR": remote},
    }
    client = page(logs)
    assert got(client, PATH, **request)["why"] == ELSEWHERE
    assert got(client, f"{PATH}/resnet-0-worker-0", **request)["problem"] == ELSEWHERE
    assert logs.asked == []


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
def test_another_page_asks_in_vain(site: str) -> None:
    logs = Logs()
    headers = {**BEARER, "Sec-Fetch-Site": site}
    found = got(page(logs), f"{PATH}/resnet-0-worker-0", headers=headers)
    assert found["problem"] == "the request came from another page"
    assert logs.asked == []
    preflight = page(logs).options(f"{PATH}/resnet-0-worker-0", headers={"Origin": "http://x"})
    assert not any(name.startswith("Access-Control") for name, _ in preflight.headers)


@pytest.mark.parametrize("host", ["localhost:8090", "127.0.0.1:8090", "127.3.2.1", "[::1]:8090"])
def test_a_forwarded_port_is_where_a_token_is_taken(host: str) -> None:
    logs = Logs()
    headers = {**BEARER, "Host": host, "Sec-Fetch-Site": "same-origin"}
    assert got(page(logs), f"{PATH}/resnet-0-worker-0", headers=headers)["problem"] == ""


def test_no_token_is_in_what_the_server_logs(caplog: pytest.LogCaptureFixture) -> None:
    client = page(Logs(fault=RuntimeError("broken")))
    client.application.testing = False
    client.application.config["PROPAGATE_EXCEPTIONS"] = False
    with caplog.at_level(logging.DEBUG):
        answer = client.get(f"{PATH}/resnet-0-worker-0", headers=BEARER)
    assert answer.status_code == 500
    assert "broken" in caplog.text
    assert TOKEN not in caplog.text + answer.text


def test_readers_cannot_load_the_api_server() -> None:
    logs = Logs()
    client = page(logs)
    problems = [got(client, f"{PATH}/resnet-0-worker-0")["problem"] for _ in range(15)]
    assert len(logs.asked) == 10
    assert problems[-1].startswith("others read logs just now")
