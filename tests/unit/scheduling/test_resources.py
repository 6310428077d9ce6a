"""Amounts of resources: arithmetic that cannot lose or invent anything."""

from hypothesis import given
from hypothesis import strategies as st

from optimus.resources import NONE, Resources, total

amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu"]), st.integers(0, 10**12)
)
resources = amounts.map(Resources)


def test_zero_amounts_are_not_stored_so_equal_meanings_compare_equal() -> None:
    assert Resources(cpu=1000, memory=0) == Resources(cpu=1000)
    assert hash(Resources(cpu=1000, memory=0)) == hash(Resources(cpu=1000))


def test_a_resource_that_is_absent_reads_as_zero() -> None:
    assert NONE["nvidia.com/gpu"] == 0


@given(resources, resources)
def test_what_is_added_can_be_taken_away_again(left: Resources, right: Resources) -> None:
    assert left + right - right == left


@given(resources, st.integers(0, 50))
def test_many_copies_are_the_sum_of_that_many(one: Resources, count: int) -> None:
    assert one * count == total([one] * count)


@given(resources, resources)
def test_something_fits_exactly_when_nothing_is_lacking(demand: Resources, free: Resources) -> None:
    assert demand.fits_in(free) == (demand.lacking_in(free) == ())
    assert demand.fits_in(demand + free)


def test_an_overcommitted_node_has_less_than_nothing_left() -> None:
    assert (Resources(cpu=1000) - Resources(cpu=1500))["cpu"] == -500
    assert not Resources(cpu=1).fits_in(Resources(cpu=1000) - Resources(cpu=1500))


def test_what_is_not_asked_for_does_not_keep_a_replica_off_an_overcommitted_node() -> None:
    assert Resources(cpu=1).fits_in(Resources({"cpu": 1, "memory": -5}))


def test_the_dominant_resource_has_the_largest_share_of_the_capacity() -> None:
    capacity = Resources({"cpu": 64_000, "nvidia.com/gpu": 4})
    assert Resources({"cpu": 4_000, "nvidia.com/gpu": 1}).dominant(capacity) == (
        "nvidia.com/gpu",
        0.25,
    )


def test_a_resource_that_the_cluster_lacks_dominates_infinitely() -> None:
    assert Resources({"nvidia.com/gpu": 1}).dominant(Resources(cpu=1)) == (
        "nvidia.com/gpu",
        float("inf"),
    )
    assert NONE.dominant(Resources(cpu=1)) == ("", 0.0)
