"""Young jobs are decided by what is to be expected of them: moves, limits and what is said."""

from dataclasses import replace

import pytest

from optimus.allocation import JobHistory, per_pool
from optimus.errors import NotReady
from optimus.interval import Action, Decision, IntervalConfig, ProfilingConfig, Strategies
from optimus.interval.driver import BeginRescale, DriverConfig, IntervalDecided, IntervalDriver
from optimus.jobs import CountBounds, Counts, Job, TrainingMode
from optimus.models.forecast import Forecast
from optimus.placement.theorem1 import Theorem1
from optimus.progress.types import NOTHING, TrainingProgress
from optimus.rescale.purpose import RescalePurpose
from tests.cases import cases
from tests.unit.interval.cases import AT, ON_NODE_00, Case
from tests.unit.interval.cluster import KnownForecasts, expecting, job, nodes, steps
from tests.unit.interval.test_driver import (
    NO_MEASURING,
    FakeManagedJob,
    FixedPolicy,
    cluster_of,
    driver_of,
    progress_measured_at,
    step,
)

YOUNG = progress_measured_at((1, 1))
LIMITS = ProfilingConfig()


def decided(case: Case) -> Decision:
    return case.decisions()["a"]


def alone(**changes: object) -> Case:
    case = Case([(job("a"), ON_NODE_00)], {"a": expecting(1000)}, nodes(4, 16))
    return replace(case, **changes)  # type: ignore[arg-type]  # the fields are Case's own


class TestDecision:
    def test_it_is_resized_and_its_reason_says_by_what(self) -> None:
        found = decided(alone())
        assert found.action is Action.GROW
        assert found.is_expected
        assert found.reason.startswith("estimated from its first measurements; ")
        assert "; expected " in found.reason
        assert "remaining " not in found.reason.rpartition("; ")[2]

    def test_a_forecast_says_nothing_of_it(self) -> None:
        found = decided(alone(known={"a": steps(1000)}))
        assert found.action is Action.GROW
        assert not found.is_expected
        assert "expect" not in found.reason

    def test_it_reaches_to_twice_what_was_measured_at_most(self) -> None:
        rules = IntervalConfig(profiling=ProfilingConfig(max_replicas=3))
        assert max(decided(alone(rules=rules)).counts) == 3
        wide = alone(rules=rules, jobs=[(job("a", (1, 4)), ON_NODE_00)])
        assert decided(wide).counts.ps <= 3
        assert 4 < decided(wide).counts.workers <= 8

    def test_it_stays_within_its_users_bounds(self) -> None:
        bounds = CountBounds(min_ps=1, max_ps=2, min_workers=1, max_workers=2)
        case = alone(jobs=[(job("a", bounds=bounds), ON_NODE_00)])
        assert decided(case).counts == Counts(2, 2)

    def test_it_says_nothing_of_a_deadline(self) -> None:
        late = job("a", finish_by=AT + 1, created_at=AT)
        assert decided(alone(jobs=[(late, ON_NODE_00)])).deadline is None


def begun(progress: TrainingProgress = YOUNG, history: JobHistory | None = None) -> BeginRescale:
    managed = FakeManagedJob(job("a"), progress, history or JobHistory())
    driver = driver_of(forecasts={"a": expecting(1e4)}, counts={"a": Counts(2, 3)})
    plan, begins = step(driver, cluster_of(managed), 0.0)
    assert isinstance(plan, IntervalDecided)
    assert isinstance(begins, BeginRescale)
    return begins


class TestMoves:
    def test_a_young_jobs_move_is_a_profiling_run_at_the_decided_counts(self) -> None:
        begins = begun()
        assert begins.purpose is RescalePurpose.PROFILING
        assert begins.counts == Counts(2, 3)
        assert begins.own_counts == Counts(1, 1)
        assert "estimated from" in begins.reason

    @cases(
        ("progress", "history"),
        {
            "an older one, which waits for a checkpoint": (
                replace(YOUNG, trained_seconds=LIMITS.trained_limit_seconds),
                JobHistory(),
            ),
            "one whose pods are older than its log": (
                YOUNG,
                JobHistory(running_seconds=LIMITS.trained_limit_seconds),
            ),
            "one that has had all its runs": (
                YOUNG,
                JobHistory(profiled=(Counts(1, 2),) * LIMITS.runs),
            ),
        },
    )
    def test_a_later_one_is_a_rescale_like_any_other(
        self, progress: TrainingProgress, history: JobHistory
    ) -> None:
        begins = begun(progress, history)
        assert begins.purpose is RescalePurpose.INTERVAL
        assert begins.own_counts is None

    def test_no_more_jobs_are_moved_at_once_than_are_profiled(self) -> None:
        names = ("a", "b", "c")
        managed = [FakeManagedJob(job(name), YOUNG) for name in names]
        driver = driver_of(
            forecasts={name: expecting(1e4) for name in names},
            counts={name: Counts(1, 2) for name in names},
        )
        cluster = cluster_of(*managed)
        begins = [each for each in step(driver, cluster, 0.0) if isinstance(each, BeginRescale)]
        assert len(begins) == LIMITS.jobs_at_once
        first = begins[0].uid
        cluster.finish_rescale(first)
        cluster.update(first, measures=False)
        (last,) = step(driver, cluster, 2.0, decides=False)
        assert isinstance(last, BeginRescale)
        assert last.uid not in {each.uid for each in begins}

    def test_a_job_that_needs_no_place_for_profiling_is_moved_beside_them(self) -> None:
        names = ("a", "b", "c", "d")
        managed = [FakeManagedJob(job(name), YOUNG) for name in names]
        forecasts = {name: expecting(1e4) for name in "abc"} | {"d": steps(1e4)}
        counts = {name: Counts(1, 2) for name in names}
        driver = driver_of(forecasts=forecasts, counts=counts)
        found = step(driver, cluster_of(*managed), 0.0)
        moved = [each.uid for each in found if isinstance(each, BeginRescale)]
        assert len(moved) == LIMITS.jobs_at_once + 1
        assert "uid-d" in moved


class TestRuns:
    def run_of(self, progress: TrainingProgress, left: float) -> list[BeginRescale]:
        config = DriverConfig()
        managed = FakeManagedJob(job("a", mode=TrainingMode.SYNC), progress)
        driver = driver_of(config, forecasts={"a": expecting(left)})
        found = step(driver, cluster_of(managed), 0.0)
        return [each for each in found if isinstance(each, BeginRescale)]

    def test_a_measurement_that_may_save_much_is_made(self) -> None:
        (run,) = self.run_of(YOUNG, 1e5)
        assert run.purpose is RescalePurpose.PROFILING
        assert "which is expected to save" in run.reason

    def test_one_that_costs_more_than_it_may_save_is_not(self) -> None:
        assert self.run_of(YOUNG, 20.0) == []

    @cases(
        ("seconds", "own", "runs"),
        {
            "in time at its own counts": (1e9, (2, 2), 0),
            "late at its own counts": (900, (2, 2), 1),
            "in time at others": (1e9, (1, 1), 1),
        },
    )
    def test_of_a_job_with_a_deadline_only_where_it_is_late(
        self, seconds: float, own: tuple[int, int], runs: int
    ) -> None:
        late = job("a", (2, 2), mode=TrainingMode.SYNC, finish_by=AT + seconds)
        history = JobHistory(user_counts=Counts(*own))
        managed = FakeManagedJob(late, progress_measured_at((2, 2)), history)
        driver = driver_of(DriverConfig(), forecasts={"a": expecting(1e4)})
        found = step(driver, cluster_of(managed), 0.0)
        assert len([each for each in found if isinstance(each, BeginRescale)]) == runs

    def test_none_of_a_job_of_which_nothing_is_expected(self) -> None:
        managed = FakeManagedJob(job("a", (2, 2)), progress_measured_at((2, 2)))
        found = step(driver_of(DriverConfig()), cluster_of(managed), 0.0)
        assert not [each for each in found if isinstance(each, BeginRescale)]

    def test_without_expectation_too(self) -> None:
        config = DriverConfig(expects=False)
        managed = FakeManagedJob(job("a", (2, 2)), progress_measured_at((2, 2)))
        found = step(driver_of(config, forecasts={"a": steps(20.0)}), cluster_of(managed), 0.0)
        assert [each.purpose for each in found if isinstance(each, BeginRescale)] == [
            RescalePurpose.PROFILING
        ]


def test_expectation_is_asked_for_only_where_there_is_no_forecast() -> None:
    asked: list[tuple[str, NotReady]] = []

    def expected(each: Job, _: TrainingProgress, refusal: NotReady, /) -> Forecast | NotReady:
        asked.append((each.key.name, refusal))
        return expecting(100.0)

    known = KnownForecasts({"a": steps(100.0)})
    strategies = Strategies(
        per_pool(FixedPolicy({})), Theorem1(), known, expected_forecast=expected
    )
    driver = IntervalDriver(strategies, NO_MEASURING)
    step(driver, cluster_of(FakeManagedJob(job("a")), FakeManagedJob(job("b"), NOTHING)), 0.0)
    assert asked == [("b", known(job("b"), NOTHING))]
    forecasts = driver.state.forecasts
    assert {uid: each.is_expected for uid, each in forecasts.items()} == {  # type: ignore[union-attr]  # both have one
        "uid-a": False,
        "uid-b": True,
    }


@pytest.mark.parametrize("advised", [True, False])
def test_without_expectation_it_is_asked_for_what_is_only_recommended(advised: bool) -> None:
    def expected(_: Job, __: TrainingProgress, ___: NotReady, /) -> Forecast | NotReady:
        return expecting(100.0)

    strategies = Strategies(
        per_pool(FixedPolicy({})), Theorem1(), KnownForecasts({}), expected_forecast=expected
    )
    driver = IntervalDriver(strategies, DriverConfig(measures=False, expects=False))
    record = JobHistory(recommends=advised, held="it is only recommended" if advised else "")
    step(driver, cluster_of(FakeManagedJob(job("a"), NOTHING, record)), 0.0)
    assert isinstance(driver.state.forecasts["uid-a"], Forecast) is advised
