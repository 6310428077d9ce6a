"""Five rescales of the real MXNet example cost no accuracy."""

import pytest

from benchmarks.accuracy_over_rescales import WAYS, train
from tests.e2e.trainer.framework_processes import Environments

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

NOISE = 0.01
"""Ten times the standard deviation between jobs of two and of three workers."""


def test_five_rescales_cost_no_accuracy(frameworks: Environments) -> None:
    assert frameworks
    undisturbed, rescaled = (
        train("mxnet", 1, WAYS[way], epochs=6)[0] for way in ("2 workers", "five rescales")
    )
    assert undisturbed > 0.5, "a tenth is chance"
    assert rescaled == pytest.approx(undisturbed, abs=NOISE)
