"""Plans on small clusters, against the best of all plans."""

import pytest

from benchmarks.uneven_placement import Kind, fractions


@pytest.mark.parametrize(
    ("kind", "cases"), [(Kind.ONE_SIZE, 150), (Kind.TWO_RESOURCES, 150), (Kind.EQUAL, 1000)]
)
def test_on_small_clusters_no_plan_is_worse_than_the_best(kind: Kind, cases: int) -> None:
    found = fractions(cases, kind)
    assert found == {
        "jobs_that_fit": cases,
        "refused": 0,
        "not_the_best_percent": 0.0,
        "dominated_by_the_best_percent": 0.0,
    }
