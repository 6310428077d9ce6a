"""One cluster under Optimus for all scenarios, and a namespace for each."""

import secrets
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from localcluster.specs import Backend
from localcluster.testing.clusters import Shown
from tests.harness.optimus_cluster import (
    QUICK_TUNING,
    OptimusCluster,
    optimus_cluster,
    training_nodes,
)
from tests.harness.scenario import Scenario, scenario_namespace

QUICKER = {"interval_seconds": "2", "straggler_window_seconds": "2"}
TUNING = replace(QUICK_TUNING, autoscaler={**QUICK_TUNING.autoscaler, **QUICKER})
# A process that was killed is started again at once: a kubelet's usual back-off is not what is
# tested here.
# Annotations are shown to pods within seconds, as nobody waits for a kubelet's minute here.
AGENT = {
    "settings": {"back_off": {"base_seconds": 0.5, "cap_seconds": 1.0}, "refresh_seconds": 2.0}
}

_FOLDER = Path(__file__).parent
_SCENARIO_SECONDS = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give scenarios the time that a busy machine needs; what each waits for has limits of its own,
    and says so."""
    for item in items:
        if _FOLDER in item.path.parents:
            item.add_marker(pytest.mark.timeout(_SCENARIO_SECONDS))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A scenario runs on the real control plane; a few run on the embedded one, too, to show that
    the demo's parts work together there."""
    if "running" in metafunc.fixturenames:
        backends = [pytest.param(Backend.REAL, marks=pytest.mark.e2e)]
        if metafunc.definition.get_closest_marker("embedded"):
            backends.append(pytest.param(Backend.EMBEDDED))
        metafunc.parametrize("running", backends, indirect=True, ids=str, scope="package")


@pytest.fixture(scope="package")
def running(request: pytest.FixtureRequest, shown: Shown) -> Iterator[OptimusCluster]:
    """A cluster with four training nodes of four CPUs each, two of them with GPUs; Optimus is not
    deployed yet."""
    four = training_nodes("4", "4", "4", "4", gpus=(2, 3))
    backend: Backend = request.param
    with (
        optimus_cluster(
            f"scenarios-{backend}", four, TUNING, agent=AGENT, backend=backend
        ) as optimus,
        shown(optimus.cluster),
    ):
        yield optimus


@pytest.fixture(scope="package")
def optimus(running: OptimusCluster) -> OptimusCluster:
    """The same with both processes serving."""
    running.deploy()
    return running


@pytest.fixture
def scenario(optimus: OptimusCluster, tmp_path: Path) -> Iterator[Scenario]:
    """A namespace with a checkpoint volume; afterwards it is empty, so are the nodes, and neither
    process has erred."""
    began = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    with scenario_namespace(
        optimus, f"scenario-{secrets.token_hex(4)}", tmp_path / "checkpoints"
    ) as scenario:
        yield scenario
    assert not optimus.defects(began)
