"""Container logs: stored lines and what a reader gets."""

import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.node.logs import LogFile, LogQuery, read_log
from tests.cases import cases

START = datetime(2026, 1, 1, tzinfo=UTC)
START_NS = int(START.timestamp()) * 1_000_000_000


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogFile]:
    """A log whose clock goes on by a second with every write of lines."""
    ticks = iter(range(100))
    log = LogFile(
        tmp_path / "logs" / "0.log", clock_ns=lambda: START_NS + next(ticks) * 1_000_000_000
    )
    yield log
    if not log.closed:
        log.close()


def text(log: LogFile, query: LogQuery) -> str:
    """Return what a reader of the whole log gets."""
    return b"".join(read_log(log.path, query)).decode()


def test_lines_keep_the_instant_at_which_they_were_written(log: LogFile) -> None:
    log.write("stdout", b"one\n")
    log.write("stderr", b"two\n")
    assert log.path.read_text() == (
        "2026-01-01T00:00:00.000000000Z stdout F one\n2026-01-01T00:00:01.000000000Z stderr F two\n"
    )
    assert text(log, LogQuery()) == "one\ntwo\n"
    assert text(log, LogQuery(timestamps=True)).startswith("2026-01-01T00:00:00.000000000Z one\n")


def test_a_line_that_is_too_long_is_stored_in_parts_and_read_as_one(log: LogFile) -> None:
    for _ in range(4):
        log.write("stdout", b"x" * 10000)
    log.write("stdout", b"\n")
    assert " P x" in log.path.read_text()
    assert text(log, LogQuery()) == "x" * 40000 + "\n"
    assert (
        text(log, LogQuery(timestamps=True))
        == "2026-01-01T00:00:00.000000000Z " + "x" * 40000 + "\n"
    )


@cases(
    ("values", "expected"),
    {
        "the last lines": ({"tailLines": "2"}, "b\nc\n"),
        "no line at all": ({"tailLines": "0"}, ""),
        "more lines than there are": ({"tailLines": "9"}, "a\nb\nc\n"),
        "since an instant": ({"sinceTime": "2026-01-01T00:00:01Z"}, "b\nc\n"),
        "since an instant of another zone": ({"sinceTime": "2026-01-01T01:00:01+01:00"}, "b\nc\n"),
        "since a fraction of a second": ({"sinceTime": "2026-01-01T00:00:01.5Z"}, "c\n"),
        "the last seconds": ({"sinceSeconds": "8"}, "c\n"),
        "a number of bytes": ({"limitBytes": "3"}, "a\nb"),
        "bytes of the last lines": ({"tailLines": "2", "limitBytes": "2"}, "b\n"),
    },
)
def test_a_reader_chooses_a_part(log: LogFile, values: dict[str, str], expected: str) -> None:
    for line in (b"a\n", b"b\n", b"c\n"):
        log.write("stdout", line)
    assert text(log, LogQuery.parse(values, START + timedelta(seconds=10))) == expected


def test_a_follower_gets_what_comes_and_ends_with_the_log(log: LogFile) -> None:
    log.write("stdout", b"one\n")
    reader = read_log(log.path, LogQuery(follow=True), log)
    assert next(reader) == b"one\n"
    log.write("stdout", b"two\n")
    assert next(reader) == b"two\n"
    log.write("stdout", b"three")
    log.close()
    assert list(reader) == [b"three\n"]


@given(st.lists(st.binary(max_size=30), max_size=12), st.integers(0, 15))
def test_no_byte_of_a_stream_is_lost_however_it_is_cut(pieces: list[bytes], tail: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = LogFile(Path(folder) / "0.log", clock_ns=lambda: START_NS)
        for piece in pieces:
            log.write("stdout", piece)
        log.close()
        whole = b"".join(pieces)
        expected = whole if whole.endswith(b"\n") or not whole else whole + b"\n"
        assert b"".join(read_log(log.path, LogQuery())) == expected
        last = expected.split(b"\n")[:-1][-tail:] if tail else []
        assert b"".join(read_log(log.path, LogQuery(tail_lines=tail))) == b"".join(
            each + b"\n" for each in last
        )
