"""The paper's experiments: setups that differ in one part, compared seed by seed."""

from benchmarks.paper_setups import (
    EVALUATION,
    REFERENCE,
    REPRODUCED,
    SETTINGS,
    Task,
    evaluation_setups,
    setup,
)
from optimus.simulator.forecasts import EquationForecasts


def test_every_published_ratio_has_a_setting() -> None:
    assert set(EVALUATION) == set(SETTINGS)


def test_every_experiment_begins_with_the_papers_own_policy() -> None:
    setups = evaluation_setups()
    assert setups[0] == setup(REFERENCE)
    assert len({each.name for each in setups}) == len(setups)


def test_the_reproduced_setting_changes_what_the_paper_leaves_open_for_all_policies() -> None:
    assert SETTINGS["reproduced"] is REPRODUCED
    assert EVALUATION["reproduced"] == EVALUATION["testbed"]
    jobs = Task(REPRODUCED, setup("drf", REPRODUCED.forecasts), 1).run().jobs
    assert len(jobs) == 15
    assert {job.arrived_at % 600 for job in jobs} == {0.0}
    setups = evaluation_setups(REPRODUCED.forecasts)
    assert {each.scheduler.forecasts for each in setups} == {EquationForecasts()}
    assert setups[0] == setup(REFERENCE, EquationForecasts())
