"""Shares: of parameters over PSs, of a batch over workers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.light.sharding import even_slices
from tests.cases import cases


@given(total=st.integers(0, 5000), parts=st.integers(1, 64))
def test_slices_cover_everything_once_in_order_and_differ_by_at_most_one(
    total: int, parts: int
) -> None:
    slices = even_slices(total, parts)
    covered = [index for piece in slices for index in range(total)[piece]]
    lengths = [piece.stop - piece.start for piece in slices]
    assert covered == list(range(total))
    assert len(slices) == parts
    assert max(lengths) - min(lengths) <= 1


@cases(
    ("total", "parts"),
    {"there is no zeroth part": (5, 0), "there is no negative number of items": (-1, 2)},
)
def test_impossible_cuts_are_refused(total: int, parts: int) -> None:
    with pytest.raises(ValueError, match="cannot cut"):
        even_slices(total, parts)
