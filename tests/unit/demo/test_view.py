"""What the demo shows on screens of different widths."""

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from examples.demo.journal import Entry, Row
from examples.demo.view import View, table
from optimus.jobs import Counts
from optimus.kube.contract import Phase
from optimus.kube.profiles import ProfileStatus

_WIDEST = ProfileStatus(
    phase=Phase.WAITING_FOR_CHECKPOINT,
    target_ps=12,
    target_workers=10,
    loss=0.176,
    goal="loss <= 0.17",
    progress_percent=100,
    steps_per_second=20.34,
    remaining_seconds=120,
)
_ROWS = [
    Row("light-mx", "MXJob", _WIDEST, Counts(8, 4), "n1: 4 + 1, n2: 2 + 2, n3: 2 + 1"),
    Row("light-tf", "TFJob", ProfileStatus(), Counts(1, 2), ""),
]


def _lines(rows: Sequence[Row], width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as captured:
        console.print(table(rows, width))
    return [line.rstrip() for line in captured.get().splitlines() if line.strip()]


@pytest.mark.parametrize("width", [80, 100, 120, 136, 200])
def test_every_job_is_one_line_in_which_nothing_is_cut_off(width: int) -> None:
    lines = _lines(_ROWS, width)
    assert len(lines) == 2 + len(_ROWS)
    assert "…" not in "".join(lines)
    for shown in (
        "light-mx",
        "WaitingForCheckpoint",
        "8 -> 12",
        "4 -> 10",
        "0.176",
        "100 %",
        "120 s",
    ):
        assert shown in lines[2]


def test_a_wide_screen_shows_where_the_replicas_lie() -> None:
    assert "n1: 4 + 1, n2: 2 + 2, n3: 2 + 1" in _lines(_ROWS, 136)[2]


def test_a_column_has_the_same_place_whatever_stands_in_it() -> None:
    heads = {
        _lines([row], 120)[0]
        for row in (_ROWS[0], Row("light-tf", "TFJob", ProfileStatus(), Counts(1, 2), ""))
    }
    assert len(heads) == 1


def test_the_journal_is_written_once_and_stays_on_the_screen() -> None:
    entries = [Entry(1.0, "light-tf", "submitted")]
    console = Console(file=io.StringIO(), width=80)
    with console.capture() as captured, View(console) as view:
        view.show(_ROWS, entries)
        entries.append(Entry(61.0, "light-tf", "placed"))
        view.show(_ROWS, entries)
    said = captured.get()
    assert (said.count("0:01  light-tf  submitted"), said.count("1:01  light-tf  placed")) == (1, 1)
    assert said.count("forecast") == 1, "another table within a quarter of a minute"
