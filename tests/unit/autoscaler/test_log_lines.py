"""What users write into their objects makes no line of a process's log."""

import io
import logging
from collections.abc import Iterator

import pytest

from optimus.runtime.logs import LineFormatter

FORGED = "a\n2026-01-01 00:00:00,000 WARNING autoscaler: job ns/other: gone\r\x1b[2J\u2028"


@pytest.fixture
def written() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    log, stream = logging.getLogger("test of log lines"), io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter())
    log.addHandler(handler)
    log.propagate = False
    yield log, stream
    log.removeHandler(handler)


def test_a_message_is_one_line_without_commands_to_a_terminal(
    written: tuple[logging.Logger, io.StringIO],
) -> None:
    log, stream = written
    log.warning("job ns/j: names scheduler %s", FORGED)
    (line,) = stream.getvalue().splitlines()
    assert line.isprintable()
    assert r"names scheduler a\n2026-01-01" in line


def test_a_message_has_a_maximum_length(written: tuple[logging.Logger, io.StringIO]) -> None:
    log, stream = written
    log.warning("%s", "a" * 1_000_000)
    assert len(stream.getvalue()) < 5000


def test_the_text_of_an_exception_begins_no_line(
    written: tuple[logging.Logger, io.StringIO],
) -> None:
    log, stream = written
    try:
        raise ValueError(FORGED)
    except ValueError:
        log.exception("it failed")
    first, *rest = stream.getvalue().split("\n")[:-1]
    assert first.endswith("it failed")
    assert all(line.startswith("  ") for line in rest)
    assert all(line.isprintable() for line in rest)
