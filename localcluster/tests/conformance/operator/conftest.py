"""Jobs in the test's own namespace."""

import pytest

from tests.conformance.asking import Asking
from tests.conformance.operator.jobs import Job, replicas


@pytest.fixture
def tfjob(ask: Asking, namespace: str) -> Job:
    """A TFJob that is not made yet."""
    return Job(ask, namespace, "TFJob", "j")


@pytest.fixture
def mxjob(ask: Asking, namespace: str) -> Job:
    """An MXJob that is not made yet."""
    return Job(ask, namespace, "MXJob", "m")


@pytest.fixture
def training(tfjob: Job) -> Job:
    """A TFJob of one PS and two workers, all running; its pods are not restarted."""
    tfjob.create({"PS": replicas("TFJob", 1), "Worker": replicas("TFJob", 2)})
    tfjob.wait_pods("ps-0", "worker-0", "worker-1")
    tfjob.run("ps-0", "worker-0", "worker-1")
    tfjob.ask.until(
        lambda: tfjob.counts("Worker") == {"active": 2}, "the job counts its two workers"
    )
    tfjob.wait_condition("Running")
    return tfjob
