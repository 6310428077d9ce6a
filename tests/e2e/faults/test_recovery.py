"""The scenarios of `tests/integration/localcluster_faults` on the real control plane: TLS, rights,
etcd and all."""

import pytest

from tests.integration.faults.fault_cases import FAULT_CASES, FaultCase
from tests.integration.faults.fault_scenario import FaultScenario


@pytest.mark.parametrize(
    "case", [pytest.param(each, id=name) for name, each in FAULT_CASES.items()]
)
def test_a_job_is_rescaled_once_and_loses_nothing_when(
    scenario: FaultScenario, case: FaultCase
) -> None:
    scenario.play(case)
