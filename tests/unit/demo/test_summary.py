"""What the demo says at its end, whichever side was faster."""

import io

from rich.console import Console

from examples.demo.journal import JobHistory
from examples.demo.summary import comparison, verdict
from optimus.kube.profiles import BooksStatus
from tests.cases import cases


def _histories(untouched: float | None, managed: float | None) -> dict[str, JobHistory]:
    books = BooksStatus(
        text="", saved_seconds=4, saved_fraction=0.1, stopped_seconds=6, redone_seconds=2
    )
    return {
        "tf": JobHistory(1.0, reached_at=None if managed is None else 1.0 + managed, books=books),
        "tf*": JobHistory(1.0, reached_at=None if untouched is None else 1.0 + untouched),
    }


@cases(
    ("untouched", "managed", "said"),
    {
        "Optimus wins": (50.0, 40.0, "ended 20 % sooner"),
        "Optimus loses": (40.0, 50.0, "ended 25 % LATER: Optimus has lost this run"),
        "one side has not ended": (None, 40.0, "nothing is compared"),
    },
)
def test_the_verdict_is_that_of_the_run(
    untouched: float | None, managed: float | None, said: str
) -> None:
    assert said in verdict(_histories(untouched, managed))


@cases(
    ("managed", "took", "saved"),
    {
        "sooner": (40.0, "40 s", "10 s"),
        "later": (53.0, "53 s", "3 s later"),
        "not ended": (None, "-", "-"),
    },
)
def test_the_table_has_both_sides_and_what_was_lost(
    managed: float | None, took: str, saved: str
) -> None:
    console = Console(file=io.StringIO(), width=140)
    with console.capture() as captured:
        console.print(comparison(_histories(50.0, managed)))
    (row,) = (line for line in captured.get().splitlines() if "tf reached" in line)
    cells = [cell.strip() for cell in row.split("  ") if cell.strip()]
    assert cells[1:] == ["50 s", took, saved, "0", "6 s", "2 s"]
