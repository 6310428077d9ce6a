"""One cluster under Optimus for all scenarios, and a stage of its own for each."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Shown
from tests.e2e.harness.scene import Scene, scene
from tests.e2e.harness.stack import Optimus, optimus_cluster, training_nodes


@pytest.fixture(scope="package")
def running(shown: Shown) -> Iterator[Optimus]:
    """A cluster with four training nodes of four CPUs each; Optimus is not deployed yet."""
    with optimus_cluster("scenarios", training_nodes("4", "4", "4", "4")) as optimus, shown(optimus.cluster):
        yield optimus


@pytest.fixture(scope="package")
def optimus(running: Optimus) -> Optimus:
    """The same with both processes serving."""
    running.deploy()
    return running


@pytest.fixture
def stage(optimus: Optimus, tmp_path: Path) -> Iterator[Scene]:
    """A namespace with a checkpoint volume; afterwards it is empty and so are the nodes."""
    with scene(optimus, f"scene-{secrets.token_hex(4)}", tmp_path / "checkpoints") as stage:
        yield stage
