"""The product meets every kind of fault in the middle of a rescale: the job is rescaled once and
loses nothing."""

import pytest

from tests.integration.faults.acting import Stage
from tests.integration.faults.troubles import TROUBLES, Trouble


@pytest.mark.parametrize(
    "trouble", [pytest.param(each, id=name) for name, each in TROUBLES.items()]
)
def test_a_job_is_rescaled_once_and_loses_nothing_when(stage: Stage, trouble: Trouble) -> None:
    stage.play(trouble)
