"""The same workload gets the same counts and pauses from the autoscaler as in the simulator, in
each round."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from autoscaler.jobs.managed import Holds
from optimus.allocation import Policy, PolicyMemory, PolicyTraits
from optimus.allocation.policy import ClusterAllocation, ClusterProblem, Grant, Pause, Refusal
from optimus.errors import NotReady
from optimus.interval import IntervalPlan
from optimus.jobs import CountBounds, Counts, Job
from optimus.models.forecast import Forecast, ForecastFn
from optimus.placement import PLACEMENT_RULES
from optimus.policies import policy_named
from optimus.progress.types import TrainingProgress
from optimus.rescale.machine import Rescale
from optimus.rescale.words import PauseReason, Step
from optimus.simulator.cluster import SimulatedCluster
from optimus.simulator.engine import simulate
from optimus.simulator.forecasts import GroundTruth
from optimus.simulator.presets import SchedulerConfig
from optimus.simulator.scheduler import LoopConfig, rounds_driver
from tests.unit.autoscaler.controller_harness import TIMING, ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import START_AT, tf_job
from tests.unit.interval.cluster import steps
from tests.unit.simulator.workloads import JobParameters, job, nodes, workload

ROUND = 120
_TICK_SECONDS = 4
CPUS = 8


@dataclass(frozen=True)
class ScriptedJob:
    """When the job comes, how long it trains, and what is forecast of it all the while."""

    arrives: float
    epochs: int
    work: float
    bounds: CountBounds


SCRIPT = {
    "long": ScriptedJob(0.0, 250, 50_000, CountBounds(1, 2, 3, 4)),
    "middle": ScriptedJob(190.0, 80, 5_000, CountBounds(1, 2, 2, 3)),
    "short": ScriptedJob(430.0, 40, 500, CountBounds(1, 3, 3, 5)),
    "late": ScriptedJob(1270.0, 40, 2_000, CountBounds(1, 1, 2, 2)),
}


class LeastServed:
    """The job that has received the least first, at its minimum, while it fits."""

    name = "least-served"
    traits = PolicyTraits(placed_by="pack", preempts=True)

    def decide(
        self, problem: ClusterProblem, memory: PolicyMemory, _: int
    ) -> tuple[ClusterAllocation, PolicyMemory]:
        answer = dict[str, Grant | Pause | Refusal]()
        (pool,) = problem.pools
        free = pool.allocation.available
        for each in sorted(
            pool.allocation.candidates,
            key=lambda each: (problem.account(each.job.uid).received.seconds, each.job.key.name),
        ):
            demand = each.job.demand(each.least)
            if demand.fits_in(free):
                free = free - demand
                answer[each.job.uid] = Grant(each.least, reason="it has received least")
            else:
                why = "others have received less"
                answer[each.job.uid] = Pause(why) if each.running else Refusal(why)
        return answer, memory


POLICIES = (*map(policy_named, ("srtf", "drf", "fifo", "tetris", "optimus-paper")), LeastServed())

Decisions = Mapping[str, Counts | None]
"""By job that has not ended: its counts, ``None`` where it is to hold no nodes."""


def scripted(job: Job, _: TrainingProgress, /) -> Forecast | NotReady:
    return steps(SCRIPT[job.key.name].work)


class ScriptedForecasts:
    """The simulator's forecasts."""

    def forecast_fn(self, _: GroundTruth, /) -> ForecastFn:
        return scripted


@dataclass
class Rounds:
    """What each job is to have after each round, and how its rescales went on in it."""

    decided: dict[int, Decisions] = field(default_factory=dict)
    steps: dict[tuple[int, str], list[str]] = field(default_factory=dict)
    """By round and job: each step that takes time, with the target."""

    def note(self, number: int, name: str, rescale: Rescale | None) -> None:
        if rescale is None or rescale.record.step not in {Step.EMPTY, Step.START}:
            return
        record, noted = rescale.record, self.steps.setdefault((number, name), [])
        step = f"{record.step_text} {record.current_target}"
        if step not in noted:
            noted.append(step)

    def carried_out(self) -> dict[tuple[int, str], list[str]]:
        """The steps of jobs that were granted something in an earlier round, and go on after this
        one: on a cluster a job that comes has its counts at once, where they fit."""
        first = dict[str, int]()
        for number, decided in self.decided.items():
            for name, counts in decided.items():
                if counts is not None:
                    first.setdefault(name, number)
        return {
            (number, name): noted
            for (number, name), noted in self.steps.items()
            if number > first.get(name, number) and name in self.decided.get(number + 1, ())
        }


@dataclass
class Simulated(Rounds):
    """Those of a simulation."""

    def __call__(self, cluster: SimulatedCluster) -> None:
        number, beyond = divmod(cluster.now, ROUND)
        for uid, state in cluster.states.items():
            self.note(int(number), uid, state.rescale)
        if beyond == 0:
            self.decided[int(number)] = {
                uid: None if state.is_paused else state.rescaling_to or state.job.counts
                for uid, state in cluster.states.items()
            }


def in_the_simulator(policy: Policy) -> Rounds:
    driver = replace(rounds_driver(policy.traits), interval_seconds=float(ROUND))
    config = SchedulerConfig(
        name=policy.name,
        policy=policy,
        placement=PLACEMENT_RULES[policy.traits.placed_by],
        loop=LoopConfig(driver=driver),
        forecasts=ScriptedForecasts(),
    )
    jobs = (
        job(
            name,
            JobParameters(
                arrives=each.arrives,
                epochs=each.epochs,
                counts=each.bounds.minimum,
                bounds=each.bounds,
            ),
        )
        for name, each in SCRIPT.items()
    )
    simulated = Simulated()
    simulate(workload(*jobs, on=nodes(1, CPUS)), config, 1, watch=simulated)
    return simulated


def on_a_cluster(policy: Policy, ends: Mapping[int, Decisions]) -> Rounds:
    """Those of the autoscaler; jobs end before the round before which the simulated ones did."""
    cluster = FakeCluster(cpus=CPUS, at=START_AT - 2)
    holds = Holds(pauses=frozenset({PauseReason.POLICY}))
    harness = ControllerHarness(
        cluster,
        policy=policy,
        forecast=scripted,
        timing=replace(TIMING, holds=holds),
        interval_seconds=ROUND,
        measures=False,
        expects=False,
    )
    rounds = Rounds()

    def run_until(at: float, number: int) -> None:
        while cluster.at < at:
            seconds = int(min(_TICK_SECONDS, at - cluster.at))
            harness.run(seconds, tick=seconds)
            for state in harness.controller.managed:
                rounds.note(number, state.job.key.name, state.rescale)

    for number, has_not_ended in ends.items():
        at = START_AT + number * ROUND
        run_until(at - 20, number - 1)
        for name in cluster.jobs.keys() - has_not_ended.keys():
            end(harness, name)
        for name in has_not_ended.keys() - cluster.jobs.keys():
            submit(cluster, name, SCRIPT[name].bounds)
        run_until(at - 2, number - 1)
        cluster.pass_time(2.0)
        plan = harness.controller.tick()
        assert plan is not None
        rounds.decided[number] = decisions_of(plan)
    return rounds


def end(harness: ControllerHarness, name: str) -> None:
    harness.cluster.jobs[name].pods.clear()
    harness.controller.tick()  # its log is not read any more
    del harness.cluster.jobs[name]


def submit(cluster: FakeCluster, name: str, bounds: CountBounds) -> None:
    usual = {"training_mode": "async", "target_loss": "0.001", "rescale": "any"}
    cluster.submit(tf_job(name, bounds.min_ps, bounds.min_workers, **usual)).annotate(
        min_ps=str(bounds.min_ps),
        max_ps=str(bounds.max_ps),
        min_workers=str(bounds.min_workers),
        max_workers=str(bounds.max_workers),
    )


def decisions_of(plan: IntervalPlan) -> Decisions:
    return {
        each.key.name: each.counts if plan.capacity_plan.is_placed(each.uid) else None
        for each in plan.decisions
    }


@pytest.mark.parametrize("policy", POLICIES, ids=[each.name for each in POLICIES])
def test_the_autoscaler_decides_and_rescales_as_the_simulator(policy: Policy) -> None:
    simulated = in_the_simulator(policy)
    observed = on_a_cluster(policy, simulated.decided)
    assert observed.decided == simulated.decided
    carried_out = simulated.carried_out()
    assert observed.carried_out() == carried_out
    assert bool(carried_out) == (policy.name != "fifo")
