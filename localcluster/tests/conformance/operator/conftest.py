"""Jobs in the test's own namespace."""

import pytest

from localcluster.binaries.modules import DEFAULT_OPERATOR
from localcluster.cluster import LocalCluster
from tests.conformance.api_calls import ApiCalls
from tests.conformance.operator.jobs import Job, replicas


@pytest.fixture
def tfjob(api: ApiCalls, namespace: str) -> Job:
    """A TFJob that is not made yet."""
    return Job(api, namespace, "TFJob", "j")


@pytest.fixture
def refuses_early(backend: LocalCluster) -> bool:
    """Whether the operator is one whose webhook and CRD refuse invalid jobs before they are stored:
    1.9."""
    return backend.training_operator != DEFAULT_OPERATOR


@pytest.fixture
def mxjob(api: ApiCalls, namespace: str, refuses_early: bool) -> Job:
    """An MXJob that is not made yet."""
    if refuses_early:
        pytest.skip("this operator has no MXJobs")
    return Job(api, namespace, "MXJob", "m")


@pytest.fixture
def dynamic(tfjob: Job) -> Job:
    """A TFJob of one PS and three workers that come and go, all running."""
    specs = {"PS": replicas("TFJob", 1), "Worker": replicas("TFJob", 3)}
    names = ("ps-0", "worker-0", "worker-1", "worker-2")
    tfjob.create(specs, enableDynamicWorker=True)
    tfjob.wait_pods(*names)
    tfjob.run(*names)
    tfjob.wait_condition("Running")
    return tfjob


@pytest.fixture
def training(tfjob: Job) -> Job:
    """A TFJob of one PS and two workers, all running; its pods are not restarted."""
    tfjob.create({"PS": replicas("TFJob", 1), "Worker": replicas("TFJob", 2)})
    tfjob.wait_pods("ps-0", "worker-0", "worker-1")
    tfjob.run("ps-0", "worker-0", "worker-1")
    tfjob.api.wait_until(
        lambda: tfjob.counts("Worker") == {"active": 2}, "the job counts its two workers"
    )
    tfjob.wait_condition("Running")
    return tfjob
