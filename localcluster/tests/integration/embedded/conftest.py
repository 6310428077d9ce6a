"""An embedded cluster with two nodes, shared by the tests of this folder."""

from collections.abc import Iterator

import pytest
from kubernetes import client

from localcluster.cluster import LocalCluster
from localcluster.specs import Backend, numbered_nodes


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(
        "embedded-tests", numbered_nodes(2, {"cpu": "4"}), backend=Backend.EMBEDDED
    ) as running:
        yield running


@pytest.fixture(scope="session")
def core(cluster: LocalCluster) -> Iterator[client.CoreV1Api]:
    with cluster.api_client() as api:
        yield client.CoreV1Api(api)
