"""What a fault does to the events of a watch."""

import json

from hypothesis import given
from hypothesis import strategies as st

from localcluster.faults.faults import Drop, EndStream, Stall, StreamFault
from localcluster.faults.streams import changed, whole_lines
from tests.cases import cases

PIECES = [b"one\ntw", b"o\n", b"three\nfour\n"]


def never(seconds: float) -> None:
    raise AssertionError(f"waits {seconds} s")


@cases(
    ("fault", "expected"),
    {
        "the first two never come": (Drop(2), b"three\nfour\n"),
        "nothing ever comes": (Drop(9), b""),
        "it ends after the first": (EndStream(1), b"one\n"),
        "it ends before the first": (EndStream(0), b""),
    },
)
def test_lines_are_lost_where(fault: StreamFault, expected: bytes) -> None:
    assert b"".join(changed(PIECES, fault, never)) == expected


def test_an_error_is_sent_after_the_lines_that_come() -> None:
    first, error = changed(PIECES, EndStream(1, code=410), never)
    assert first == b"one\n"
    event = json.loads(error)
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == (
        "ERROR",
        410,
        "Expired",
    )


def test_a_stall_holds_everything_back_once_from_the_first_line_on() -> None:
    waits: list[float] = []
    lines = changed(PIECES, Stall(2.0), waits.append)
    assert waits == []
    assert (next(lines), waits) == (b"one\n", [2.0])
    assert (list(lines), waits) == ([b"two\n", b"three\n", b"four\n"], [2.0])


def test_a_stall_waits_for_the_first_line() -> None:
    assert list(changed([], Stall(2.0), never)) == []


@given(st.lists(st.binary(max_size=6)))
def test_cutting_into_lines_loses_nothing(pieces: list[bytes]) -> None:
    lines = list(whole_lines(pieces))
    assert b"".join(lines) == b"".join(pieces)
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines[:-1])


def test_a_line_comes_as_soon_as_it_is_whole() -> None:
    pieces = iter(PIECES)
    assert next(whole_lines(pieces)) == b"one\n"
    assert list(pieces) == PIECES[1:]
