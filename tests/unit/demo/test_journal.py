"""What the demo's journal notes of the rows that it is shown."""

from collections.abc import Sequence
from typing import Any

import pytest

from examples.demo.journal import Journal, Row, reached
from optimus.jobs import Counts
from optimus.kube.contract import Phase
from optimus.kube.profiles import ProfileStatus, RescaleStatus

_TRAINING = {
    "phase": Phase.TRAINING,
    "reason": "no room",
    "interval_id": "1",
    "goal": "loss <= 0.2",
}


def _row(placement: str = "", **status: Any) -> Row:
    return Row("job", "TFJob", ProfileStatus(**status), Counts(1, 2), placement)


def _rescale(ident: str, ps: int = 3, workers: int = 4) -> RescaleStatus:
    return RescaleStatus(ident, "2026-01-01T00:00:00Z", 1, 2, ps, workers, "it pays")


def _noted(*rows: Row) -> Sequence[str]:
    """What is noted after the submission, of one row a second."""
    journal = Journal()
    journal.submitted("job", 0.0)
    for at, row in enumerate(rows, start=1):
        journal.follow([row], float(at))
    return [entry.text for entry in journal.entries[1:]]


def test_a_decision_is_noted_once_however_often_it_is_seen() -> None:
    row = _row(**_TRAINING)
    assert _noted(row, row) == ["stays at 1 PS + 2 workers: no room"]


def test_what_is_decided_while_no_counts_could_change_is_noted_once_the_job_trains() -> None:
    waits = _row(**{**_TRAINING, "phase": Phase.WAITING})
    assert _noted(waits, _row(**_TRAINING)) == ["stays at 1 PS + 2 workers: no room"]


def test_what_is_decided_in_the_middle_of_a_rescale_is_no_news() -> None:
    rescales = _row(
        **{**_TRAINING, "phase": Phase.STARTING, "interval_id": "2"}, rescale=_rescale("2")
    )
    after = _row(**{**_TRAINING, "interval_id": "2", "reason": "in the middle of a rescale"})
    assert _noted(rescales, after) == ["1 PS + 2 workers -> 3 PS + 4 workers: it pays"]


def test_a_rescale_is_noted_when_it_begins_and_is_part_of_the_story() -> None:
    decided = _row(phase=Phase.TRAINING, rescale=_rescale("2"), interval_id="2")
    begun = _row(phase=Phase.SUSPENDING, rescale=_rescale("2"), interval_id="2")
    journal = Journal()
    journal.submitted("job", 0.0)
    journal.follow([decided], 1.0)
    assert not journal.histories["job"].rescales
    journal.follow([begun], 2.0)
    journal.follow([begun], 3.0)
    assert [entry.at for entry in journal.histories["job"].rescales] == [2.0]


def test_a_job_that_is_stopped_at_its_goal_goes_to_no_counts() -> None:
    row = _row(phase=Phase.SUSPENDING, rescale=_rescale("2", 0, 0))
    assert _noted(row) == ["1 PS + 2 workers -> suspended: it pays"]


def test_a_placement_is_noted_when_it_is_another() -> None:
    assert _noted(_row("n1: 1 + 2"), _row(), _row("n1: 1 + 2"), _row("n2: 1 + 2")) == [
        "placed on n1: 1 + 2",
        "placed on n2: 1 + 2",
    ]


def test_the_goal_is_noted_with_the_time_that_it_took() -> None:
    row = _row(phase=Phase.AT_TARGET, goal="loss <= 0.2")
    assert _noted(_row(), row, row) == ["reached its goal after 2 s: an epoch of loss <= 0.2"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(
            {"phase": Phase.TRAINING, "progress_percent": 99}, False, id="it is nearly there"
        ),
        pytest.param(
            {"phase": Phase.SUSPENDING, "progress_percent": 100},
            True,
            id="it is there and about to stop",
        ),
        pytest.param({"phase": Phase.SUSPENDED}, True, id="it was stopped there"),
        pytest.param({}, False, id="nothing is known of it yet"),
    ],
)
def test_a_job_has_reached_its_goal_where(status: dict[str, Any], expected: bool) -> None:
    assert reached(_row(**status)) is expected
