"""Plans on nodes with unequal free resources, against the best of all plans."""

import pytest

from benchmarks.uneven_placement import fractions


@pytest.mark.parametrize("one_size", [True, False])
def test_on_small_clusters_no_plan_is_worse_than_the_best(one_size: bool) -> None:
    found = fractions(150, one_size=one_size)
    assert found == {
        "jobs_that_fit": 150,
        "refused": 0,
        "not_the_best_percent": 0.0,
        "dominated_by_the_best_percent": 0.0,
    }
