"""A start that loses a port to another program is made again with other ports, but not for ever."""

import pytest

from localcluster.errors import ClusterError
from localcluster.supervisor.main import with_other_ports
from localcluster.supervisor.runner import PortTakenError


class Attempts:
    """Fails a given number of times, then succeeds."""

    def __init__(self, failures: list[Exception]) -> None:
        self.failures = failures
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        if self.failures:
            raise self.failures.pop(0)
        return "signal SIGTERM"


def test_a_lost_port_leads_to_another_try_and_is_reported() -> None:
    attempt, said = Attempts([PortTakenError("etcd lost its port")]), list[str]()
    assert with_other_ports(attempt, said.append) == "signal SIGTERM"
    assert (attempt.count, said) == (2, ["etcd lost its port"])


def test_any_other_failure_ends_it_at_once() -> None:
    attempt, said = Attempts([ClusterError("no such flag")]), list[str]()
    with pytest.raises(ClusterError, match="no such flag"):
        with_other_ports(attempt, said.append)
    assert (attempt.count, said) == (1, [])


def test_it_gives_up_after_a_few_tries_where_every_port_is_taken() -> None:
    attempt, said = Attempts([PortTakenError("again")] * 50), list[str]()
    with pytest.raises(PortTakenError):
        with_other_ports(attempt, said.append)
    assert attempt.count == len(said) + 1 == 4
