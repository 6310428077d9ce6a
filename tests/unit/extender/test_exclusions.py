"""How long a node that kube-scheduler ruled out is excluded for a replica."""

import pytest

from extender.state.exclusions import Exclusions
from optimus.jobs import Role
from optimus.snapshot import ReplicaId

REPLICA = ReplicaId("uid", Role.WORKER, 0)


def is_excluded(exclusions: Exclusions, now: float) -> bool:
    exclusions.expire(now)
    return REPLICA in exclusions.of_job("uid")


@pytest.mark.parametrize(
    ("before", "seconds"),
    [
        pytest.param(
            0, 1, id="the first lasts a second: kube-scheduler may not have seen the room yet"
        ),
        pytest.param(1, 2, id="the second time for two"),
        pytest.param(5, 32, id="the sixth time for 32"),
        pytest.param(6, 60, id="never longer than the setting says"),
        pytest.param(99, 60, id="however often"),
    ],
)
def test_each_exclusion_of_the_same_node_lasts_twice_as_long(before: int, seconds: int) -> None:
    exclusions = Exclusions()
    for _ in range(before + 1):
        exclusions.add(REPLICA, "n", 0.0, 60.0)
    assert is_excluded(exclusions, seconds - 0.1)
    assert not is_excluded(exclusions, seconds)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda exclusions: exclusions.end(node="n"), id="the node changes"),
        pytest.param(lambda exclusions: exclusions.end(job_uid="uid"), id="the job is gone"),
    ],
)
def test_an_exclusion_and_its_length_end_when(change) -> None:  # type: ignore[no-untyped-def]  # pytest's lambdas
    exclusions = Exclusions()
    exclusions.add(REPLICA, "n", 0.0, 60.0)
    exclusions.add(REPLICA, "n", 0.0, 60.0)
    change(exclusions)
    assert not is_excluded(exclusions, 0.0)
    exclusions.add(REPLICA, "n", 0.0, 60.0)
    assert not is_excluded(exclusions, 1.0)


def test_expire_reports_an_ended_exclusion_once() -> None:
    exclusions = Exclusions()
    exclusions.add(REPLICA, "n", 0.0, 60.0)
    assert (exclusions.expire(0.5), exclusions.expire(1.0), exclusions.expire(1.5)) == (
        False,
        True,
        False,
    )
