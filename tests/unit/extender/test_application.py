"""The parts of the one worker process, wired: what the API server lists becomes answers, metrics,
requeues and Events. The server is in this process, below the client."""

import io
import json
import logging
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import urllib3
import yaml
from werkzeug.test import Client

from extender.application import Application
from extender.settings import Settings

KINDS = (
    "nodes",
    "pods",
    "tfjobs",
    "mxjobs",
    "pytorchjobs",
    "jobsets",
    "trainingprofiles",
    "persistentvolumeclaims",
    "persistentvolumes",
    "storageclasses",
    "namespaces",
    "resourceslices",
    "deviceclasses",
    "resourceclaimtemplates",
    "resourceclaims",
)
CREATED = "2026-01-01T00:00:00Z"


def metadata(name: str, namespace: str = "", **more: object) -> dict[str, Any]:
    known = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "1"}
    return {**known, "creationTimestamp": CREATED, **more}


def node(name: str, cpu: int, **labels: str) -> dict[str, Any]:
    allocatable = {"cpu": str(cpu), "memory": "8Gi", "pods": "110"}
    return {"metadata": metadata(name, labels=labels), "status": {"allocatable": allocatable}}


def spec_of_pods(cpu: int = 1) -> dict[str, Any]:
    container = {"name": "tensorflow", "resources": {"requests": {"cpu": str(cpu)}}}
    return {"schedulerName": "optimus-scheduler", "containers": [container]}


def job(name: str, workers: int, cpu: int = 1, **more: object) -> dict[str, Any]:
    replicas = {"replicas": workers, "template": {"spec": spec_of_pods(cpu)}}
    return {
        "metadata": metadata(name, "ns"),
        "spec": {"tfReplicaSpecs": {"Worker": replicas}, **more},
    }


def worker(name: str, index: int, workers: int, cpu: int = 1) -> dict[str, Any]:
    hosts = {"worker": [f"{name}-worker-{each}" for each in range(workers)]}
    spec = spec_of_pods(cpu)
    task = {"cluster": hosts, "task": {"type": "worker", "index": index}}
    spec["containers"][0]["env"] = [{"name": "TF_CONFIG", "value": json.dumps(task)}]
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": name}
    labels = {
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": str(index),
    }
    owners = [{**owner, "uid": f"uid-{name}", "controller": True}]
    return {
        "metadata": metadata(f"{name}-worker-{index}", "ns", labels=labels, ownerReferences=owners),
        "spec": spec,
        "status": {"phase": "Pending"},
    }


@dataclass
class FakeServer:
    """Lists what it has and keeps what is written; every watch fails, so that nothing changes."""

    objects: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    holder: str = f"{socket.gethostname()}_1"
    reads: list[str] = field(default_factory=list)
    agents: set[str] = field(default_factory=set)
    writes: list[tuple[str, str, Any]] = field(default_factory=list)

    def request(self, method: str, url: str, **sent: Any) -> urllib3.HTTPResponse:
        parts = urlsplit(url)
        self.agents.add(sent["headers"]["User-Agent"])
        if method != "GET":
            self.writes.append((method, parts.path, json.loads(sent["body"])))
            return answer(200, {})
        self.reads.append(url)
        kind = parts.path.rpartition("/")[2]
        if parts.path.endswith("/leases/optimus-scheduler"):
            stored = {"metadata": {"name": "scheduler"}, "spec": {"holderIdentity": self.holder}}
            return answer(200, stored)
        if kind not in KINDS or "watch" in parse_qs(parts.query):
            return answer(503, {"message": "no watch"})
        found = {"metadata": {"resourceVersion": "7"}, "items": self.objects.get(kind, [])}
        return answer(200, found)

    urlopen = request

    def clear(self) -> None:
        """Called where the client is closed."""


def answer(status: int, content: object) -> urllib3.HTTPResponse:
    body = json.dumps(content).encode()
    headers = {"Content-Type": "application/json", "Date": "Thu, 01 Jan 2026 00:05:00 GMT"}
    return urllib3.HTTPResponse(io.BytesIO(body), headers, status, preload_content=False)


class Running:
    """An application on a server, one step after the other."""

    def __init__(self, settings: Settings, server: FakeServer) -> None:
        self.server, self.application = server, Application(settings)
        client = self.application._client
        vars(client.access.library().rest_client)["pool_manager"] = server
        vars(client)["access"] = client.access._replace(pool=server)  # type: ignore[arg-type]
        self.browser = Client(self.application.wsgi())
        self.now = time.monotonic()

    def list_all(self) -> None:
        """What each cache does first."""
        for cache in self.application._caches:
            cache._round()

    def step(self, seconds: float = 0.0) -> None:
        """What the threads do once; Events are written when it returns."""
        self.now += seconds
        self.requeue()
        while self.application._parts.planner.step():
            pass
        self.requeue()

    def requeue(self) -> None:
        """One run of the requeuer, with the look for what Events are written about."""
        self.application._requeuer.run_once(self.now)
        self.application._event_thread.submit(lambda: None).result(60)

    def try_all(self, job_name: str) -> None:
        """kube-scheduler tries both pods of a gang before they are planned: they are refused."""
        for index in range(2):
            asked = self.filter(worker(job_name, index, 2), "n1", "n2")
            assert asked["NodeNames"] == []

    def filter(self, pod: dict[str, Any], *names: str) -> Any:
        return self.browser.post("/filter", json={"Pod": pod, "NodeNames": names}).get_json()

    def inspect(self) -> Any:
        return self.browser.get("/inspect").get_json()

    def metric(self, name: str) -> float:
        lines = self.browser.get("/metrics").text.splitlines()
        (line,) = [each for each in lines if each.startswith(f"optimus_extender_{name} ")]
        return float(line.rpartition(" ")[2])

    def written(self, part: str) -> list[tuple[str, str, Any]]:
        return [each for each in self.server.writes if part in each[1]]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    path = tmp_path / "kubeconfig"
    content = {
        "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:9"}}],
        "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
        "users": [{"name": "none", "user": {}}],
        "current-context": "none",
    }
    path.write_text(yaml.safe_dump(content))
    return Settings(kubeconfig=path, bind_gangs=False)


@pytest.fixture
def started(settings: Settings, caplog: pytest.LogCaptureFixture) -> Iterator[list[Running]]:
    """What a test adds is stopped."""
    caplog.set_level(logging.CRITICAL)
    found: list[Running] = []
    yield found
    for each in found:
        each.application.stop()


@pytest.fixture
def server() -> FakeServer:
    """Two nodes, a gang of two that fits, one that never does, and one of which a pod lacks."""
    return FakeServer(
        {
            "nodes": [node("n1", 2, pool="a"), node("n2", 2, pool="b")],
            "tfjobs": [job("fits", 2), job("large", 2, 9), job("part", 2)],
            "pods": [
                *(worker("fits", index, 2) for index in range(2)),
                *(worker("large", index, 2, 9) for index in range(2)),
                worker("part", 0, 2),
            ],
        }
    )


@pytest.fixture
def running(settings: Settings, server: FakeServer, started: list[Running]) -> Running:
    started.append(Running(settings, server))
    return started[0]


def test_until_every_kind_has_been_listed_it_is_not_ready_and_does_not_plan(
    running: Running,
) -> None:
    for at, cache in enumerate(running.application._caches):
        answered = running.browser.get("/readyz")
        assert answered.status_code == 503
        assert answered.text == f"{', '.join(KINDS[at:])} not read yet\n"
        running.step()
        assert "not read yet" in running.filter(worker("fits", 0, 2), "n1")["Error"]
        assert running.inspect()["leads"] is False
        assert running.inspect()["notReady"] == f"{', '.join(KINDS[at:])} not read yet"
        cache._round()
    assert running.browser.get("/readyz").status_code == 200
    assert running.server.writes == []


def test_a_gang_is_planned_requeued_and_answered(running: Running) -> None:
    running.list_all()
    running.try_all("fits")
    running.step(5.0)
    requeued = running.written("-worker-")
    assert [(method, path) for method, path, _ in requeued] == [
        ("PATCH", f"/api/v1/namespaces/ns/pods/fits-worker-{index}/status") for index in range(2)
    ]
    reasons = [each["metadata"]["annotations"]["optimus.dl/requeued"] for *_, each in requeued]
    (planned,) = {reason.split()[2] for reason in reasons}  # both fit on one node
    first = worker("fits", 0, 2)
    assert running.filter(first, "n1", "n2")["NodeNames"] == [planned]
    scores = running.browser.post("/prioritize", json={"Pod": first, "NodeNames": ["n1", "n2"]})
    assert {each["Host"]: each["Score"] for each in scores.get_json()}[planned] == 10
    evicted = {planned: {"Pods": [{"UID": "a"}]}}
    asked = {"Pod": first, "NodeNameToMetaVictims": evicted}
    assert running.browser.post("/preempt", json=asked).get_json() == {"NodeNameToMetaVictims": {}}
    text = running.browser.get("/metrics").text
    assert 'optimus_extender_requeues_total{outcome="written"} 2.0' in text
    assert 'optimus_extender_call_seconds_count{verb="filter"} 3.0' in text
    assert running.metric("reservations") == 2
    assert running.metric("searches_total") >= 1
    assert running.server.agents == {"optimus-extender"}, "as the API server's log names it"


@pytest.mark.parametrize(
    ("given", "leads"),
    [
        pytest.param({"leader_identity": "another"}, True, id="its identity is given"),
        pytest.param({"leader_identity": "host"}, False, id="and is another"),
        pytest.param({"leader_lease": ""}, True, id="there is but one kube-scheduler"),
        pytest.param({}, False, id="else it is the host's name"),
    ],
)
def test_who_leads_is_set(
    settings: Settings,
    server: FakeServer,
    started: list[Running],
    given: dict[str, Any],
    leads: bool,
) -> None:
    server.holder = "another_1"
    running = Running(replace(settings, **given), server)
    started.append(running)
    running.list_all()
    running.step()
    assert running.metric("leads") == float(leads)
    assert (running.metric("reservations") == 2) is leads


def test_no_new_plan_is_made_on_a_copy_that_is_too_old(
    settings: Settings, server: FakeServer, started: list[Running]
) -> None:
    running = Running(replace(settings, cache_age_limit_seconds=1e-9), server)
    started.append(running)
    running.list_all()
    running.step()
    assert server.writes == []
    answered = running.browser.get("/readyz")
    assert answered.status_code == 503
    assert "cache-age-limit-seconds" in answered.text
    assert "cache-age-limit-seconds" in running.inspect()["notReady"]
    refused = running.filter(worker("fits", 0, 2), "n1")["FailedAndUnresolvableNodes"]
    assert "cache-age-limit-seconds" in refused["n1"]
