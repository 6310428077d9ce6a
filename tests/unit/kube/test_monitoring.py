"""What monitors Optimus asks for what there is: metrics, fields of profiles, ports."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from optimus.kube.contract import Phase
from tests.harness.exposed_metrics import exposed_metrics
from tests.unit.docs.pages import page, spans

ROOT: Final = Path(__file__).parents[3]
FOLDER: Final = ROOT / "manifests" / "monitoring"
DASHBOARDS: Final = sorted((FOLDER / "dashboards").glob("*.json"))
_SUFFIXES: Final = {
    "histogram": ("_bucket", "_sum", "_count"),
    "counter": ("",),
    "gauge": ("",),
}


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def per_job() -> dict[str, dict[str, Any]]:
    """The series of each job by their names, with what they are made of."""
    (resource,) = read(FOLDER / "kube-state-metrics.yaml")["spec"]["resources"]
    prefix = resource["metricNamePrefix"]
    return {f"{prefix}_{each['name']}": each["each"] for each in resource["metrics"]}


def series(folder: Path) -> set[str]:
    """Every name that an expression may have."""
    return {
        name + suffix
        for name, kind in exposed_metrics(folder).items()
        for suffix in _SUFFIXES[kind]
    } | per_job().keys()


def alerts() -> list[dict[str, Any]]:
    (group,) = read(FOLDER / "prometheus-rule.yaml")["spec"]["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def panels(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["panels"]
    return found


def expressions(path: Path) -> list[str]:
    """Those of the panels, and the questions of the variables."""
    variables = json.loads(path.read_text())["templating"]["list"]
    asked = [each["query"] for each in variables if each["type"] == "query"]
    return [*asked, *(each["expr"] for panel in panels(path) for each in panel["targets"])]


def names(expression: str) -> set[str]:
    """The series that an expression is about."""
    return set(re.findall(r"\boptimus_[a-z_]+", expression))


def test_every_series_of_the_alerts_is_there(tmp_path: Path) -> None:
    known = series(tmp_path)
    for each in alerts():
        assert names(each["expr"]), each["alert"]
        assert names(each["expr"]) <= known, each["alert"]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_series_of_a_dashboard_is_there(tmp_path: Path, path: Path) -> None:
    known = series(tmp_path)
    for each in expressions(path):
        assert names(each), each
        assert names(each) <= known, each


def test_every_metric_and_every_series_of_a_job_is_on_a_dashboard(tmp_path: Path) -> None:
    shown = {name for path in DASHBOARDS for each in expressions(path) for name in names(each)}
    bare = {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown}
    # Shown as the alert that it is.
    assert exposed_metrics(tmp_path).keys() - bare == {"optimus_extender_leader_mismatch"}
    assert per_job().keys() <= bare


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_of_a_dashboard_have_a_place_and_a_source(path: Path) -> None:
    taken: set[tuple[int, int]] = set()
    found = panels(path)
    assert len({each["id"] for each in found}) == len(found)
    for each in found:
        at = each["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert taken.isdisjoint(cells), each["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
        assert all(target["datasource"]["uid"] == "${datasource}" for target in each["targets"])


def profile_fields() -> tuple[dict[str, Any], set[str]]:
    """The schema of a TrainingProfile, and the versions that are served."""
    crd = read(ROOT / "manifests" / "crds" / "crd-trainingprofiles.yaml")["spec"]
    (stored,) = [each for each in crd["versions"] if each["storage"]]
    served = {each["name"] for each in crd["versions"] if each["served"]}
    schema: dict[str, Any] = stored["schema"]["openAPIV3Schema"]["properties"]
    return schema, served


def field_at(path: list[str]) -> dict[str, Any]:
    schema, _ = profile_fields()
    if path[0] == "metadata":
        return {"type": "string"}
    field = schema[path[0]]
    for part in path[1:]:
        field = field["properties"][part]
    return dict(field)


def test_what_is_read_of_a_profile_is_a_field_of_it() -> None:
    (resource,) = read(FOLDER / "kube-state-metrics.yaml")["spec"]["resources"]
    assert resource["groupVersionKind"]["version"] in profile_fields()[1]
    labels = list(resource["labelsFromPath"].values())
    labels += per_job()["optimus_job_info"]["info"]["labelsFromPath"].values()
    assert {field_at(path)["type"] for path in labels} == {"string"}
    gauges = [each["gauge"]["path"] for each in per_job().values() if each["type"] == "Gauge"]
    assert gauges
    assert {field_at(path)["type"] for path in gauges} <= {"integer", "number"}


def test_every_phase_is_a_state() -> None:
    states = per_job()["optimus_job_phase"]["stateSet"]
    assert states["list"] == [phase.value for phase in Phase]
    assert states["list"] == field_at(states["path"])["enum"]


def test_kube_state_metrics_may_read_profiles() -> None:
    role = read(FOLDER / "rbac-kube-state-metrics.yaml")
    (group,) = {each["groupVersionKind"]["group"] for each in resources()}
    profiles = {"apiGroups": [group], "resources": ["trainingprofiles"], "verbs": ["list", "watch"]}
    assert profiles in role["rules"]


def resources() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read(FOLDER / "kube-state-metrics.yaml")["spec"]["resources"]
    return found


def test_prometheus_is_shown_the_ports_of_both_processes() -> None:
    monitor = read(FOLDER / "pod-monitor.yaml")["spec"]
    asked = {each["port"] for each in monitor["podMetricsEndpoints"]}
    selected = monitor["selector"]["matchLabels"].items()
    declared = set[str]()
    for name in ("autoscaler.yaml", "scheduler.yaml", "cluster-scheduler/extender.yaml"):
        template = read(ROOT / "manifests" / name)["spec"]["template"]
        assert selected <= template["metadata"]["labels"].items()
        pod = template["spec"]
        own = [
            port["name"]
            for each in [*pod.get("initContainers", ()), *pod["containers"]]
            for port in each["ports"]
            if port["name"] in asked
        ]
        assert len(own) == 1, name
        declared |= set(own)
    assert declared == asked


def test_every_alert_says_how_bad_it_is_and_what_to_do() -> None:
    for each in alerts():
        assert each["labels"]["severity"] in ("info", "warning", "critical")
        assert ";" in each["annotations"]["summary"], each["alert"]


def test_every_alert_leads_to_its_row_in_the_guide() -> None:
    for each in alerts():
        address, _, anchor = each["annotations"]["runbook_url"].partition("#")
        guide = page(address.removeprefix("https://REPOSITORY/"))
        assert anchor in guide.anchors
        rows = [spans(row[0]) for row in guide.rows(anchor.capitalize())]
        assert sum(each["alert"] in row for row in rows) == 1, each["alert"]
