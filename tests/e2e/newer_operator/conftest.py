"""The scenarios' fixtures, on a cluster with a newer training operator than they have.

It is 1.9.3, or the one that $OPTIMUS_TEST_OPERATOR names (``make test-matrix``)."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster.testing.clusters import Shown
from tests.harness.optimus_cluster import OptimusCluster, Tuning, optimus_cluster, training_nodes
from tests.scenarios.conftest import AGENT, TUNING, scenario

__all__ = ["scenario"]

OPERATOR = os.environ.get("OPTIMUS_TEST_OPERATOR", "1.9.3")
_STATED = {"operator_version": OPERATOR}
_TUNING = Tuning({**TUNING.autoscaler, **_STATED}, {**TUNING.extender, **_STATED})
_FOLDER = Path(__file__).parent
_SECONDS = 900  # the first one waits until the operator is built


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave MXJobs out: 1.9 has none."""
    own = [item for item in items if _FOLDER in item.path.parents]
    has_mxjobs = OPERATOR.startswith("1.8.")
    others = [item for item in own if "MXJob" in item.name and not has_mxjobs]
    for item in own:
        item.add_marker(pytest.mark.timeout(_SECONDS))
    items[:] = [item for item in items if item not in others]
    config.hook.pytest_deselected(items=others)


@pytest.fixture(scope="package")
def optimus(shown: Shown) -> Iterator[OptimusCluster]:
    """Four training nodes of four CPUs each, and both processes serving."""
    nodes = training_nodes("4", "4", "4", "4")
    how = {"agent": AGENT, "training_operator": OPERATOR}
    with (
        optimus_cluster("newer-operator", nodes, _TUNING, **how) as optimus,
        shown(optimus.cluster),
    ):
        optimus.deploy()
        yield optimus
