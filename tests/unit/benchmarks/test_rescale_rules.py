"""The benchmark of the rules about stopping jobs, on a few jobs."""

from dataclasses import replace

import pytest

from benchmarks.rescale_rules import LOSSES, RULES, Setting, run


def test_it_gives_the_same_figures_again() -> None:
    setting = RULES["all rules"]
    assert run(setting, 4, 1, 300.0) == run(setting, 4, 1, 300.0)


@pytest.mark.parametrize("setting", [pytest.param(each, id=name) for name, each in LOSSES.items()])
def test_lost_workers_cost_time(setting: Setting) -> None:
    without = run(replace(setting, loses=False), 4, 1, 100.0)
    found = run(setting, 4, 1, 100.0)
    assert found["average JCT s"] > without["average JCT s"]
    assert found["restarts"] > without["restarts"]
