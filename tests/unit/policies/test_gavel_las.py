"""Least attained service over kinds of nodes: throughputs, shares, turns and memory."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.allocation import NO_MEMORY, ClusterAllocation, ClusterProblem, PolicyMemory
from optimus.allocation.policy import (
    Grant,
    Holding,
    JobAccount,
    KindCapacity,
    PoolProblem,
    Refusal,
    Service,
    grants,
)
from optimus.allocation.turns import throughputs
from optimus.jobs import Counts
from optimus.models.forecast import Forecast
from optimus.policies.gavel_cost import GavelCostPolicy
from optimus.policies.gavel_las import GavelLasPolicy
from optimus.progress.types import SpeedSample, TrainingProgress
from optimus.resources import NONE, Resources, total
from tests.unit.policies.problems import SPEED, candidate, problem
from tests.unit.properties import examples

ONE = Counts(1, 1)
PLACE = Resources(cpu=2000)
"""Room for one job."""
KINDS = (KindCapacity("fast", 1, PLACE), KindCapacity("slow", 1, PLACE))


def measured(fast: float, slow: float, **fields: Any) -> JobAccount:
    samples = tuple(
        SpeedSample(ONE, speed, 30.0, 0.0, kind) for kind, speed in (("fast", fast), ("slow", slow))
    )
    return replace(JobAccount(progress=TrainingProgress(samples=samples)), **fields)


def asked(
    at: float,
    accounts: Mapping[str, JobAccount],
    kinds: tuple[KindCapacity, ...] = KINDS,
) -> ClusterProblem:
    jobs = (candidate(uid, ps=NONE, worker=PLACE) for uid in accounts)
    pool = problem(PLACE + PLACE, *jobs)
    return ClusterProblem(at, (PoolProblem(pool, kinds),), accounts)


def kinds_of(answer: ClusterAllocation) -> dict[str, str | None]:
    return {uid: grant.kind for uid, grant in grants(answer).items()}


class TestThroughputs:
    def test_are_the_means_of_what_was_measured_at_the_same_counts(self) -> None:
        samples = (
            SpeedSample(ONE, 2.0, 30.0, 0.0, "fast"),
            SpeedSample(ONE, 5.0, 60.0, 0.0, "fast"),
            SpeedSample(Counts(1, 2), 9.0, 60.0, 0.0, "fast"),
            SpeedSample(ONE, 1.0, 60.0, 0.0, "fast*1,slow*1"),
        )
        account = JobAccount(progress=TrainingProgress(samples=samples))
        assert throughputs(account, ONE, ["fast", "slow"]) == {"fast": pytest.approx(4.0)}

    def test_of_kinds_where_nothing_was_measured_are_the_forecasts(self) -> None:
        account = measured(4.0, 0.5, forecasts={"other": Forecast(SPEED, 10.0)})
        found = throughputs(account, ONE, ["fast", "other"])
        assert found["other"] == pytest.approx(float(np.asarray(SPEED.steps_per_second(1, 1))))
        assert found["fast"] == 4.0


class TestShares:
    def test_each_job_runs_where_it_gains_most(self) -> None:
        """a is four times as fast on the fast kind, b as fast on both."""
        accounts = {"a": measured(4.0, 1.0), "b": measured(2.0, 2.0)}
        answer, _ = GavelLasPolicy().decide(asked(0.0, accounts), NO_MEMORY, 1)
        assert kinds_of(answer) == {"a": "fast", "b": "slow"}
        assert grants(answer)["a"].time_share == pytest.approx(1.0)

    def test_what_others_hold_is_nobody_s_turn(self) -> None:
        """Jobs that the policy does not decide on, or that start to be measured."""
        accounts = {"a": measured(4.0, 1.0), "b": measured(2.0, 2.0)}
        jobs = (candidate(uid, ps=NONE, worker=PLACE) for uid in accounts)
        pool = PoolProblem(problem(PLACE, *jobs), KINDS)
        answer, _ = GavelLasPolicy().decide(ClusterProblem(0.0, (pool,), accounts), NO_MEMORY, 1)
        assert kinds_of(answer) == {"a": "fast"}

    def test_two_jobs_of_one_kind_have_half_of_the_time_each(self) -> None:
        accounts = {"a": measured(1.0, 1.0), "b": measured(3.0, 3.0)}
        _, memory = GavelLasPolicy().decide(asked(0.0, accounts, KINDS[:1]), NO_MEMORY, 1)
        assert memory.data["jobs"]["a"]["shares"] == pytest.approx({"fast": 0.5})
        assert memory.data["jobs"]["b"]["shares"] == pytest.approx({"fast": 0.5})

    def test_a_weight_of_three_is_three_times_the_time(self) -> None:
        heavy = measured(1.0, 1.0, weight=3.0)
        accounts = {"a": measured(1.0, 1.0), "b": heavy}
        _, memory = GavelLasPolicy().decide(asked(0.0, accounts, KINDS[:1]), NO_MEMORY, 1)
        assert memory.data["jobs"]["b"]["shares"] == pytest.approx({"fast": 0.75})


class TestTurns:
    def test_alternate_between_jobs_of_equal_shares(self) -> None:
        """One place: the job that has received less of its half runs next."""
        accounts = {"a": measured(1.0, 1.0), "b": measured(1.0, 1.0)}
        policy, memory, ran = GavelLasPolicy(), NO_MEMORY, []
        received = dict.fromkeys(accounts, 0.0)
        for number in range(9):
            answer, memory = policy.decide(
                asked(number * 360.0, accounts, KINDS[:1]), through_text(memory), 1
            )
            (who,) = grants(answer)
            ran.append(who)
            received[who] += 360.0
            accounts = {
                uid: replace(
                    account,
                    received=Service(received[uid], {"fast": received[uid]}),
                    holds=Holding(ONE, "fast") if uid == who else None,
                )
                for uid, account in accounts.items()
            }
        # Who runs counts as having received a round less, and of equals goes on.
        assert "".join(ran) == "aabbbbaaa"
        paused = answer["b"]
        assert isinstance(paused, Refusal)
        assert "not its turn: it is meant to run 50% of the time" in paused.reason

    def test_who_has_a_place_to_himself_keeps_it(self) -> None:
        accounts = {"a": measured(4.0, 1.0), "b": measured(2.0, 2.0)}
        policy = GavelLasPolicy()
        first, memory = policy.decide(asked(0.0, accounts), NO_MEMORY, 1)
        held = {
            uid: replace(
                accounts[uid],
                holds=Holding(ONE, grant.kind or ""),
                received=Service(360.0, {grant.kind or "": 360.0}),
            )
            for uid, grant in grants(first).items()
        }
        second, _ = policy.decide(asked(360.0, held), memory, 1)
        assert second == first


class TestARoundThatHasBegun:
    def test_is_gone_on_with_by_whoever_asks_again(self) -> None:
        """Also for jobs that hold nothing yet, and whatever was received meanwhile."""
        accounts = {"a": measured(4.0, 1.0), "b": measured(2.0, 2.0), "c": measured(2.0, 2.0)}
        first, memory = GavelLasPolicy().decide(asked(0.0, accounts), NO_MEMORY, 1)
        late = {
            uid: replace(
                account,
                received=Service(300.0, {"fast": 300.0}) if uid in grants(first) else Service(),
            )
            for uid, account in accounts.items()
        }
        again, after = GavelLasPolicy().decide(asked(300.0, late), through_text(memory), 1)
        assert again == first
        assert after == memory
        then, _ = GavelLasPolicy().decide(asked(360.0, late), through_text(after), 1)
        assert set(grants(then)) != set(grants(first))

    def test_leaves_who_came_meanwhile_where_it_is(self) -> None:
        accounts = {"a": measured(4.0, 1.0)}
        _, memory = GavelLasPolicy().decide(asked(0.0, accounts), NO_MEMORY, 1)
        holds = Holding(ONE, "slow")
        both = {**accounts, "b": measured(1.0, 1.0, holds=holds), "c": measured(1.0, 1.0)}
        answer, _ = GavelLasPolicy().decide(asked(100.0, both), memory, 1)
        assert kinds_of(answer) == {"a": "fast", "b": "slow"}


class TestKindsThatDifferByNoise:
    def test_are_one_kind_for_a_job_which_stays_on_its_own(self) -> None:
        """Both are on the kind that the other was measured to be a little faster on."""
        accounts = {
            "a": measured(1.1, 1.0, holds=Holding(ONE, "slow")),
            "b": measured(1.0, 1.1, holds=Holding(ONE, "fast")),
        }
        answer, memory = GavelLasPolicy().decide(asked(0.0, accounts), NO_MEMORY, 1)
        assert kinds_of(answer) == {"a": "slow", "b": "fast"}
        for number in range(1, 6):
            answer, memory = GavelLasPolicy().decide(asked(number * 360.0, accounts), memory, 1)
            assert kinds_of(answer) == {"a": "slow", "b": "fast"}

    def test_but_one_that_is_cheaper_is_another(self) -> None:
        kinds = (replace(KINDS[0], price=2.0), KINDS[1])
        accounts = {"a": measured(1.0, 1.0, holds=Holding(ONE, "fast"))}
        answer, _ = GavelCostPolicy().decide(asked(0.0, accounts, kinds), NO_MEMORY, 1)
        assert kinds_of(answer) == {"a": "slow"}

    def test_a_job_moves_to_another_where_it_loses_its_own(self) -> None:
        accounts = {
            "a": measured(1.0, 1.0, holds=Holding(ONE, "slow")),
            "b": measured(1.0, 4.0, holds=Holding(ONE, "fast")),
        }
        _, memory = GavelLasPolicy().decide(asked(0.0, accounts), NO_MEMORY, 1)
        had = {
            uid: replace(each, received=Service(720.0, {each.holds.kind: 720.0}))
            for uid, each in accounts.items()
            if each.holds is not None
        }
        answer, _ = GavelLasPolicy().decide(asked(720.0, had), memory, 1)
        assert kinds_of(answer) == {"b": "slow", "a": "fast"}


class TestKindsOnWhichAJobDoesNotRun:
    def test_are_never_granted_not_even_where_they_are_left_over(self) -> None:
        """b makes no progress on the slow kind, and waits for the fast one."""
        accounts = {"a": measured(4.0, 1.0), "b": measured(4.0, 0.0)}
        policy, memory = GavelLasPolicy(), NO_MEMORY
        for number in range(6):
            question = asked(number * 360.0, accounts)
            answer, memory = policy.decide(question, through_text(memory), 1)
            assert kinds_of(answer).get("b", "fast") == "fast"
            assert isinstance(answer["b"], Grant) or "not its turn" in answer["b"].reason

    def test_a_job_that_runs_nowhere_is_refused_with_the_reason(self) -> None:
        accounts = {"a": measured(0.0, 0.0)}
        answer, _ = GavelLasPolicy().decide(asked(0.0, accounts), NO_MEMORY, 1)
        assert isinstance(answer["a"], Refusal)
        assert "makes progress on no kind" in answer["a"].reason

    def test_say_nothing_of_kinds_that_were_not_tried(self) -> None:
        """The slow kind was measured alone, and the job makes no progress there."""
        samples = (SpeedSample(ONE, 0.0, 30.0, 0.0, "slow"),)
        account = JobAccount(progress=TrainingProgress(samples=samples))
        answer, _ = GavelLasPolicy().decide(asked(0.0, {"a": account}), NO_MEMORY, 1)
        assert kinds_of(answer) == {"a": "fast"}

    @examples(200)
    @given(
        speeds=st.lists(
            st.tuples(st.sampled_from([0.0, 1.0, 4.0]), st.sampled_from([0.0, 1.0, 4.0])),
            min_size=1,
            max_size=5,
        ),
        places=st.integers(1, 3),
    )
    def test_never_over_some_rounds(self, speeds: list[tuple[float, float]], places: int) -> None:
        accounts = {f"job-{n}": measured(*each) for n, each in enumerate(speeds)}
        room = total([PLACE] * places)
        kinds = tuple(KindCapacity(each.kind, places, room) for each in KINDS)
        policy, memory = GavelLasPolicy(), NO_MEMORY
        for number in range(3):
            answer, memory = policy.decide(asked(number * 360.0, accounts, kinds), memory, 1)
            for uid, grant in grants(answer).items():
                found = throughputs(accounts[uid], ONE, [grant.kind or ""])
                assert found[grant.kind or ""] > 0


class TestMemory:
    def test_shares_are_set_anew_for_a_new_job_not_before_the_reset_is_due(self) -> None:
        policy, one = GavelLasPolicy(), measured(1.0, 1.0, holds=Holding(ONE, "fast"))
        _, memory = policy.decide(asked(0.0, {"a": one}, KINDS[:1]), NO_MEMORY, 1)
        both = {"a": one, "b": measured(1.0, 1.0)}
        answer, early = policy.decide(asked(360.0, both, KINDS[:1]), memory, 1)
        assert list(grants(answer)) == ["a"]
        assert (early.data["cluster"]["reset_at"], set(early.data["jobs"])) == (0.0, {"a"})
        _, late = policy.decide(asked(2000.0, both, KINDS[:1]), early, 1)
        assert late.data["cluster"]["reset_at"] == 2000.0
        assert late.data["jobs"]["b"]["shares"] == pytest.approx({"fast": 0.5})

    def test_what_was_not_received_is_kept_as_the_deficit(self) -> None:
        """a was to have all of 2,000 s, and had 500 s."""
        policy, one = GavelLasPolicy(), measured(1.0, 1.0)
        _, memory = policy.decide(asked(0.0, {"a": one}, KINDS[:1]), NO_MEMORY, 1)
        late = replace(one, received=Service(500.0, {"fast": 500.0}))
        both = {"a": late, "b": measured(1.0, 1.0)}
        _, after = policy.decide(asked(2000.0, both, KINDS[:1]), memory, 1)
        assert after.data["jobs"]["a"]["deficit"] == pytest.approx({"fast": 1500.0})
        assert after.data["jobs"]["a"]["mark"] == {"fast": 500.0}

    def test_forgets_jobs_that_are_gone(self) -> None:
        policy = GavelLasPolicy()
        accounts = {"a": measured(1.0, 1.0), "b": measured(1.0, 1.0)}
        _, memory = policy.decide(asked(0.0, accounts), NO_MEMORY, 1)
        _, after = policy.decide(asked(360.0, {"a": accounts["a"]}), memory, 1)
        assert set(after.data["jobs"]) == {"a"}


def through_text(memory: PolicyMemory) -> PolicyMemory:
    return PolicyMemory.from_json(memory.as_json())
