"""The assignment of parameters: small models by hand, and what holds for all."""

from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from optimus.simulator.ground_truth.job_types import JOB_TYPES
from optimus_trainer.parameters import TOLERANCE, VariablePlan, assign, assign_rows
from tests.cases import cases

MILLION = 1_000_000  # from so many values on, MXNet's default cuts an array over all PSs
models = st.lists(st.integers(0, 3 * MILLION), min_size=1, max_size=40)
servers = st.integers(1, 16)


def held(sizes: Sequence[int], ps: int) -> list[int]:
    amounts = Counter[int]()
    for part in assign(sizes, ps):
        amounts[part.ps] += part.size
    return [amounts[number] for number in range(ps)]


@cases(
    ("sizes", "ps", "expected"),
    {
        "one PS holds all": ((600, 400), 1, [1000]),
        "what exceeds the average is cut, the rest fills up": ((600, 400), 2, [500, 500]),
        "blocks below the average go to the PS that holds least": (
            (50, 50, 40, 40, 10, 10),
            2,
            [100, 100],
        ),
        "tiny blocks go to the PS with fewest requests": ((500, 500, 1, 1), 2, [501, 501]),
        "what fits nowhere is cut": ((100, 100, 100), 2, [150, 150]),
        "a block that exceeds the average by 4 % is not cut": ((104, 96), 2, [96, 104]),
        "nor is what is left of one that is": ((1_420, 680), 3, [680, 700, 720]),
        "there are fewer values than PSs": ((1, 1), 3, [0, 1, 1]),
        "nothing": ((0,), 2, [0, 0]),
    },
)
def test_by_hand(sizes: Sequence[int], ps: int, expected: list[int]) -> None:
    assert sorted(held(sizes, ps)) == expected


@given(models, servers)
def test_each_value_is_assigned_once_in_few_parts_and_evenly(sizes: list[int], ps: int) -> None:
    parts = assign(sizes, ps)
    for block, size in enumerate(sizes):
        ends = 0
        for part in (part for part in parts if part.block == block):
            assert part.begin == ends
            assert part.size > 0
            ends += part.size
        assert ends == size
    average = -(-sum(sizes) // ps)
    assert max(held(sizes, ps)) <= max(average, (1 + TOLERANCE) * sum(sizes) / ps)
    # So there are no more than by MXNet's default where that cuts any.
    assert len(parts) <= sum(map(bool, sizes)) + ps - 1


@given(st.lists(st.integers(1, 100), min_size=1, max_size=40), servers)
def test_nothing_is_cut_where_whole_blocks_the_largest_first_are_even(
    sizes: list[int], ps: int
) -> None:
    amounts = [0] * ps
    for size in sorted(sizes, reverse=True):
        amounts[amounts.index(min(amounts))] += size
    limit = max(-(-sum(sizes) // ps), int((1 + TOLERANCE) * sum(sizes) / ps))
    is_even = max(amounts) <= limit
    assert (len(assign(sizes, ps)) == len(sizes)) or not is_even


def test_table_3_of_the_paper() -> None:
    """It has for ResNet-50 on 10 PSs: sizes differ by 0.1 million, requests by 1, none is cut."""
    (sizes,) = (kind.sizes for kind in JOB_TYPES if kind.name == "ResNet-50")
    amounts, requests = held(sizes, 10), Counter(part.ps for part in assign(sizes, 10)).values()
    assert max(amounts) - min(amounts) <= 0.1 * MILLION
    assert max(requests) - min(requests) == 1
    assert sum(requests) == len(sizes)


def of_rows(shapes: Sequence[Sequence[int]], ps: int) -> list[int]:
    amounts = [0] * ps
    for (rows, *columns), chosen in zip(shapes, assign_rows(shapes, ps), strict=True):
        assert 1 <= len(chosen) <= max(1, min(rows, ps))
        for number, server in enumerate(chosen):
            amounts[server] += len(range(number, rows, len(chosen))) * (columns or [1])[0]
    return amounts


@given(st.lists(st.tuples(st.integers(1_600, 9_000), st.integers(1, 500)), min_size=1), servers)
def test_with_enough_rows_the_parts_are_even(shapes: list[tuple[int, int]], ps: int) -> None:
    amounts = of_rows(shapes, ps)
    assert sum(amounts) == sum(rows * columns for rows, columns in shapes)
    assert max(amounts) * ps <= (1 + TOLERANCE) * sum(amounts) + ps * 500


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 500)), min_size=1), servers)
def test_too_few_rows_are_dealt_too(shapes: list[tuple[int, int]], ps: int) -> None:
    assert sum(of_rows(shapes, ps)) == sum(rows * columns for rows, columns in shapes)


def test_equal_layers_that_follow_one_another_go_to_different_servers() -> None:
    parts = sorted(assign([100] * 12, 4))
    assert [part.ps for part in parts] == [0, 1, 2, 3] * 3
    assert [chosen for (chosen,) in assign_rows([(10, 10)] * 8, 4)] == [0, 1, 2, 3] * 2


def test_a_model_that_is_even_without_cuts_is_not_cut() -> None:
    assert sorted(assign_rows([(8, 4), (4, 8), (32,)], 3)) == [[0], [1], [2]]


def variable(*shape: int) -> Any:
    """An operation of TensorFlow, as ``replica_device_setter`` passes it on."""
    dimensions = SimpleNamespace(dim=[SimpleNamespace(size=length) for length in shape])
    return SimpleNamespace(get_attr=lambda name: {"shape": dimensions}[name])


def test_parts_go_where_they_are_planned_and_slots_with_them() -> None:
    plan = VariablePlan([(10, 4), (10, 4), (3,)], 2)
    placed = []
    for _ in range(2):  # the variables, and an optimizer's of the same shapes
        for _ in range(2):
            (parts, columns) = plan.partitioner(shape=(10, 4))
            assert columns == 1
            placed.append([plan.ps_strategy(variable(10 // parts, 4)) for _ in range(parts)])
    assert sorted(placed[:2]) == [[0], [1]]
    assert placed[2:] == placed[:2]


def test_what_is_not_planned_goes_to_the_ps_in_turn() -> None:
    plan = VariablePlan([(10, 4)], 2)

    def table(name: str) -> object:
        raise ValueError(name)

    found = [plan.ps_strategy(variable()), plan.ps_strategy(SimpleNamespace(get_attr=table))]
    assert sorted(found) == [0, 1]
    assert plan.partitioner(shape=(7, 7)) == [1, 1]


def test_without_the_partitioner_variables_stay_whole() -> None:
    plan = VariablePlan([(100, 4), (2,)], 2)
    assert plan.ps_strategy(variable(100, 4)) in (0, 1)
    assert plan.ps_strategy(variable(2)) in (0, 1)
