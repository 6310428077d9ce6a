"""Turns: who runs next, by what was received of the ideal share."""

from collections.abc import Mapping

import pytest

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


def test_over_many_rounds_each_job_gets_its_share() -> None:
    shares, seconds = {"a": 0.25, "b": 0.75}, {"a": 0.0, "b": 0.0}
    for _ in range(40):
        each = [contender(uid, {"fast": shares[uid]}, {"fast": seconds[uid]}) for uid in shares]
        for uid in next_round(each, {"fast": ONE}, 360):
            seconds[uid] += 360
    assert seconds["a"] / sum(seconds.values()) == pytest.approx(0.25, abs=0.03)
