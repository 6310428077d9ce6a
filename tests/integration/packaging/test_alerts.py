"""promtool: the alerts fire when they should, and every expression can be parsed."""

import re
from pathlib import Path

import pytest
import yaml

from localcluster.paths import REPOSITORY
from tests.harness.go_tools import PROMTOOL, run_tool
from tests.unit.kube.test_monitoring import DASHBOARDS, alerts, panels

pytestmark = pytest.mark.timeout(3600)  # with the first build of promtool
CASES = REPOSITORY / "tests" / "data" / "alerts" / "alerts.test.yaml"


@pytest.fixture(scope="session")
def promtool() -> Path:
    return PROMTOOL.built()


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """The alerts as a file of rules."""
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "optimus", "rules": alerts()}]}))
    return path


def test_prometheus_takes_the_alerts(promtool: Path, rules: Path) -> None:
    done = run_tool(promtool, "check", "rules", "--lint=all", "--lint-fatal", str(rules))
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_fire_when_they_should_and_only_then(
    promtool: Path, rules: Path, tmp_path: Path
) -> None:
    cases, start = tmp_path / CASES.name, "exp_annotations: {"
    (runbook,) = {each["annotations"]["runbook_url"] for each in alerts()}
    cases.write_text(CASES.read_text().replace(start, f"{start}runbook_url: '{runbook}', "))
    done = run_tool(promtool, "test", "rules", str(cases))
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_case_where_it_fires_and_one_where_it_does_not() -> None:
    seen: dict[bool, set[str]] = {True: set(), False: set()}
    for test in yaml.safe_load(CASES.read_text())["tests"]:
        for each in test["alert_rule_test"]:
            seen[bool(each["exp_alerts"])].add(each["alertname"])
    assert seen[True] == seen[False] == {each["alert"] for each in alerts()}


def test_every_expression_of_the_dashboards_can_be_parsed(promtool: Path, tmp_path: Path) -> None:
    expressions = [
        target["expr"]
        for path in DASHBOARDS
        for panel in panels(path)
        for target in panel["targets"]
    ]
    filled = [
        re.sub(r"\$[a-z_]+", "x", each.replace("$__rate_interval", "5m")) for each in expressions
    ]
    recorded = [{"record": f"r:{number}", "expr": text} for number, text in enumerate(filled)]
    path = tmp_path / "dashboards.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": recorded}]}))
    done = run_tool(promtool, "check", "rules", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(recorded)} rules found" in done.stdout
