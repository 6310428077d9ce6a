"""A PyTorchJob is moved while the autoscaler is killed at each of its writes: it trains on where it
was stopped, at the counts that its user asked for, and is not left suspended."""

import pytest

from tests.integration.fault_matrix.effects import WRITES, assert_written
from tests.integration.fault_matrix.ranks_scenario import RanksScenario

pytestmark = pytest.mark.timeout(3600)


def test_a_move_of_ranks_ends_as_without_a_kill_at_any_write(ranks: RanksScenario) -> None:
    assert_written(ranks, WRITES)
    wrong, left = ranks.kill_at([each for each in ranks.points if each.is_write])
    assert not wrong
    assert not [str(each) for each in left]
