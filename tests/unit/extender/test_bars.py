"""How long a replica is kept off a node that kube-scheduler did not let it go to."""

import pytest

from extender.state.exclusions import Exclusions
from optimus.jobs import Role
from optimus.snapshot import ReplicaId

REPLICA = ReplicaId("uid", Role.WORKER, 0)


def barred(bars: Exclusions, now: float) -> bool:
    bars.expire(now)
    return REPLICA in bars.of_job("uid")


@pytest.mark.parametrize(
    ("before", "seconds"),
    [
        pytest.param(
            0,
            1,
            id=(
                "the first time for a second: kube-scheduler may not have seen yet that room "
                "appeared"
            ),
        ),
        pytest.param(1, 2, id="the second time for two"),
        pytest.param(5, 32, id="the sixth time for 32"),
        pytest.param(6, 60, id="never longer than the setting says"),
        pytest.param(99, 60, id="however often"),
    ],
)
def test_each_bar_on_the_same_node_lasts_twice_as_long(before: int, seconds: int) -> None:
    bars = Exclusions()
    for _ in range(before + 1):
        bars.add(REPLICA, "n", 0.0, 60.0)
    assert barred(bars, seconds - 0.1)
    assert not barred(bars, seconds)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda bars: bars.node_changed("n"), id="the node changes"),
        pytest.param(lambda bars: bars.forget("uid"), id="the job is gone"),
    ],
)
def test_a_bar_and_its_length_are_forgotten_when(change) -> None:  # type: ignore[no-untyped-def]  # pytest's lambdas
    bars = Exclusions()
    bars.add(REPLICA, "n", 0.0, 60.0)
    bars.add(REPLICA, "n", 0.0, 60.0)
    change(bars)
    assert not barred(bars, 0.0)
    bars.add(REPLICA, "n", 0.0, 60.0)
    assert not barred(bars, 1.0)


def test_a_lifted_bar_is_told_once() -> None:
    bars = Exclusions()
    bars.add(REPLICA, "n", 0.0, 60.0)
    assert (bars.expire(0.5), bars.expire(1.0), bars.expire(1.5)) == (False, True, False)
