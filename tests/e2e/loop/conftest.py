"""One cluster under Optimus for the tests of the whole loop; a failing test tells what its jobs
went through."""

import secrets
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from localcluster.testing.clusters import Shown
from tests.harness.scene import Scene, scene
from tests.harness.stack import QUICK_TUNING, Optimus, Tuning, optimus_cluster, training_nodes

TUNING = Tuning(
    autoscaler={
        **QUICK_TUNING.autoscaler,
        "interval_seconds": "6",
        "profiling_samples": "4",
        # A rescale costs a light job some three seconds; less is said so that a job near its goal
        # still moves.
        "rescale_cost_seconds": "1",
        "least_gain_percent": "3",
        "report_seconds": "1",
    },
    extender={**QUICK_TUNING.extender, "reservation_seconds": "30"},
)
# These tests kill the two processes again and again; nobody wants to wait for a kubelet's usual
# back-off.
AGENT = {"settings": {"restart_base_seconds": 0.5, "restart_cap_seconds": 1.0}}


@pytest.fixture(scope="package")
def optimus(shown: Shown) -> Iterator[Optimus]:
    """A cluster with two training nodes of four CPUs each, and both processes serving."""
    with (
        optimus_cluster("loop", training_nodes("4", "4"), TUNING, agent=AGENT) as optimus,
        shown(optimus.cluster),
    ):
        optimus.deploy()
        yield optimus


@pytest.fixture
def stage(optimus: Optimus, tmp_path: Path) -> Iterator[Scene]:
    """A namespace with a checkpoint volume; afterwards it is empty and so are the nodes."""
    with scene(optimus, f"loop-{secrets.token_hex(4)}", tmp_path / "checkpoints") as stage:
        yield stage


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say what there is to say about the scene of a failed test, while it still stands."""
    report = yield
    stage = getattr(item, "funcargs", {}).get("stage")
    if report.failed and report.when == "call" and isinstance(stage, Scene):
        report.sections.append(("what happened", "\n".join(stage.notes)))
        report.sections.append(("scene", stage.describe()))
    return report
