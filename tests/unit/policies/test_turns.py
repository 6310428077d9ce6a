"""Turns: who runs next, by what was received of the ideal share."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.allocation.turns import Contender, next_round, priority
from optimus.resources import NONE, Resources
from tests.cases import cases

ONE = Resources(cpu=1)
FAST_AND_SLOW = {"fast": ONE, "slow": ONE}
BOTH = frozenset(FAST_AND_SLOW)


def contender(
    uid: str,
    shares: Mapping[str, float],
    seconds: Mapping[str, float] | None = None,
    *,
    deficit: float = 0.0,
    held: str | None = None,
    cpu: int = 1,
    possible: frozenset[str] = BOTH,
    others: Resources = NONE,
) -> Contender:
    owed = dict.fromkeys(shares, deficit)
    return Contender(uid, Resources(cpu=cpu), others, possible, shares, seconds or {}, owed, held)


def test_priority_is_share_by_received_time_which_begins_at_half_a_round() -> None:
    assert priority(contender("a", {"fast": 0.5}), "fast", 360) == pytest.approx(0.5 / 180)
    served = contender("a", {"fast": 0.5}, {"fast": 360.0})
    assert priority(served, "fast", 360) == pytest.approx(0.5 / 540)
    assert priority(served, "slow", 360) == 0.0


@cases(
    ("contenders", "chosen"),
    {
        "who has received less goes first, the other has what is left over": (
            [contender("a", {"fast": 0.5}, {"fast": 360.0}), contender("b", {"fast": 0.5})],
            {"b": "fast", "a": "slow"},
        ),
        "of equals in what they received the larger share goes first": (
            [contender("a", {"fast": 0.2}), contender("b", {"fast": 0.8})],
            {"b": "fast", "a": "slow"},
        ),
        "each runs where it is meant to": (
            [contender("a", {"slow": 1.0}), contender("b", {"fast": 1.0})],
            {"b": "fast", "a": "slow"},
        ),
        "equal priorities are decided by the deficit": (
            [contender("a", {"fast": 0.5}), contender("b", {"fast": 0.5}, deficit=100.0)],
            {"b": "fast", "a": "slow"},
        ),
        "equals of all that stay where they are": (
            [contender("a", {"fast": 0.5}), contender("b", {"fast": 0.5}, held="fast")],
            {"b": "fast", "a": "slow"},
        ),
        "what does not fit is skipped": (
            [contender("a", {"fast": 0.9}, cpu=2), contender("b", {"fast": 0.1})],
            {"b": "fast"},
        ),
        "a job runs on no kind that cannot hold it": (
            [contender("a", {"slow": 1.0}, possible=frozenset({"slow"}))],
            {"a": "slow"},
        ),
    },
)
def test_a_round(contenders: list[Contender], chosen: dict[str, str]) -> None:
    assert next_round(contenders, FAST_AND_SLOW, 360) == chosen
    assert next_round(contenders[::-1], FAST_AND_SLOW, 360) == chosen


@cases(
    ("contenders", "capacity", "chosen"),
    {
        "they stay beside the workers where these can run on every kind": (
            [contender("a", {"fast": 0.9}, others=ONE), contender("b", {})],
            {"fast": ONE * 2, "slow": ONE},
            {"a": "fast", "b": "slow"},
        ),
        "they go elsewhere where they do not fit beside the workers": (
            [contender("a", {"fast": 0.9}, others=ONE), contender("b", {})],
            {"fast": ONE, "slow": ONE},
            {"a": "fast"},
        ),
        "they go first to nodes on which no workers run": (
            [
                contender("a", {"fast": 0.9}, others=ONE, possible=frozenset({"fast"})),
                contender("b", {"fast": 0.8}, possible=frozenset({"fast"})),
            ],
            {"fast": ONE * 2, "slow": ONE},
            {"a": "fast", "b": "fast"},
        ),
        "they are spread where no kind holds them all": (
            [contender("a", {"fast": 0.9}, others=ONE * 3), contender("b", {"fast": 0.5})],
            {"fast": ONE * 2, "slow": ONE * 2},
            {"a": "fast"},
        ),
        "a job of which they fit nowhere does not run": (
            [contender("a", {"fast": 0.9}, others=ONE * 2)],
            {"fast": ONE, "slow": ONE},
            {},
        ),
    },
)
def test_where_ps_go(
    contenders: list[Contender], capacity: dict[str, Resources], chosen: dict[str, str]
) -> None:
    assert next_round(contenders, capacity, 360) == chosen


def test_jobs_without_a_share_run_only_where_the_policy_fills() -> None:
    waiting = [contender("a", {"fast": 0.9}), contender("b", {})]
    assert next_round(waiting, FAST_AND_SLOW, 360) == {"a": "fast", "b": "slow"}
    assert next_round(waiting, FAST_AND_SLOW, 360, fills=False) == {"a": "fast"}


def test_a_job_that_no_kind_holds_runs_on_what_others_leave() -> None:
    wide = Contender("a", ONE * 2, ONE, frozenset(), is_wide=True)
    capacity = {"fast": ONE * 2, "slow": ONE * 2}
    narrow = [contender("b", {"fast": 1.0}), contender("c", {"slow": 1.0})]
    assert next_round([wide, narrow[0]], capacity, 360) == {"b": "fast", "a": None}
    assert next_round([wide, *narrow], capacity, 360) == {"b": "fast", "c": "fast"}


@cases(
    ("jobs", "places", "alike", "most_pauses"),
    {
        "two kinds that are one": (6, 2, True, 95),
        "two kinds of which each has its own shares": (6, 2, False, 105),
        "one place of each kind": (6, 1, True, 85),
    },
)
def test_over_many_rounds_equal_jobs_get_equal_times_and_are_seldom_paused(
    jobs: int, places: int, alike: bool, most_pauses: int
) -> None:
    """A tenth of a round is lost whenever a job starts or moves."""
    share = 2 * places / jobs
    received = [dict.fromkeys(FAST_AND_SLOW, 0.0) for _ in range(jobs)]
    held: list[str | None] = [None] * jobs
    pauses = 0
    for _ in range(100):
        contenders = []
        for number, (each, kind) in enumerate(zip(received, held, strict=True)):
            seconds = dict.fromkeys(each, sum(each.values())) if alike else dict(each)
            shares = dict.fromkeys(each, share if alike else share / 2)
            others = BOTH - {kind} if alike and kind else frozenset[str]()
            usual = contender(f"{number}", shares, seconds, held=kind)
            contenders.append(replace(usual, alike=others))
        chosen = next_round(contenders, dict.fromkeys(FAST_AND_SLOW, ONE * places), 360)
        for number, kind in enumerate(held):
            now = chosen.get(f"{number}")
            pauses += kind is not None and now is None
            if now is not None:
                received[number][now] += 360.0 if now == kind else 324.0
            held[number] = now
    sums = [sum(each.values()) for each in received]
    assert max(sums) <= 1.06 * min(sums)
    assert pauses <= most_pauses


@given(shares=st.lists(st.floats(0.05, 1.0), min_size=2, max_size=5))
def test_over_many_rounds_each_job_gets_its_share_of_one_place(shares: list[float]) -> None:
    parts = {f"{number}": share / sum(shares) for number, share in enumerate(shares)}
    seconds, held = dict.fromkeys(parts, 0.0), None
    for _ in range(200):
        each = [
            contender(
                uid, {"fast": part}, {"fast": seconds[uid]}, held="fast" if uid == held else None
            )
            for uid, part in parts.items()
        ]
        (held,) = next_round(each, {"fast": ONE}, 360)
        seconds[held] += 360
    # At most two rounds more or less than the share.
    found = {uid: seconds[uid] / 360 / 200 for uid in parts}
    assert found == pytest.approx(parts, abs=2.5 / 200)


def test_a_job_leaves_its_kind_for_one_that_is_as_good_only_where_it_loses_its_own() -> None:
    first = replace(
        contender("a", {"fast": 0.5, "slow": 0.5}, held="slow"), alike=frozenset({"fast"})
    )
    others = [contender("b", {"fast": 0.1}), contender("c", {"slow": 0.1})]
    assert next_round([first, *others[:1]], FAST_AND_SLOW, 360) == {"b": "fast", "a": "slow"}
    before = [contender("c", {"slow": 0.9}, possible=frozenset({"slow"}))]
    assert next_round([first, *before], FAST_AND_SLOW, 360) == {"c": "slow", "a": "fast"}
