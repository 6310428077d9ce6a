"""The table of all policies, and what it says of jobs that cannot be resized."""

import re

import pytest

from benchmarks import policy_tables
from benchmarks.policy_tables import mean_seconds, row


def test_where_kinds_differ_jobs_of_fixed_counts_end_as_soon_as_where_they_take_turns() -> None:
    ours = mean_seconds("optimus", "kinds", 1)
    assert ours < mean_seconds("gavel-las", "kinds", 1)
    assert ours < 0.7 * mean_seconds("fixed", "kinds", 1)


def test_on_one_kind_nobody_moves_them() -> None:
    assert mean_seconds("optimus", "one kind", 1) == mean_seconds("fixed", "one kind", 1)


def test_a_row_has_a_ratio_with_its_interval_in_each_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(policy_tables, "DRAWN", 6)
    found = row("fifo", {"kinds": [30_000.0, 20_000.0], "one kind": [10_000.0, 10_000.0]})
    assert re.fullmatch(r"\| `fifo` (\| \d+\.\d\d ± \d+\.\d\d ){2}\|", found)
