"""The page's answers: what they hold, and what they let a browser do."""

import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask import Flask
from flask.testing import FlaskClient

import autoscaler.web
from autoscaler.web.charts import curve_charts
from autoscaler.web.detail import node_rows
from autoscaler.web.feed import PageFeed
from autoscaler.web.page import HEADERS, create_page
from optimus.interval.decision_settings import DecisionSettings
from optimus.jobs import Role
from optimus.resources import Resources
from optimus.snapshot import BoundPod, ReplicaId
from tests.cases import cases
from tests.unit.autoscaler.web.sample_cluster import AT, HOSTILE, SampleCluster, sample_display

ASSETS = Path(autoscaler.web.__file__).parent / "assets"
OWN = sorted(path for path in ASSETS.iterdir() if path.is_file())


def page_of(cluster: SampleCluster | None) -> Flask:
    feed = PageFeed(lambda: "autoscaler-1")
    if cluster is not None:
        feed.take(cluster.copy())
    return create_page(feed, DecisionSettings(), sample_display())


@pytest.fixture
def client() -> FlaskClient:
    return page_of(SampleCluster(24, hostile=True)).test_client()


def get(client: FlaskClient, path: str) -> dict[str, Any]:
    answer = client.get(path)
    assert (answer.status_code, answer.content_type) == (200, "application/json"), answer.data
    found: dict[str, Any] = json.loads(answer.data)
    return found


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/assets/app.js", "/api/overview", "/api/nodes", "/api/jobs/a/b"),
        *("/api/events/a/b", "/nothing", "/../etc"),
    ],
)
def test_every_answer_forbids_scripts_of_others(client: FlaskClient, path: str) -> None:
    answer = client.get(path, buffered=True)
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


@cases(
    ("remote", "host", "status"),
    {
        "a name of another site": ("127.0.0.1", "evil.example:8090", 403),
        "over IPv6": ("::1", "evil.example", 403),
        "over mapped IPv4": ("::ffff:127.0.0.1", "evil.example", 403),
        "a name that begins alike": ("127.0.0.1", "localhost.evil.example", 403),
        "no address": ("127.0.0.1", "[evil.example", 403),
        "localhost": ("127.0.0.1", "localhost:8090", 200),
        "a loopback name": ("127.0.0.1", "optimus.localhost:8090", 200),
        "an address": ("127.0.0.1", "127.0.0.1:8090", 200),
        "an address of IPv6": ("::1", "[::1]:8090", 200),
        "through a Service": ("10.0.0.7", "optimus-page.example", 200),
        "through a mesh's proxy": ("127.0.0.6", "optimus-page.example", 200),
    },
)
def test_another_site_cannot_reach_a_forwarded_port(
    client: FlaskClient, remote: str, host: str, status: int
) -> None:
    sent = {"REMOTE_ADDR": remote, "HTTP_HOST": host}
    for path in ("/", "/api/overview"):
        assert client.get(path, environ_overrides=sent, buffered=True).status_code == status
    if status == 403:
        answer = client.get("/api/stream", environ_overrides=sent)
        assert (answer.status_code, answer.text.count(".")) == (403, 1)
        assert answer.headers["X-Frame-Options"] == "DENY"


def test_nothing_can_be_written(client: FlaskClient) -> None:
    rules = [*client.application.url_map.iter_rules()]
    assert all((rule.methods or set()) <= {"GET", "HEAD", "OPTIONS"} for rule in rules)
    for path in ("/", "/api/overview", "/api/stream", "/api/jobs/a/b", "/api/nodes"):
        assert client.post(path).status_code == 405


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_the_assets_keep_to_the_policy(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text)
    assert not re.search(r"<script(?![^>]*\bsrc=)[^>]*>|<style|\sstyle=\"|\son\w+=\"", text)
    urls = set(re.findall(r"https?://[^\s\"'`)]+", text))
    assert urls <= {"http://www.w3.org/2000/svg"}, "the page works offline"


def test_every_asset_is_shipped_in_the_distribution() -> None:
    root = Path(autoscaler.web.__file__).parents[2]
    tools = tomllib.loads((root / "pyproject.toml").read_text())["tool"]
    patterns = tools["setuptools"]["package-data"]["autoscaler.web"]
    shipped = {path for pattern in patterns for path in ASSETS.parent.glob(pattern)}
    assert {path for path in ASSETS.rglob("*") if path.is_file()} <= shipped


def test_the_vendored_library_has_its_licence() -> None:
    folder = ASSETS / "vendor" / "uplot"
    assert "MIT License" in (folder / "LICENSE").read_text()
    assert "1.6.32" in (folder / "uPlot.iife.min.js").read_text()[:300]


def test_before_the_first_copy_it_says_so() -> None:
    client = page_of(None).test_client()
    for path in ("/api/overview", "/api/nodes", "/api/jobs/a/b"):
        answer = client.get(path)
        assert (answer.status_code, answer.json) == (
            503,
            {"error": "nothing has been observed yet"},
        )
    assert client.get("/", buffered=True).status_code == 200


def test_an_empty_cluster_is_shown_as_such() -> None:
    found = get(page_of(SampleCluster(0)).test_client(), "/api/overview")
    assert (found["rows"], found["reset"]) == ([], True)
    assert [each["requested"] for each in found["cluster"]] == [0, 0, 0]


def test_the_overview_has_every_job_and_the_clusters_use(client: FlaskClient) -> None:
    found = get(client, "/api/overview")
    assert len(found["rows"]) == 26
    row = next(each for each in found["rows"] if each["uid"] == "uid-0")
    assert (row["phase"], row["ps"], row["workers"], row["goal"]) == (
        "Training",
        2,
        2,
        "loss <= 0.15",
    )
    assert row["remaining"]["low"] < row["remaining"]["median"] < row["remaining"]["high"]
    assert row["endsAt"] == pytest.approx(AT - 30 + row["remaining"]["median"])
    waiting = next(each for each in found["rows"] if "waits" in each)["waits"]
    assert (waiting["expectedAt"], waiting["awaits"]) == (AT + 11_100, "team-a/lm-4")
    assert [each["resource"] for each in found["cluster"]] == ["cpu", "memory", "nvidia.com/gpu"]


def test_hostile_text_is_data_and_nothing_else(client: FlaskClient) -> None:
    row = next(each for each in get(client, "/api/overview")["rows"] if each["uid"] == "uid-9000")
    assert row["name"] == HOSTILE
    # What markup would need is sent in JSON, as a type that no browser takes for markup.
    answer = client.get("/api/overview")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_every_job_has_a_view_a_broken_one_too(client: FlaskClient) -> None:
    for row in get(client, "/api/overview")["rows"]:
        if "/" not in row["name"]:
            found = get(client, f"/api/jobs/{row['namespace']}/{row['name']}")
            assert found["row"]["uid"] == row["uid"]


def test_a_job_has_its_curve_speeds_places_and_decisions(client: FlaskClient) -> None:
    found = get(client, "/api/jobs/team-a/resnet-0")
    (chart,) = found["charts"]
    assert (chart["name"], chart["unit"], chart["goal"]) == ("loss", "epochs", 0.15)
    assert len(chart["k"]) == len(chart["value"]) == 6
    assert len(chart["fitK"]) == len(chart["fit"]) == len(chart["low"]) == len(chart["high"])
    assert all(low <= high for low, high in zip(chart["low"], chart["high"], strict=True))
    low, median, high = chart["met"]
    assert 6 < low < median < high
    speed = found["speed"]
    assert (len(speed["speed"]), len(speed["speed"][0])) == (6, 8)
    assert speed["speed"][1][3] == pytest.approx(speed["samples"][3]["stepsPerSecond"], rel=0.1)
    replicas = [each for place in found["places"] for each in place["replicas"]]
    assert sorted((each["role"], each["index"]) for each in replicas) == [
        ("ps", 0),
        ("ps", 1),
        ("worker", 0),
        ("worker", 1),
    ]
    assert found["decisions"][0]["reason"].startswith("worker 2 saves 212 s")


def test_a_job_has_its_events_and_those_of_its_pods(client: FlaskClient) -> None:
    found = get(client, "/api/events/team-a/resnet-0")
    assert [(each["about"], each["reason"]) for each in found["events"]] == [
        ("resnet-0", "Rescaled"),
        ("resnet-0-worker-1", "BackOff"),
        ("resnet-0", "FailedCreatePod"),
    ]
    assert client.get("/api/events/team-a/none").status_code == 404


def test_only_of_a_job_that_is_placed_and_not_managed_the_log_is_read(client: FlaskClient) -> None:
    assert get(client, "/api/logs/team-a/resnet-0") == []  # type: ignore[comparison-overlap]
    assert client.get("/api/logs/team-a/none").status_code == 404


def test_a_job_says_how_likely_its_deadline_is_met(client: FlaskClient) -> None:
    likely = [
        get(client, f"/api/jobs/{row['namespace']}/{row['name']}")["deadlineProbability"]
        for row in get(client, "/api/overview")["rows"]
        if "deadlineAt" in row and row["phase"] == "Training"
    ]
    assert likely
    assert all(0 <= each <= 1 for each in likely)
    assert get(client, "/api/jobs/team-a/resnet-0")["deadlineProbability"] is not None
    assert get(client, "/api/jobs/team-b/lm-1")["deadlineProbability"] is None


def test_the_goal_is_marked_where_the_curve_reaches_it_and_nowhere_else() -> None:
    marked = []
    for each in SampleCluster(24).copy().jobs.values():
        if each.job is None or each.progress is None:
            continue
        for chart in curve_charts(each.job, each.progress, each.forecast):
            assert (chart.goal_k is None) or chart.goal is not None
            if chart.goal_k is not None and chart.goal is not None:
                value = np.interp(chart.goal_k, chart.fit_k, chart.fit)
                marked.append(value / chart.goal)
    assert len(marked) > 5
    assert marked == pytest.approx([1.0] * len(marked), rel=2e-3)


def test_a_rising_metric_is_drawn_as_the_log_prints_it(client: FlaskClient) -> None:
    (chart,) = get(client, "/api/jobs/team-b/lm-1")["charts"]
    assert (chart["name"], chart["goal"]) == ("validation accuracy", 0.92)
    assert chart["value"][-1] > chart["value"][0]
    assert chart["fit"][-1] > chart["fit"][0]
    assert all(low <= high for low, high in zip(chart["low"], chart["high"], strict=True))


def test_a_job_that_is_not_there_is_not_found(client: FlaskClient) -> None:
    assert client.get("/api/jobs/team-a/none").status_code == 404


def test_nodes_come_in_pages_and_are_found_by_their_jobs(client: FlaskClient) -> None:
    first = get(client, "/api/nodes?limit=5")
    assert (first["total"], len(first["nodes"])) == (12, 5)
    second = get(client, "/api/nodes?limit=5&offset=5")
    assert {each["name"] for each in first["nodes"]}.isdisjoint(
        each["name"] for each in second["nodes"]
    )
    found = get(client, "/api/nodes?q=RESNET-0")
    places = get(client, "/api/jobs/team-a/resnet-0")["places"]
    assert [each["name"] for each in found["nodes"]] == [each["node"] for each in places]
    used, offered = found["nodes"][0]["amounts"]["nvidia.com/gpu"]
    assert 0 < used <= offered == 8


@pytest.mark.parametrize("query", ["offset=-5", "offset=x", "limit=0", "limit=99999", "q=%00"])
def test_strange_parameters_are_answered(client: FlaskClient, query: str) -> None:
    assert len(get(client, f"/api/nodes?{query}")["nodes"]) <= 200


def test_a_node_counts_replicas_as_what_they_are() -> None:
    """MXNet's Scheduler and TensorFlow's Chief are no workers."""
    cluster = SampleCluster(4)
    copy = cluster.copy()
    node = cluster.nodes[0].name
    roles = [Role.PS, Role.WORKER, Role.WORKER, Role.SCHEDULER, Role.CHIEF]
    pods = [
        BoundPod(f"p{n}", node, Resources(cpu=1), ReplicaId("uid-0", role, n))
        for n, role in enumerate(roles)
    ]
    seen = copy.observation
    found = replace(seen, snapshot=replace(seen.snapshot, pods=tuple(pods)))
    (row, *_) = node_rows(replace(copy, observation=found))
    assert row.jobs == [("team-a/resnet-0", {"ps": 1, "chief": 1, "worker": 2, "scheduler": 1})]
    assert [*row.jobs[0][1]] == ["ps", "chief", "worker", "scheduler"]


def test_the_stream_begins_with_everything_and_goes_on_with_what_changed() -> None:
    cluster = SampleCluster(24)
    feed = PageFeed()
    feed.take(cluster.copy())
    with feed:
        stream = iter(
            create_page(feed, DecisionSettings(), sample_display())
            .test_client()
            .get("/api/stream")
            .response
        )
        assert next(stream) == b"retry: 2000\n\n"
        first = _event(next(stream))
        assert (first["reset"], len(first["rows"])) == (True, 24)
        feed.take(cluster.copy(1))
        second = _event(next(stream))
        assert second["reset"] is False
        assert 0 < len(second["rows"]) < 24
        again = (
            create_page(feed, DecisionSettings(), sample_display())
            .test_client()
            .get("/api/stream", headers={"Last-Event-ID": first["version"]})
        )
        missed = iter(again.response)
        next(missed)
        assert _event(next(missed))["rows"] == second["rows"]


def _event(text: Any) -> dict[str, Any]:
    name, data = bytes(text).decode().split("\n")[:2]
    found: dict[str, Any] = json.loads(data.removeprefix("data: "))
    assert name == f"id: {found['version']}"
    return found
