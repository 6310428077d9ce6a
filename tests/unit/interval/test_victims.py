"""The choice of victims against brute force, and its bounds."""

from collections.abc import Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from optimus.interval.victims import MOST_TRIES, VictimCandidate, Victims, choose_victims, harm
from optimus.jobs import JobKey
from optimus.resources import Resources
from tests.cases import cases
from tests.unit.properties import examples


def candidate(
    name: str, cpu: int, node: str = "a", priority: int = 0, at: float = 0.0
) -> VictimCandidate:
    room = {node: Resources(cpu=cpu)}
    return VictimCandidate(name, JobKey("ns", name), priority, at, room)


class Nodes:
    """A gang of replicas of one size, and what is free by node; counts the tries."""

    def __init__(self, free: dict[str, int], replicas: int, size: int = 1) -> None:
        self._free, self._replicas, self._size = free, replicas, size
        self.tries = 0

    def fits(self, victims: Victims) -> bool:
        self.tries += 1
        free = dict(self._free)
        for each in victims:
            for node, amount in each.takes.items():
                free[node] = free.get(node, 0) + amount["cpu"]
        return sum(each // self._size for each in free.values()) >= self._replicas


def names(victims: Victims | None) -> list[str] | None:
    return None if victims is None else [each.job_uid for each in victims]


@cases(
    ("candidates", "replicas", "expected"),
    {
        "none where all together are not enough": ([candidate("x", 1)], 2, None),
        "nobody is there": ([], 1, None),
        "one of a higher priority before two of a lower": (
            [candidate("x", 1), candidate("y", 1), candidate("z", 2, priority=9)],
            2,
            ["z"],
        ),
        "the lower priority": (
            [candidate("x", 2, priority=2), candidate("y", 2, priority=1)],
            2,
            ["y"],
        ),
        "the youngest": (
            [candidate("x", 2, at=5.0), candidate("y", 2, at=7.0), candidate("z", 2, at=6.0)],
            2,
            ["y"],
        ),
        "the lowest two": (
            [candidate("x", 1, priority=3), candidate("y", 1), candidate("z", 1, priority=1)],
            2,
            ["y", "z"],
        ),
        "the first UID where all is alike": ([candidate("x", 2), candidate("y", 2)], 2, ["x"]),
    },
)
def test_victims(
    candidates: Sequence[VictimCandidate], replicas: int, expected: list[str] | None
) -> None:
    assert names(choose_victims(candidates, Nodes({}, replicas).fits)) == expected


@cases(
    ("less", "more"),
    {
        "the highest priorities count first": (
            [candidate("x", 1, priority=2), candidate("y", 1, priority=3)],
            [candidate("w", 1, priority=1), candidate("z", 1, priority=4)],
        ),
        "then the next ones": (
            [candidate("w", 1, priority=1), candidate("z", 1, priority=4)],
            [candidate("x", 1, priority=2), candidate("y", 1, priority=4)],
        ),
        "then the longest runs": (
            [candidate("x", 1, at=4.0), candidate("y", 1, at=5.0)],
            [candidate("w", 1, at=0.0), candidate("z", 1, at=9.0)],
        ),
        "the number counts before all else": (
            [candidate("z", 1, priority=9)],
            [candidate("w", 1), candidate("x", 1)],
        ),
        "UIDs at last": (
            [candidate("a", 1), candidate("z", 1)],
            [candidate("c", 1), candidate("b", 1)],
        ),
    },
)
def test_the_set_that_does_less_harm(
    less: list[VictimCandidate], more: list[VictimCandidate]
) -> None:
    assert harm(less) < harm(more)
    assert harm(less[::-1]) == harm(less)
    wanted = ({each.job_uid for each in less}, {each.job_uid for each in more})

    def fits(victims: Victims) -> bool:
        uids = {each.job_uid for each in victims}
        return any(uids >= each for each in wanted)

    assert names(choose_victims([*more, *less], fits)) == sorted(wanted[0])


def test_no_more_sets_are_tried_than_the_limit() -> None:
    """Three of forty are needed; 40 sets of one and 780 of two are not enough."""
    nodes = Nodes({}, 3)
    found = choose_victims([candidate(f"j{at:02}", 1) for at in range(40)], nodes.fits)
    assert names(found) == ["j00", "j01", "j02"]
    assert nodes.tries <= 10 + MOST_TRIES, "10 until every victim is needed"


_CANDIDATES = st.lists(
    st.builds(
        candidate,
        st.sampled_from("abcdefghij"),
        st.integers(1, 4),
        st.sampled_from(["m", "n", "o"]),
        st.integers(0, 3),
        st.integers(0, 3).map(float),
    ),
    max_size=7,
    unique_by=lambda each: each.job_uid,
)


@examples(300)
@given(
    _CANDIDATES,
    st.dictionaries(st.sampled_from("mno"), st.integers(0, 2)),
    st.integers(3, 8),
    st.integers(1, 3),
)
def test_no_set_does_less_harm(
    candidates: list[VictimCandidate], free: dict[str, int], replicas: int, size: int
) -> None:
    nodes = Nodes(free, replicas, size)
    if nodes.fits(()):
        return
    every = [
        each
        for count in range(1, len(candidates) + 1)
        for each in combinations(candidates, count)
        if nodes.fits(each)
    ]
    best = min(every, key=harm, default=None)
    found = choose_victims(candidates, nodes.fits)
    assert found == (None if best is None else tuple(sorted(best, key=lambda each: each.job_uid)))


@examples(30)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=120, max_size=150),
    st.integers(20, 60),
)
def test_on_large_clusters_every_victim_is_needed_and_the_search_ends(
    sizes: list[tuple[int, int]], replicas: int
) -> None:
    every = [
        candidate(f"j{at:03}", cpu, f"n{at % 40}", priority)
        for at, (cpu, priority) in enumerate(sizes)
    ]
    nodes = Nodes({}, replicas, 2)
    found = choose_victims(every, nodes.fits)
    assert nodes.tries < 1000
    if found is None:
        return
    assert nodes.fits(found)
    for each in found:
        assert not nodes.fits(tuple(other for other in found if other is not each))
