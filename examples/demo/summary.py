"""The end of the demo: what was decided and why, and both sides in one table."""

from collections.abc import Mapping, Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from examples.demo.journal import UNTOUCHED_MARK, JobHistory, Row
from examples.demo.view import line, table

_HEADINGS: Final = ("", "untouched", "under Optimus", "saved", "restarts", "stopped", "redone")


def print_summary(
    console: Console, rows: Sequence[Row], histories: Mapping[str, JobHistory]
) -> None:
    """The last table, then the decisions about each job, then what they have brought."""
    console.print()
    console.print(table(rows, console.width))
    managed = [name for name in histories if not name.endswith(UNTOUCHED_MARK)]
    for name in managed:
        console.print(f"\n[bold]{name}[/bold]: {_ending(histories[name])}")
        for entry in histories[name].rescales:
            console.print(line(entry), soft_wrap=True)
    console.print()
    console.print(comparison(histories))
    console.print(verdict(histories), soft_wrap=True)


def comparison(histories: Mapping[str, JobHistory]) -> Table:
    """When each job reached its goal on both sides, and what its restarts have cost it."""
    grid = Table(box=SIMPLE_HEAD, expand=False, pad_edge=False, title_justify="left")
    for heading in _HEADINGS:
        grid.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for name, history in histories.items():
        if name.endswith(UNTOUCHED_MARK):
            continue
        untouched = _seconds(histories[f"{name}{UNTOUCHED_MARK}"])
        books, took = history.books, _seconds(history)
        saved = None if untouched is None or took is None else untouched - took
        lost = (
            ("0 s", "0 s")
            if books is None
            else (
                f"{books.stopped_seconds} s",
                f"{books.redone_seconds} s",
            )
        )
        grid.add_row(
            f"{name} reached its goal after",
            *map(_text, (untouched, took)),
            _saved(saved),
            str(len(history.rescales)),
            *lost,
        )
    ends = _last(histories, untouched=True), _last(histories, untouched=False)
    saved = None if None in ends else (ends[0] or 0.0) - (ends[1] or 0.0)
    grid.add_row("both, since the first one came", *map(_text, ends), _saved(saved), "", "", "")
    return grid


def verdict(histories: Mapping[str, JobHistory]) -> str:
    """The sums in one sentence, whichever way they are."""
    pairs = [
        (_seconds(histories[f"{name}{UNTOUCHED_MARK}"]), _seconds(history))
        for name, history in histories.items()
        if not name.endswith(UNTOUCHED_MARK)
    ]
    known = [(before, took) for before, took in pairs if before is not None and took is not None]
    if not known or len(known) < len(pairs):
        return "Not every job reached its goal on both sides: nothing is compared."
    before, took = (sum(each) for each in zip(*known, strict=True))
    percent = 100 * (1 - took / before)
    said = "sooner" if percent >= 0 else "LATER: Optimus has lost this run"
    return (
        f"Under Optimus the jobs ended {abs(percent):.0f} % {said}. They asked for few replicas on "
        "a cluster that is half empty; on a full one, with sensible counts, there is less to "
        "win (docs/benchmarks/decisions.md)."
    )


def _seconds(history: JobHistory) -> float | None:
    return None if history.reached_at is None else history.reached_at - history.submitted_at


def _last(histories: Mapping[str, JobHistory], *, untouched: bool) -> float | None:
    own = [each for name, each in histories.items() if name.endswith(UNTOUCHED_MARK) == untouched]
    ends = [each.reached_at for each in own if each.reached_at is not None]
    first = min((each.submitted_at for each in own), default=0.0)
    return max(ends) - first if ends and len(ends) == len(own) else None


def _text(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.0f} s"


def _saved(seconds: float | None) -> str:
    is_later = seconds is not None and round(seconds) < 0
    return f"{-(seconds or 0.0):.0f} s later" if is_later else _text(seconds)


def _ending(history: JobHistory) -> str:
    took = _seconds(history)
    if took is None:
        return "did not reach its goal within the demo's time limit"
    return f"reached its goal {took:.0f} s after it was submitted"
