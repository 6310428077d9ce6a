"""An interval decides on a job of which only earlier runs of its workload are known."""

from dataclasses import replace

from optimus.allocation import JobHistory, per_pool
from optimus.interval import Action, Decision, IntervalConfig, IntervalInput, Strategies
from optimus.interval.plan import plan_interval
from optimus.jobs import Counts, Job, JobKey
from optimus.models.earlier_runs import run_of
from optimus.placement.theorem1 import Theorem1
from optimus.policies.optimus import OptimusPolicy
from optimus.progress.types import EarlierRun, TrainingProgress
from optimus.snapshot import ClusterSnapshot
from tests.cases import cases
from tests.unit.interval.cluster import bind, job, nodes
from tests.unit.models.forecasting import JOB, after

AT = 10_000.0


def a_job(name: str) -> Job:
    """Its speed and loss are those of ``tests.unit.models.forecasting``."""
    return replace(job(name), mode=JOB.mode, batch=JOB.batch, goal=JOB.goal)


EARLIER = run_of(a_job("earlier"), after(50), 0.0, succeeded=True)
NEW = a_job("new")


def decide(*earlier: EarlierRun, runs: bool) -> Decision:
    pods = bind(NEW, ["node-00"] * 2) if runs else []
    snapshot = ClusterSnapshot.of(AT, [NEW], nodes(2, 8), pods)
    progress = {NEW.uid: TrainingProgress(earlier=earlier)}
    history = {NEW.uid: JobHistory(workload_known=bool(earlier))}
    inputs = IntervalInput(snapshot, progress, history)
    strategies = Strategies(per_pool(OptimusPolicy()), Theorem1())
    (decision,) = plan_interval("i", inputs, strategies, IntervalConfig()).decisions
    assert decision.key == JobKey("team", "new")
    return decision


@cases("runs", {"its pods wait": False, "its pods run": True})
def test_it_gets_good_counts_before_it_has_shown_anything(runs: bool) -> None:
    found = decide(EARLIER, runs=runs)
    assert found.action is Action.GROW
    assert sum(found.counts) >= 8
    assert found.saves_seconds > 60


@cases("runs", {"its pods wait": False, "its pods run": True})
def test_without_earlier_runs_it_stays_at_its_own(runs: bool) -> None:
    found = decide(runs=runs)
    assert found.counts == Counts(1, 1)
    assert found.action is (Action.KEEP if runs else Action.WAIT)
