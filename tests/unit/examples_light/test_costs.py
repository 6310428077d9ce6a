"""Stated costs: the link serves one transfer after the other, and the step time has the shape of eq
4."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.light.costs import Costs, Link

_COSTS = Costs(
    example_seconds=0.005,
    step_seconds=0.01,
    link_bits_per_second=1e8,
    message_seconds=0.002,
    model_bytes=500_000,
)


def test_a_transfer_holds_the_link_for_its_bytes_and_its_messages() -> None:
    link = Link(_COSTS)
    assert link.carry(10.0, 125_000, messages=2) == pytest.approx(10.014)
    assert link.held_seconds == pytest.approx(0.014)


def test_a_transfer_waits_for_those_before_it_and_an_idle_link_serves_at_once() -> None:
    link = Link(_COSTS)
    assert link.carry(10.0, 125_000) == pytest.approx(10.012)
    assert link.carry(10.001, 125_000) == pytest.approx(10.024)
    assert link.carry(20.0, 125_000) == pytest.approx(20.012)


def test_without_stated_costs_nothing_takes_time() -> None:
    free = Costs(0.0, 0.0, 0.0, 0.0, 512)
    assert Link(free).carry(3.0, 1e9, messages=50) == 3.0
    assert free.synchronous_step_seconds(3, 4, 64) == 0.0


def _occupied_step_seconds(ps: int, workers: int) -> float:
    """Play one synchronous step on links: the slow way to the formula."""
    worker_links = [Link(_COSTS) for _ in range(workers)]
    ps_links = [Link(_COSTS) for _ in range(ps)]
    shard_bytes = _COSTS.model_bytes / ps
    begin = max(link.carry(0.0, shard_bytes * workers, messages=workers) for link in ps_links)
    pushed = []
    for link in worker_links:
        received = link.carry(begin, _COSTS.model_bytes, messages=ps)
        computed = received + _COSTS.compute_seconds(-(-64 // workers))
        pushed.append(link.carry(computed, _COSTS.model_bytes, messages=ps))
    return max(link.carry(ready, shard_bytes) for link in ps_links for ready in pushed)


@given(ps=st.integers(1, 8), workers=st.integers(1, 8))
def test_the_formula_is_the_occupancy_of_the_links(ps: int, workers: int) -> None:
    assert _COSTS.synchronous_step_seconds(ps, workers, 64) == pytest.approx(
        _occupied_step_seconds(ps, workers)
    )


@pytest.mark.parametrize(
    ("slower", "faster"),
    [
        pytest.param((1, 1), (1, 2), id="a second worker helps"),
        pytest.param((1, 4), (1, 2), id="a fourth worker on one PS hurts: its link binds"),
        pytest.param((1, 4), (2, 4), id="then a second PS helps"),
        pytest.param((2, 2), (4, 4), id="both together help more"),
    ],
)
def test_what_counts_do_to_a_step(slower: tuple[int, int], faster: tuple[int, int]) -> None:
    assert _COSTS.synchronous_step_seconds(*faster, 64) < _COSTS.synchronous_step_seconds(
        *slower, 64
    )
