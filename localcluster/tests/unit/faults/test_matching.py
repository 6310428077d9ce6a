"""Which call meets which fault."""

import json
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.faults.connection import ended
from localcluster.faults.faults import Call, Calls, Cut, EndStream, ErrorResponse, Fault, Plan
from tests.cases import cases

JOB = "/apis/kubeflow.org/v1/namespaces/a/tfjobs/j"
SUSPENDS = Calls("PATCH", "/tfjobs/", r'"suspend": ?true')
PATCH = Call("PATCH", JOB, b'{"spec":{"runPolicy":{"suspend": true}}}')


@cases(
    ("call", "matches"),
    {
        "method, target and body are as asked for": (PATCH, True),
        "another method": (Call("PUT", JOB, PATCH.body), False),
        "another target": (Call("PATCH", "/api/v1/pods/p", PATCH.body), False),
        "another body": (Call("PATCH", JOB, b'{"suspend":false}'), False),
        "no body": (Call("PATCH", JOB), False),
        "a body that is no text all through": (Call("PATCH", JOB, b'\xff{"suspend":true}'), True),
    },
)
def test_a_call_is_one_of_these_if(call: Call, matches: bool) -> None:
    assert SUSPENDS.match(call) is matches


def test_a_selector_that_can_match_nothing_is_refused() -> None:
    with pytest.raises(re.error, match="missing"):
        Calls("GET", "(")


@pytest.mark.parametrize(("nth", "times"), [(0, 1), (1, 0), (-1, 1)])
def test_calls_are_counted_from_one(nth: int, times: int) -> None:
    with pytest.raises(ValueError, match="counted from 1"):
        Fault(SUSPENDS, Cut(), nth, times)


def injected(faults: Sequence[Fault], calls: Sequence[Call]) -> list[Fault | None]:
    plan = Plan(*faults)
    return [plan.meet(call) for call in calls]


def test_calls_before_the_named_one_are_not_counted() -> None:
    read = Call("GET", JOB)
    fault = Fault(Calls("GET", ""), ErrorResponse(409), nth=2, after=SUSPENDS)
    calls = [read, read, PATCH, read, PATCH, read, read]
    assert injected([fault], calls) == [None] * 5 + [fault, None]


def test_the_call_that_others_are_counted_after_meets_nothing_itself() -> None:
    fault = Fault(SUSPENDS, ErrorResponse(409), after=SUSPENDS)
    assert injected([fault], [PATCH] * 3) == [None, fault, None]


def test_of_two_due_faults_the_first_is_injected_and_both_count_the_call() -> None:
    one, other = Fault(SUSPENDS, ErrorResponse(409)), Fault(SUSPENDS, ErrorResponse(500), times=2)
    assert injected([one, other], [PATCH] * 3) == [one, other, None]


PLACES = st.sampled_from([Calls("GET", "a"), Calls("GET", "b"), Calls("GET", "")])
FAULTS = st.builds(
    Fault,
    PLACES,
    st.builds(ErrorResponse, st.integers(400, 403)),
    st.integers(1, 4),
    st.integers(1, 3),
)


def injected_by_search(faults: Sequence[Fault], calls: Sequence[Call]) -> list[Fault | None]:
    """The oracle: for each call and fault, count the matching calls up to it."""
    found: list[Fault | None] = []
    for position, call in enumerate(calls):
        counts = [
            sum(fault.where.match(each) for each in calls[: position + 1]) for fault in faults
        ]
        due = [
            fault
            for fault, count in zip(faults, counts, strict=True)
            if fault.where.match(call) and fault.nth <= count <= fault.nth + fault.times - 1
        ]
        found.append(due[0] if due else None)
    return found


@given(
    st.lists(FAULTS, max_size=4),
    st.lists(st.sampled_from([Call("GET", each) for each in ("a", "b", "ab", "")])),
)
def test_incremental_counts_equal_a_recount(faults: list[Fault], calls: list[Call]) -> None:
    assert injected(faults, calls) == injected_by_search(faults, calls)


@given(FAULTS, st.integers(0, 8))
def test_a_plan_is_finished_when_its_last_fault_was_injected(fault: Fault, calls: int) -> None:
    plan = Plan(fault)
    for _ in range(calls):
        plan.meet(Call("GET", "ab"))
    assert plan.is_spent is (calls >= fault.nth + fault.times - 1)


@pytest.mark.parametrize(("after", "lines"), [(0, []), (1, [b"one\n"])])
def test_a_watch_ends_after_whole_lines_with_its_error(after: int, lines: list[bytes]) -> None:
    pieces = [b"one\ntw", b"o\n", b"three\n"]
    assert list(ended(pieces, EndStream(after))) == lines
    *first, error = ended(pieces, EndStream(after, code=410))
    assert first == lines
    event = json.loads(error)
    assert (event["type"], event["object"]["reason"]) == ("ERROR", "Expired")
