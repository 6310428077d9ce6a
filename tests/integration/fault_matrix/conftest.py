"""An embedded cluster for rescales and one for profiling, both processes behind proxies, and the
one job."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from localcluster.specs import Backend
from tests.harness.faults.fault_scenario import FaultScenario
from tests.harness.faults.processes import TUNING
from tests.harness.faults.setup import fault_scenario
from tests.harness.optimus_cluster import training_nodes
from tests.integration.fault_matrix.matrix_scenario import (
    MatrixScenario,
    PausingScenario,
    ProfilingScenario,
    ResizingScenario,
)

# An autoscaler that is killed leaves its Lease: the next one waits for so long.
_LEASE = {"lease_seconds": "6"}
# A job is moved to be measured, and not by what is expected of it.
_PROFILING = {
    "expected_gain_percent": "100",
    "interval_seconds": "1",
    "log_poll_seconds": "0.5",
    "profiling_seconds": "1",
    "rescale_spacing_seconds": "1",
}


# The long job is decided by what is expected of it, soon after it has begun to train.
_PAUSING = {
    "policy": "srtf",
    "interval_seconds": "2",
    "log_poll_seconds": "0.5",
    "profiling_seconds": "1",
}


@contextmanager
def _fault_scenario(
    name: str, folder: Path, settings: Mapping[str, str], *cpus: str
) -> Iterator[FaultScenario]:
    tuning = replace(TUNING, autoscaler={**TUNING.autoscaler, **_LEASE, **settings})
    with (
        LocalCluster(name, training_nodes(*cpus), backend=Backend.EMBEDDED) as cluster,
        fault_scenario(cluster, folder, tuning=tuning) as made,
    ):
        yield made


@pytest.fixture(scope="package")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MatrixScenario]:
    """The cluster, and the points of an undisturbed rescale."""
    with _fault_scenario("matrix", tmp_path_factory.mktemp("matrix"), {}, "4", "4") as made:
        yield MatrixScenario(made)


@pytest.fixture(scope="package")
def profiling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProfilingScenario]:
    """The cluster, and the points of undisturbed profiling."""
    folder = tmp_path_factory.mktemp("profiling")
    with _fault_scenario("profiling", folder, _PROFILING, "4", "4") as made:
        yield ProfilingScenario(made)


@pytest.fixture(scope="package")
def pausing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PausingScenario]:
    """The cluster, and the points of an undisturbed pause and of a resume."""
    folder = tmp_path_factory.mktemp("pausing")
    with _fault_scenario("pausing", folder, _PAUSING, "4", "4", "4", "4") as made:
        yield PausingScenario(made)


@pytest.fixture(scope="package")
def resizing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ResizingScenario]:
    """The cluster, and the points of an undisturbed change of workers in place."""
    folder = tmp_path_factory.mktemp("resizing")
    with _fault_scenario("resizing", folder, {}, "4", "4") as made:
        yield ResizingScenario(made)
