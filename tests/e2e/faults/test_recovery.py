"""The product meets every kind of fault in the middle of a rescale: the job is rescaled once and
loses nothing."""

import pytest

from tests.harness.faults.fault_cases import FAULT_CASES, FaultCase
from tests.harness.faults.fault_scenario import FaultScenario


@pytest.mark.parametrize(
    "case", [pytest.param(each, id=name) for name, each in FAULT_CASES.items()]
)
def test_a_job_is_rescaled_once_and_loses_nothing_when(
    scenario: FaultScenario, case: FaultCase
) -> None:
    scenario.play(case)
