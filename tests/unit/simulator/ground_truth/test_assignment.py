"""Assignment of parameters to PSs: invariants, and small models computed by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.simulator.ground_truth.assignment import EVEN, AssignmentRule, ParameterAssignment
from optimus.simulator.ground_truth.job_types import JOB_TYPES, JobType
from tests.cases import cases

models = st.lists(st.integers(1, 3_000_000), min_size=1, max_size=40).map(tuple)
assignments = st.one_of(
    st.just(EVEN),
    st.builds(ParameterAssignment, st.just(AssignmentRule.PAA), models),
    st.builds(
        ParameterAssignment, st.just(AssignmentRule.MXNET), models, st.integers(0, 2**32 - 1)
    ),
)


@given(assignments, st.integers(1, 40))
def test_shares_make_a_whole_and_stay_the_same(assignment: ParameterAssignment, ps: int) -> None:
    shares = assignment.shares(ps)
    assert len(shares) == ps
    assert min(shares) >= 0
    assert sum(shares) == pytest.approx(1)
    assert assignment.shares(ps) == shares


def test_the_default_slices_large_arrays_and_keeps_small_ones_whole() -> None:
    assert ParameterAssignment(AssignmentRule.MXNET, (2_000_000,), 1).shares(4) == (0.25,) * 4
    assert sorted(ParameterAssignment(AssignmentRule.MXNET, (999_999,), 1).shares(4)) == [
        0,
        0,
        0,
        1,
    ]


@cases(
    ("blocks", "ps", "held"),
    {
        "one PS holds all": ((600, 400), 1, [1000]),
        "what exceeds the average is sliced, the rest fills up": ((600, 400), 2, [500, 500]),
        "blocks below the average go where they fit best": (
            (50, 50, 40, 40, 10, 10),
            2,
            [100, 100],
        ),
        "tiny blocks go to the PS with fewest requests": ((500, 500, 1, 1), 2, [501, 501]),
    },
)
def test_the_papers_assignment_by_hand(blocks: tuple[int, ...], ps: int, held: list[float]) -> None:
    assert sorted(ParameterAssignment(AssignmentRule.PAA, blocks).shares(ps)) == pytest.approx(
        sorted(each / sum(blocks) for each in held)
    )


@pytest.mark.parametrize("kind", JOB_TYPES, ids=lambda kind: kind.name)
def test_the_papers_assignment_leaves_at_most_an_array_of_average_size_too_many(
    kind: JobType,
) -> None:
    sizes = kind.sizes
    for ps in (2, 5, 10):
        average = sum(sizes) / ps
        assert (
            max(ParameterAssignment(AssignmentRule.PAA, sizes).shares(ps)) * sum(sizes)
            < 2 * average
        )
