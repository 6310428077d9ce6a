"""Room that others give: the same as if every giver were tried anew for everyone, with far fewer
tries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.classify import Classified, Eligibility
from optimus.interval.reclaim import Reclaim, Reclaimed
from optimus.jobs import Counts, Job
from optimus.placement.theorem1 import Theorem1
from optimus.snapshot import ClusterSnapshot
from tests.unit.interval.cluster import bind, job, nodes
from tests.unit.interval.scenes import AT

LEAST = Counts(1, 1)


def crowd(workers: list[int], free: int) -> tuple[CapacityPlan, list[Classified]]:
    """Jobs of one PS each on a node of just their room, and a little more."""
    jobs = [job(f"j{index}", (1, count)) for index, count in enumerate(workers)]
    cluster = nodes(1, sum(workers) + len(workers) + free)
    pods = [pod for each in jobs for pod in bind(each, ["node-00"] * sum(each.counts))]
    layout = CapacityPlan.of(ClusterSnapshot.of(AT, jobs, cluster, pods), Theorem1())
    return layout, [Classified(each, Eligibility.OPEN, each.counts, "", LEAST) for each in jobs]


def gifts(givers: list[Classified], price: float = 1.0, tries: int = 1000) -> Reclaim:
    return Reclaim(
        tuple((each, price) for each in givers), {each.job.uid: LEAST for each in givers}, {}, tries
    )


def slowly(
    layout: CapacityPlan, givers: list[Classified], wanted: Job, most_price: float
) -> list[Classified] | None:
    trial, given = layout.copy(), list[Classified]()
    for giver in givers:
        most_price -= 1.0
        if most_price <= 0:
            return None
        assert trial.move(giver.job, LEAST) is None
        given.append(giver)
        if trial.fits(wanted, wanted.counts):
            return given
    return None


@given(
    workers=st.lists(st.integers(2, 5), max_size=6),
    free=st.integers(0, 3),
    asked=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    most_price=st.sampled_from([2.5, float("inf")]),
)
def test_finds_what_the_slow_way_finds(
    workers: list[int], free: int, asked: list[int], most_price: float
) -> None:
    layout, standings = crowd(workers, free)
    left, found_by = list(standings), gifts(standings)
    decided: dict[str, Counts] = {}
    found_by.decided = decided
    for index, count in enumerate(asked):
        new = job(f"new{index}", (1, count))
        expected = slowly(layout, left, new, most_price)

        def moves(trial: CapacityPlan, job: Job = new) -> str | None:
            return trial.move(job, job.counts)

        found = found_by.find(layout, moves, most_price)
        if expected is None:
            assert isinstance(found, str)
            assert found or not left
            continue
        assert isinstance(found, Reclaimed)
        assert list(found.givers) == expected
        layout.become(found.layout)
        for each in [*expected, Classified(new, Eligibility.WAITING, new.counts, "", LEAST)]:
            decided[each.job.uid] = LEAST if each in left else new.counts
            found_by.moved(each, decided[each.job.uid])
        left = left[len(expected) :]


@pytest.mark.parametrize("waiting", [1, 50])
def test_what_cannot_be_had_costs_one_try_each_however_many_could_give(waiting: int) -> None:
    layout, standings = crowd([3] * 40, 0)
    found_by = gifts(standings)
    new = job("new", (50, 50))
    for _ in range(waiting):
        assert isinstance(found_by.find(layout, lambda trial: trial.move(new, new.counts)), str)
    assert 1000 - found_by.tries_left == 40 + waiting


def test_an_interval_makes_its_share_of_tries_and_no_more() -> None:
    layout, standings = crowd([3] * 40, 0)
    found_by, new = gifts(standings, tries=60), job("new", (20, 20))
    assert isinstance(found_by.find(layout, lambda trial: trial.move(new, new.counts)), str)
    assert -1 <= found_by.tries_left <= 0
    said = found_by.find(layout, lambda trial: trial.move(new, new.counts))
    assert isinstance(said, str)
    assert "in the next interval" in said
