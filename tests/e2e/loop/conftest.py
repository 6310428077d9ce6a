"""One cluster under Optimus for the tests of the whole loop; a failing test shows what its jobs
went through."""

import secrets
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from localcluster.testing.clusters import Shown
from tests.harness.optimus_cluster import (
    QUICK_TUNING,
    OptimusCluster,
    Tuning,
    optimus_cluster,
    training_nodes,
)
from tests.harness.scenario import Scenario, scenario_namespace

TUNING = Tuning(
    autoscaler={
        **QUICK_TUNING.autoscaler,
        "interval_seconds": "6",
        "profiling_samples": "4",
        # A rescale costs a light job some three seconds; less is set so that a job near its goal
        # still moves.
        "rescale_cost_seconds": "1",
        "least_gain_percent": "3",
        # These tests go through all profiling runs.
        "measure_first": "true",
        "report_seconds": "1",
    },
    extender={**QUICK_TUNING.extender, "reservation_seconds": "30"},
)
# These tests kill the two processes again and again; a kubelet's usual back-off would
# only delay them.
AGENT = {"settings": {"back_off": {"base_seconds": 0.5, "cap_seconds": 1.0}}}


@pytest.fixture(scope="package")
def optimus(shown: Shown) -> Iterator[OptimusCluster]:
    """A cluster with two training nodes of four CPUs each, and both processes serving."""
    with (
        optimus_cluster("loop", training_nodes("4", "4"), TUNING, agent=AGENT) as optimus,
        shown(optimus.cluster),
    ):
        optimus.deploy()
        yield optimus


@pytest.fixture
def scenario(optimus: OptimusCluster, tmp_path: Path) -> Iterator[Scenario]:
    """A namespace with a checkpoint volume; afterwards it is empty and so are the nodes."""
    with scenario_namespace(
        optimus, f"loop-{secrets.token_hex(4)}", tmp_path / "checkpoints"
    ) as scenario:
        yield scenario


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Describe the scenario of a failed test before it is removed."""
    report = yield
    scenario = getattr(item, "funcargs", {}).get("scenario")
    if report.failed and report.when == "call" and isinstance(scenario, Scenario):
        report.sections.append(("what happened", "\n".join(scenario.notes)))
        report.sections.append(("scenario", scenario.describe()))
    return report
