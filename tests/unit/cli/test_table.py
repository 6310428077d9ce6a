"""Tables as text: aligned columns, and markup printed as text."""

import pytest

from optimus.cli.table import table


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    found = table("<>>", ("job", "PSs", "seconds"), [("a", 1, "2.5"), ("longer", 100, "12,345.0")])
    assert found.splitlines() == [
        "job     PSs   seconds",
        "a         1       2.5",
        "longer  100  12,345.0",
    ]


def test_a_long_text_in_the_last_column_is_neither_wrapped_nor_cut() -> None:
    reason = "word " * 200
    assert (
        table("<<", ("job", "reason"), [("a", reason)]).splitlines()[1] == f"a    {reason}".rstrip()
    )


@pytest.mark.parametrize("text", ["[bold]x[/bold]", ":smile:", "[/]"])
def test_markup_in_a_cell_is_printed_as_text(text: str) -> None:
    assert text in table("<", ("name",), [(text,)])


def test_a_table_without_rows_is_its_heading_line() -> None:
    assert table("<>", ("a", "b"), []) == "a  b"


def test_letters_of_two_columns_and_cells_of_two_lines_are_aligned() -> None:
    assert table("<>", ("why", "s"), [("損失\nmore", 1), ("a", "")]).splitlines() == [
        "why   s",
        "損失  1",
        "more",
        "a",
    ]
