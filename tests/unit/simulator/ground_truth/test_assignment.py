"""Assignment of parameters to PSs: invariants, and small models computed by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.simulator.ground_truth.assignment import EVEN, AssignmentRule, ParameterAssignment

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
