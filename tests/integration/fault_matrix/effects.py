"""The faults that each API call of a rescale, a pause or a resume meets.

With OPTIMUS_FAULT_MATRIX=all each point meets each effect, which takes about two hours. Otherwise
each point meets one effect in turn, and each write of a rescale loses its reply. At each point the
autoscaler is killed, too (``MatrixScenario.kill_at``)."""

import os
from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from localcluster.faults.faults import Cut, Effect, ErrorResponse, Hang, Kill
from tests.integration.fault_matrix.call_points import CallPoint
from tests.integration.fault_matrix.matrix_scenario import REFUSED, MatrixScenario

EFFECTS: Final[Mapping[str, Effect]] = {
    "conflicts": ErrorResponse(409),
    "is too old": ErrorResponse(410),
    "is invalid": REFUSED,
    "is throttled": ErrorResponse(429, retry_after_seconds=1),
    "meets an internal error": ErrorResponse(500),
    "times out": Hang(20.0),  # longer than any call waits
    "loses its reply": Cut(after_effect=True),
    "is the last of a killed process": Kill(after_effect=True),
}
_IS_WHOLE: Final = os.environ.get("OPTIMUS_FAULT_MATRIX") == "all"

EACH_BUT_KILLS = pytest.mark.parametrize(
    "effect",
    [pytest.param(each, id=name) for name, each in EFFECTS.items() if not isinstance(each, Kill)],
)

WRITES: Final = ('"suspend": true', '"suspend": false', "Suspending", "Resizing", "Starting")
"""The writes of the machine."""


def cases(points: Sequence[CallPoint], effect: Effect, *, writes: bool = False) -> list[CallPoint]:
    """Return the points that meet this effect: each point one effect in turn.

    With `writes` all of them lose their reply."""
    position = list(EFFECTS.values()).index(effect)
    return [
        point
        for number, point in enumerate(points)
        if _IS_WHOLE
        or number % len(EFFECTS) == position
        or (writes and point.is_write and effect == Cut(after_effect=True))
    ]


def play(matrix: MatrixScenario, effect: Effect, points: Sequence[CallPoint]) -> None:
    violations: dict[str, list[str]] = {}
    happened = 0
    for point in points:
        wrong = matrix.play(point, effect)
        happened += matrix.has_happened
        if wrong:
            violations[str(point)] = wrong
    print(f"{happened} of {len(points)} points met the fault")
    assert not violations, violations
    assert happened


def assert_written(matrix: MatrixScenario, parts: Sequence[str]) -> None:
    names = [str(each) for each in matrix.points]
    for part in parts:
        assert any(part in each.partition(" after ")[0] for each in names), names
