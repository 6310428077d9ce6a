"""The id of a pause for a gang, in the mark of a preempted job."""

import pytest

from optimus.kube.suspension import (
    Preemption,
    SuspensionMark,
    read_preemption,
    read_suspension,
)
from optimus.rescale.words import PauseReason

DECIDED = Preemption("ns/high", "u-1", 1_767_225_600.0)


def test_what_is_written_is_read() -> None:
    assert DECIDED.text == "preemption/ns/high/u-1/2026-01-01T00:00:00Z"
    assert read_preemption(DECIDED.text) == DECIDED
    mark = SuspensionMark(DECIDED.text, "one", PauseReason.GANG)
    assert mark.text == f"{DECIDED.text} one paused-for-gang"
    assert read_suspension(mark.text) == mark
    assert mark.preemption == DECIDED


@pytest.mark.parametrize(
    "text",
    [
        "",
        "preemption/ns/high/u-1",
        "preemption/ns/high/u-1/yesterday",
        "recovery/ns/high/u-1/2026-01-01T00:00:00Z",
    ],
)
def test_another_form_says_nothing(text: str) -> None:
    assert read_preemption(text) is None
