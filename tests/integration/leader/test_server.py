"""The API server keeps Leases and versions as the election relies on."""

from tests.integration.leader.leader_scenario import LeaderScenario
from tests.integration.leader.server_checks import check_leases, check_status_writes


def test_a_lease_is_guarded_by_its_version(scenario: LeaderScenario) -> None:
    check_leases(scenario)


def test_a_status_is_written_to_the_version_that_was_read(scenario: LeaderScenario) -> None:
    check_status_writes(scenario)
