"""The cluster of most tests of the extender, and the jobs on it."""

from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from localcluster.specs import numbered_nodes
from localcluster.testing.clusters import Shown
from tests.e2e.extender.binding_policies import BindingPolicies
from tests.e2e.extender.controllers import trainer_named
from tests.e2e.extender.scheduler import TrainingJobs
from tests.harness.api import Api
from tests.harness.pytorch import pytorch_environment

collect_ignore = [
    *([] if pytorch_environment() else ["test_pytorch_training.py"]),
    *([] if trainer_named() else ["test_train_jobs.py"]),
]


@pytest.fixture(scope="package")
def own(shown: Shown) -> Iterator[LocalCluster]:
    """Four nodes of four CPUs, which these tests fill; modules that need others override it."""
    nodes = numbered_nodes(4, {"cpu": "4", "memory": "8Gi"})
    images = pytorch_environment()
    with LocalCluster("shared-by-many", nodes, images=images) as cluster, shown(cluster):
        yield cluster


@pytest.fixture
def api(own: LocalCluster) -> Iterator[Api]:
    """As administrator of that cluster."""
    with own.api_client() as client:
        yield Api(client)


@pytest.fixture
def jobs(own: LocalCluster) -> Iterator[TrainingJobs]:
    """Jobs on that cluster; afterwards it is empty."""
    with TrainingJobs(own) as made:
        yield made


@pytest.fixture
def policies(api: Api) -> Iterator[BindingPolicies]:
    """Bindings that the API server refuses; none of them outlasts the test."""
    policies = BindingPolicies(api)
    yield policies
    policies.clear()
