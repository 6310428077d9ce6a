"""Each rule that is switched off changes the configuration, and what a figure says."""

import pytest

from benchmarks.ablation import RULES, SHIPPED, pair_figures
from benchmarks.virtual_pairs import Pair, managed_config
from optimus.jobs import Counts
from tests.cases import cases


@cases("rule", {each: each for each in RULES if each != SHIPPED})
def test_a_rule_that_is_off_is_not_as_shipped(rule: str) -> None:
    shipped = managed_config()
    assert RULES[SHIPPED](shipped) == shipped
    assert RULES[rule](shipped).loop != shipped.loop


def test_a_rule_is_worth_what_its_absence_costs() -> None:
    without = Pair(Counts(1, 2), 1, (60.0, 110.0), (100.0, 100.0))
    shipped = Pair(Counts(1, 2), 1, (50.0, 50.0), (100.0, 100.0))
    found = pair_figures([without], [shipped])
    assert found["worth"] == pytest.approx(1.7)
    assert (found["late"], found["jobs"], found["worst"]) == (1, 2, 1.1)
