"""The scenes of `tests/integration/localcluster_faults` on the real control plane: TLS, rights,
etcd and all."""

import pytest

from tests.integration.faults.acting import Stage
from tests.integration.faults.troubles import TROUBLES, Trouble


@pytest.mark.parametrize(
    "trouble", [pytest.param(each, id=name) for name, each in TROUBLES.items()]
)
def test_a_job_is_rescaled_once_and_loses_nothing_when(stage: Stage, trouble: Trouble) -> None:
    stage.play(trouble)
