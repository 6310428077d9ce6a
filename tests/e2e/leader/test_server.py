"""What the election and the guarded writes rely on, asked of an API server itself."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from optimus.kube.client import Client, connect
from optimus.kube.errors import ErrorKind
from optimus.kube.leases import LeaseStore
from optimus.kube.profiles import ProfileStatus, ProfileWriter, TrainingProfile, decode_profile
from optimus.kube.results import Refused, Written
from tests.e2e.leader.leader_scenario import LeaderScenario
from tests.harness.api import OPTIMUS, in_namespace
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


def test_a_status_is_written_to_the_version_that_was_read(scenario: LeaderScenario) -> None:
    """A status is written to the version that was read, and to no other."""
    namespace = scenario.scenario.namespace
    path = in_namespace(OPTIMUS, namespace, "trainingprofiles")
    body = {
        "apiVersion": "optimus.dl/v1alpha1",
        "kind": "TrainingProfile",
        "metadata": {"name": "checked", "namespace": namespace},
        "spec": {"jobRef": {"kind": "TFJob", "name": "checked", "uid": "none"}},
    }
    made = scenario.scenario.api.create(path, body)
    with _client(scenario) as client:
        writer = ProfileWriter(client)
        profile = _decoded(made)
        status = ProfileStatus(reason="first", written_by="one")
        written = writer.write_status(profile, status)
        assert isinstance(written, Written)
        late = writer.write_status(profile, ProfileStatus(reason="late"))
        assert isinstance(late, Refused)
        assert late.kind is ErrorKind.CONFLICT
        found = writer.stored(profile)
        assert isinstance(found, TrainingProfile)
        assert (found.status, found.resource_version) == (status, written.resource_version)
        assert isinstance(writer.write_status(found, ProfileStatus(reason="second")), Written)
    scenario.scenario.api.delete(f"{path}/checked")


def _decoded(stored: object) -> TrainingProfile:
    return decode_profile(msgspec.json.encode(stored))
