"""What was said of moves beside what came."""

import pytest

from benchmarks.calibration import Look, of_pair, rows
from optimus.jobs import Counts


def test_looks_are_put_together_by_what_was_measured_and_by_the_chance() -> None:
    looks = [
        Look(1, 0.9, True, 50.0, 20.0, 0.2, 0.3, True, 60.0),
        Look(1, 0.5, False, 10.0, 0.0, -0.2, 0.1, False, 60.0),
        Look(5, 0.95, True, 30.0, 40.0, 0.0, 0.2, True, 60.0),
    ]
    found = rows("pairs", looks)
    once = found["pairs, 1 measured"]
    assert (once["looks"], once["gained"]) == (2, 0.5)
    assert once["chance"] == pytest.approx(0.7)
    assert (once["saving said, s"], once["came, s"]) == (30.0, 10.0)
    assert once["ratio's error"] == 0.0
    assert once["its deviation"] == pytest.approx(0.2)
    assert found["pairs, 3 or more measured"]["looks"] == 1
    assert found["pairs, said 0.8 to 1.0"]["looks"] == 2
    assert found["pairs, no declared end"]["looks"] == 1


def test_moves_of_few_replicas_are_looked_at_and_most_would_gain() -> None:
    looks = of_pair((Counts(1, 2), 1))
    assert sum(each.gained for each in looks) > len(looks) / 2
