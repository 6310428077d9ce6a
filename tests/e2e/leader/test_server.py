"""What the election and the guarded writes rely on, asked of an API server itself."""

from collections.abc import Iterator
from contextlib import contextmanager

from optimus.kube.client import Client, connect
from optimus.kube.leases import LeaseStore
from tests.e2e.leader.leader_scenario import LeaderScenario
from tests.harness.leases import check_store


@contextmanager
def _client(scenario: LeaderScenario) -> Iterator[Client]:
    cluster = scenario.scenario.optimus.cluster
    client = connect(cluster.kubeconfig, user_agent="test")
    yield client
    client.close()


def test_a_lease_is_guarded_by_its_version(scenario: LeaderScenario) -> None:
    """The Lease of a namespace behaves as the fake one."""
    with _client(scenario) as client:
        check_store(LeaseStore(client, f"{scenario.scenario.namespace}/checked"))
