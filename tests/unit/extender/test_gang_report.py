"""The sentence about one gang, from its report alone."""

from collections.abc import Mapping

import pytest

from extender.gang_report import GangReport, RoleReport, cause, sentence
from extender.gang_states import GangState
from extender.node_room import NodeCount, RoleRoom
from extender.waiting_notices import waiting_notices
from optimus.jobs import Role


def report(state: GangState, **fields: object) -> GangReport:
    return GangReport(
        namespace="ns",
        job="j",
        kind="TFJob",
        uid="uid",
        priority=0,
        state=state,
        **fields,  # type: ignore[arg-type]  # of a test table
    )


def lacking(admit: int, now: int, short_of: Mapping[str, int]) -> RoleReport:
    """One worker lacks a place; five nodes."""
    count = NodeCount(
        nodes=5, admit_it=admit, hold_it_now=now, hold_it_empty=admit, places=now, short_of=short_of
    )
    room = RoleRoom(count, {})
    return RoleReport(
        role=Role.WORKER, expected=1, exist=1, gated=0, bound=0, lacking=1, request={}, room=room
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            report(GangState.PLANNED, nodes=dict(zip("0123", "abcd", strict=True))),
            "is planned on a, b, c and 1 more nodes",
            id="more nodes than are named",
        ),
        pytest.param(
            report(GangState.PREEMPTING),
            "waits for the end of the pods of jobs that end anyway, whose room is reserved for it",
            id="preempting nobody",
        ),
        pytest.param(
            report(GangState.WAITING, roles=(lacking(0, 0, {}),)),
            "waits: 1 worker lacks a place (no node admits one: see its node selector, affinity"
            " and tolerations)",
            id="no node admits it, and it does not say since when",
        ),
        pytest.param(
            report(GangState.WAITING, roles=(lacking(3, 1, {}),), since="2026-01-02T03:04:05Z"),
            "waits: 1 worker lacks a place (1 of 3 nodes hold one); since 03:04 UTC",
            id="short of no resource",
        ),
    ],
)
def test_the_sentence_about_a_gang(given: GangReport, expected: str) -> None:
    assert sentence(given) == expected


def test_a_notice_is_repeated_for_another_cause_and_not_for_other_figures() -> None:
    reports = [
        report(GangState.WAITING, roles=(lacking(3, 1, {}),)),
        report(GangState.WAITING, roles=(lacking(3, 1, {}),), since="2026-01-02T03:04:05Z"),
        report(GangState.WAITING, roles=(lacking(0, 0, {}),)),
    ]
    causes = [each.cause for each in waiting_notices(reports)]
    assert causes == [cause(each) for each in reports]
    assert causes[0] == causes[1] != causes[2]
