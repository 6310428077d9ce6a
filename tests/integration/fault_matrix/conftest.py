"""The clusters of the matrix, with both processes behind proxies and the jobs of one course."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from localcluster.cluster import LocalCluster
from localcluster.specs import Backend
from localcluster.testing.clusters import Shown
from tests.harness.faults.fault_scenario import FaultScenario
from tests.harness.faults.processes import TUNING
from tests.harness.faults.setup import fault_scenario
from tests.harness.optimus_cluster import training_nodes
from tests.integration.fault_matrix.matrix_scenario import (
    FairShareScenario,
    MatrixScenario,
    PausingScenario,
)
from tests.integration.fault_matrix.ranks_scenario import RanksScenario

# A job is moved to be measured, and not by what is expected of it.
# A job is decided by what is expected of it, soon after it has begun to train.
_DECIDED_ANEW = {"interval_seconds": "2", "log_poll_seconds": "0.5", "profiling_samples": "1"}
_POLICIES: Final[Mapping[str, tuple[Callable[[FaultScenario], MatrixScenario], str]]] = {
    "srtf": (PausingScenario, "pack"),
    "gavel-sjf": (PausingScenario, "theorem1"),
    "drf": (FairShareScenario, "spread"),
}
"""What is done under a policy, and its placement rule: one pauses jobs, one does so by turns, one
rescales them."""


@contextmanager
def _on(
    cluster: LocalCluster, folder: Path, settings: Mapping[str, str], placement: str = "theorem1"
) -> Iterator[FaultScenario]:
    tuning = replace(
        TUNING,
        autoscaler={**TUNING.autoscaler, **settings, "placement": placement},
        extender={**TUNING.extender, "placement": placement},
    )
    with fault_scenario(cluster, folder, tuning=tuning) as made:
        yield made


@contextmanager
def _two_nodes(
    name: str, folders: pytest.TempPathFactory, settings: Mapping[str, str]
) -> Iterator[FaultScenario]:
    with (
        LocalCluster(name, training_nodes("4", "4"), backend=Backend.EMBEDDED) as cluster,
        _on(cluster, folders.mktemp(name), settings) as made,
    ):
        yield made


@pytest.fixture(scope="package")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MatrixScenario]:
    """The cluster, and the points of an undisturbed rescale."""
    with _two_nodes("matrix", tmp_path_factory, {}) as made:
        yield MatrixScenario(made)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RanksScenario]:
    """The cluster, and the points of two undisturbed moves of a PyTorchJob."""
    with _two_nodes("ranks", tmp_path_factory, {}) as made:
        yield RanksScenario(made)


@pytest.fixture(
    scope="package",
    params=[
        pytest.param(Backend.EMBEDDED, id="embedded"),
        pytest.param(Backend.REAL, id="real", marks=pytest.mark.e2e),
    ],
)
def four_nodes(request: pytest.FixtureRequest, shown: Shown) -> Iterator[LocalCluster]:
    backend: Backend = request.param
    nodes = training_nodes("4", "4", "4", "4")
    with LocalCluster(f"policies-{backend}", nodes, backend=backend) as cluster, shown(cluster):
        yield cluster


@pytest.fixture(scope="package", params=_POLICIES)
def decided_anew(
    four_nodes: LocalCluster,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[MatrixScenario]:
    """The cluster under a policy that decides anew in each interval, and the points of what it
    does to jobs."""
    policy: str = request.param
    scenario_of, placement = _POLICIES[policy]
    settings = {**_DECIDED_ANEW, "policy": policy}
    with _on(four_nodes, tmp_path_factory.mktemp(policy), settings, placement) as made:
        yield scenario_of(made)
