"""What a person reads while something takes long."""

import io
import re
from pathlib import Path

import pytest

from localcluster.progress import PlainProgress
from localcluster.supervisor.control import tail
from tests.cases import cases


def test_a_step_is_announced_and_its_end_shows_how_long_it_took() -> None:
    stream = io.StringIO()
    with PlainProgress(stream).step("building etcd"):
        pass
    assert re.fullmatch(
        r"building etcd \.\.\.\nbuilding etcd: done in \d+\.\d s\n", stream.getvalue()
    )


def test_a_step_that_fails_says_so_and_passes_the_failure_on() -> None:
    stream = io.StringIO()
    with pytest.raises(ValueError, match="broken"), PlainProgress(stream).step("building etcd"):
        raise ValueError("broken")
    assert "building etcd: failed after" in stream.getvalue()


@cases(
    ("text", "last"),
    {
        "the last lines": ("a\nb\nc\n", "b\nc"),
        "fewer than asked for": ("a", "a"),
        "an empty log": ("", ""),
    },
)
def test_the_end_of_a_log(tmp_path: Path, text: str, last: str) -> None:
    log = tmp_path / "a.log"
    log.write_text(text)
    assert tail(log, 2) == last


def test_the_end_of_a_log_that_is_not_there(tmp_path: Path) -> None:
    assert tail(tmp_path / "absent.log", 2) == ""
