"""A process that plans once, beside two that are there already."""

import subprocess
from pathlib import Path

import pytest

from tests.e2e.leader.leader_scenario import LeaderScenario
from tests.harness.faults.processes import AUTOSCALER

_SECONDS = 300
pytestmark = pytest.mark.timeout(600)


def planned_once(scenario: LeaderScenario, *flags: str) -> "subprocess.CompletedProcess[str]":
    command = [*scenario.product.commands[AUTOSCALER], "--listen=127.0.0.1:0", "--once", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)


def test_a_dry_run_needs_no_lease(scenario: LeaderScenario) -> None:
    scenario.both()
    holder = scenario.holder()
    done = planned_once(scenario, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert scenario.holder() == holder


def test_one_that_would_write_gives_up_while_another_leads(
    scenario: LeaderScenario, tmp_path: Path
) -> None:
    scenario.both()
    holder = scenario.holder()
    config = tmp_path / "config.yaml"
    config.write_text("autoscaler: {lease-seconds: 2}")
    done = planned_once(scenario, f"--config={config}")
    assert done.returncode == 1
    assert f"{holder} leads: --once would act beside it" in done.stderr
    assert scenario.holder() == holder
