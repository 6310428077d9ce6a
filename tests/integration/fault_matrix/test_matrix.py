"""Each API call of a rescale meets each kind of fault: the job ends where it would have ended, and
nothing is lost.

With OPTIMUS_FAULT_MATRIX=all each point meets each effect, which takes about an hour. Otherwise
each write loses its reply, and each point meets one more effect in turn."""

import os
from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from localcluster.faults.faults import Cut, Effect, ErrorResponse, Hang, Kill
from tests.integration.fault_matrix.call_points import CallPoint
from tests.integration.fault_matrix.matrix_scenario import REFUSED, MatrixScenario

pytestmark = pytest.mark.timeout(3600)

EFFECTS: Final[Mapping[str, Effect]] = {
    "conflicts": ErrorResponse(409),
    "is too old": ErrorResponse(410),
    "is invalid": REFUSED,
    "is throttled": ErrorResponse(429, retry_after_seconds=1),
    "meets an internal error": ErrorResponse(500),
    "times out": Hang(20.0),  # longer than any call waits
    "is cut": Cut(),
    "loses its reply": Cut(after_effect=True),
    "is the last of a killed process, undone": Kill(),
    "is the last of a killed process, done": Kill(after_effect=True),
}
_IS_WHOLE: Final = os.environ.get("OPTIMUS_FAULT_MATRIX") == "all"


def cases(points: Sequence[CallPoint], effect: Effect) -> list[CallPoint]:
    """The points that meet this effect."""
    position = list(EFFECTS.values()).index(effect)
    return [
        point
        for number, point in enumerate(points)
        if _IS_WHOLE
        or number % len(EFFECTS) == position
        or (point.is_write and effect == Cut(after_effect=True))
    ]


@pytest.mark.parametrize("effect", [pytest.param(each, id=name) for name, each in EFFECTS.items()])
def test_a_rescale_ends_as_without_a_fault_where_a_call(
    matrix: MatrixScenario, effect: Effect
) -> None:
    violations: dict[str, list[str]] = {}
    happened = 0
    for point in cases(matrix.points, effect):
        wrong = matrix.play(point, effect)
        happened += matrix.has_happened
        if wrong:
            violations[str(point)] = wrong
    assert not violations
    assert happened


def test_the_points_are_all_that_a_rescale_does(matrix: MatrixScenario) -> None:
    """The list is made from what was seen: it has at least the writes of the machine."""
    names = [str(each) for each in matrix.points]
    for part in ('"suspend": true', '"suspend": false', "Suspending", "Resizing", "Starting"):
        assert any(part in each.partition(" after ")[0] for each in names), names
