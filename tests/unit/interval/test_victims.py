"""Which gangs are paused: in order, whole, only as many as help."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from optimus.interval.victims import choose_victims


@given(st.lists(st.integers(0, 5), max_size=8), st.integers(1, 12))
def test_those_chosen_make_room_and_without_any_of_them_there_is_none(
    sizes: list[int], wanted: int
) -> None:
    def fits(some: Sequence[int]) -> bool:
        return sum(sizes[each] for each in some) >= wanted

    everybody = range(len(sizes))
    chosen = choose_victims(everybody, fits)
    assert bool(chosen) == fits(everybody)
    assert chosen == sorted(chosen)
    for each in chosen:
        assert fits(chosen)
        assert not fits([other for other in chosen if other != each])


def test_the_first_in_the_order_are_chosen() -> None:
    assert choose_victims([1, 2, 3, 4], lambda some: len(some) >= 2) == [1, 2]


def test_where_all_together_make_no_room_nobody_is_chosen() -> None:
    assert choose_victims([1, 2], lambda some: len(some) > 2) == []
