"""Instructions of the interval driver and when it gives them, on clusters of one or two jobs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import pytest

from optimus.allocation import (
    NO_HISTORY,
    Allocation,
    AllocationProblem,
    JobHistory,
    PolicyMemory,
    PolicyTraits,
    per_pool,
)
from optimus.allocation.policy import ClusterAllocation, ClusterProblem, Grant, Service
from optimus.interval import Action, IntervalConfig, ProfilingConfig, Strategies
from optimus.interval.capacity_plan import Claim
from optimus.interval.driver import (
    BeginRescale,
    DriverConfig,
    EndProfilingRun,
    Instruction,
    IntervalDecided,
    IntervalDriver,
    PauseJob,
)
from optimus.jobs import (
    NO_COUNTS,
    AtTarget,
    Binding,
    CountBounds,
    Counts,
    Job,
    NodeConstraints,
    Requirement,
    RescaleRule,
    TargetLoss,
)
from optimus.models.forecast import Forecast
from optimus.nodes import NODE_KIND_LABEL, Node, Taint
from optimus.placement.theorem1 import Theorem1
from optimus.progress.types import NOTHING, LossPoint, SpeedSample, TrainingProgress
from optimus.rescale.purpose import RescalePurpose, why_unwanted
from optimus.resources import Resources
from optimus.snapshot import BoundPod, ClusterSnapshot
from tests.cases import cases
from tests.unit.interval.cluster import KnownForecasts, Sync, bind, done, job, nodes, steps

AT = 10_000.0
NO_MEASURING = DriverConfig(measures=False)
BLIND = DriverConfig(expects=False)
"""Jobs are measured whatever is expected of them."""
LEVEL = Sync(work=0.4, fixed=10.0, link=0.0)
"""Hardly faster with more."""
RUN_LIMIT = IntervalConfig().profiling.run_limit_seconds


@dataclass
class FakeManagedJob:
    job: Job
    known: TrainingProgress = NOTHING
    record: JobHistory = NO_HISTORY

    def progress(self, at: float, /) -> TrainingProgress:
        del at
        return self.known

    def history(self, at: float, /) -> JobHistory:
        del at
        return self.record


@dataclass
class FakeManagedCluster:
    """One node, on which every job has all its pods."""

    managed: dict[str, FakeManagedJob]
    nodes: tuple[Node, ...]
    at: float = AT
    claimed: list[Claim] = field(default_factory=list)
    allowed: object = ()
    received: dict[str, Service] = field(default_factory=dict)

    @property
    def submitted(self) -> list[Job]:
        return [each.job for each in self.managed.values()]

    def snapshot(self) -> ClusterSnapshot:
        pods = [
            pod for each in self.submitted for pod in bind(each, ["node-00"] * sum(each.counts))
        ]
        return ClusterSnapshot.of(self.at, self.submitted, self.nodes, pods)

    def claims(self, snapshot: ClusterSnapshot, /) -> Iterable[Claim]:
        del snapshot
        return self.claimed

    def carry_out(self, instruction: Instruction) -> None:
        if isinstance(instruction, BeginRescale):
            self.update(
                instruction.uid,
                rescaling_to=instruction.counts,
                measures=instruction.purpose.measures,
                own_counts=instruction.own_counts,
            )
        elif isinstance(instruction, EndProfilingRun):
            self.update(instruction.uid, profiling_since=None)

    def update(self, uid: str, **changes: object) -> None:
        each = self.managed[uid]
        each.record = replace(each.record, **changes)  # type: ignore[arg-type]  # of a test table

    def finish_rescale(self, uid: str) -> None:
        each = self.managed[uid]
        assert each.record.rescaling_to is not None
        each.job = replace(each.job, counts=each.record.rescaling_to)
        self.update(uid, rescaling_to=None, last_rescaled_at=self.at)


@dataclass(frozen=True)
class FixedPolicy:
    """Allocates the given counts, by job name."""

    counts: Mapping[str, Counts]
    name: str = "fixed"
    traits: ClassVar[PolicyTraits] = PolicyTraits(placed_by="theorem1", weighs_restarts=True)

    def allocate(self, problem: AllocationProblem) -> Allocation:
        names = {each.job.uid: each.job.key.name for each in problem.candidates}
        return Allocation(
            {uid: self.counts[name] for uid, name in names.items() if name in self.counts}
        )


def cluster_of(*jobs: FakeManagedJob, cores: int = 16) -> FakeManagedCluster:
    return FakeManagedCluster({each.job.uid: each for each in jobs}, tuple(nodes(1, cores)))


def driver_of(
    config: DriverConfig = NO_MEASURING,
    forecasts: dict[str, Forecast] | None = None,
    counts: Mapping[str, Counts] | None = None,
) -> IntervalDriver:
    policy = FixedPolicy(counts or {})
    return IntervalDriver(
        Strategies(per_pool(policy), Theorem1(), KnownForecasts(forecasts or {})), config
    )


def step(
    driver: IntervalDriver, cluster: FakeManagedCluster, timer: float, *, decides: bool = True
) -> list[Instruction]:
    instructions = []
    for instruction in driver.step(cluster, timer, decides=decides):
        cluster.carry_out(instruction)
        instructions.append(instruction)
    return instructions


def types_of(instructions: Iterable[Instruction]) -> list[type]:
    return [type(each) for each in instructions]


def begins(instruction: Instruction) -> bool:
    return isinstance(instruction, BeginRescale | PauseJob)


def progress_measured_at(*counts: tuple[int, int], trained: float = 100.0) -> TrainingProgress:
    samples = tuple(SpeedSample(Counts(*each), 1.0, 60.0, AT) for each in counts)
    return TrainingProgress(samples=samples, trained_seconds=trained)


# When an interval is due


def test_an_interval_is_due_at_the_first_step_and_after_the_interval_seconds() -> None:
    driver, cluster = driver_of(), cluster_of(FakeManagedJob(job("a")))
    decided = [timer for timer in range(0, 1300, 10) if step(driver, cluster, float(timer))]
    assert decided == [0, 600, 1200]
    assert driver.state.intervals == 3


def add_job(cluster: FakeManagedCluster) -> None:
    cluster.managed["uid-b"] = FakeManagedJob(job("b"))


def add_node(cluster: FakeManagedCluster) -> None:
    cluster.nodes = tuple(nodes(2, 16))


SOFT = Taint("old", effect="PreferNoSchedule")


def change_node(**changes: object) -> Callable[[FakeManagedCluster], None]:
    def change(cluster: FakeManagedCluster) -> None:
        cluster.nodes = (replace(cluster.nodes[0], **changes),)  # type: ignore[arg-type]  # of a table

    return change


def change_job(**changes: object) -> Callable[[FakeManagedCluster], None]:
    def change(cluster: FakeManagedCluster) -> None:
        cluster.managed["uid-a"].job = job("a", **changes)  # type: ignore[arg-type]  # of a table

    return change


def change_history(**changes: object) -> Callable[[FakeManagedCluster], None]:
    return lambda cluster: cluster.update("uid-a", **changes)


def raise_quota(cluster: FakeManagedCluster) -> None:
    cluster.allowed = (("team", "quota compute", ("pods",), Resources(pods=9)),)


def train(cluster: FakeManagedCluster) -> None:
    cluster.managed["uid-a"].known = progress_measured_at((1, 1))


def train_briefly(cluster: FakeManagedCluster) -> None:
    known = progress_measured_at((1, 1))
    samples = tuple(replace(each, seconds=29.0) for each in known.samples)
    cluster.managed["uid-a"].known = replace(known, samples=samples)


def log_losses(*losses: float) -> Callable[[FakeManagedCluster], None]:
    def log(cluster: FakeManagedCluster) -> None:
        points = tuple(LossPoint(epoch=n + 1.0, loss=loss) for n, loss in enumerate(losses))
        known = replace(cluster.managed["uid-a"].known, losses=points)
        cluster.managed["uid-a"].known = known

    return log


EARLY = [
    ("a new job", add_job, 20.0),
    ("a new node", add_node, 60.0),
    ("a label that no job asks for", change_node(labels={"maintained-by": "me"}), None),
    ("a label that a job asks for", change_node(labels={"disk": "ssd"}), 60.0),
    ("a taint that is only to be avoided", change_node(taints=(SOFT,)), None),
    ("a taint that repels", change_node(taints=(replace(SOFT, effect="NoExecute"),)), 60.0),
    ("a cordoned node", change_node(cordoned=True), 60.0),
    ("less capacity", change_node(allocatable=Resources(cpu=1000)), 60.0),
    ("an ended job", lambda cluster: cluster.managed.clear(), 60.0),
    ("bounds that moved", change_job(bounds=CountBounds(max_workers=3)), 60.0),
    ("a goal that changed", change_job(goal=TargetLoss(0.2)), 60.0),
    ("a job that its user suspends", change_job(suspended=True), 60.0),
    ("the end of the last profiling run", change_history(profiled=(Counts(1, 1),)), 20.0),
    ("a checkpoint that is awaited", change_history(awaits_checkpoint=True), 20.0),
    ("a rescale that suspends a job", change_history(rescaling_to=Counts(1, 2)), None),
    ("a quota that was raised", raise_quota, 60.0),
    ("a new job's first speed", train, 20.0),
    ("training of less than half a minute", train_briefly, None),
    ("a goal that is met", log_losses(1.0, 0.05, 0.05), 20.0),
    ("a goal that is not met", log_losses(1.0, 0.5, 0.5), None),
]


@pytest.mark.parametrize(
    ("change", "after"), [each[1:] for each in EARLY], ids=[each[0] for each in EARLY]
)
def test_an_early_interval_begins_at_the_least_distance_after_a_change(
    change: Callable[[FakeManagedCluster], None], after: float | None
) -> None:
    """Sooner where a young job came, or has shown something."""
    on_any_disk = NodeConstraints(affinity=((Requirement("disk", "NotIn", ("none",)),),))
    chooses = replace(job("a"), worker=replace(job("a").worker, constraints=on_any_disk))
    driver, cluster = driver_of(), cluster_of(FakeManagedJob(chooses))
    step(driver, cluster, 0.0)
    assert driver.next_interval_at(cluster) == 600.0
    change(cluster)
    due = 600.0 if after is None else after
    assert driver.next_interval_at(cluster) == due
    assert step(driver, cluster, due - 1.0) == []
    assert types_of(step(driver, cluster, due)) == [IntervalDecided]


def test_an_old_job_and_many_jobs_wait_for_the_usual_early_interval() -> None:
    driver, cluster = driver_of(), cluster_of(FakeManagedJob(job("a")))
    step(driver, cluster, 0.0)
    cluster.managed["uid-a"].known = replace(NOTHING, trained_seconds=600.0)
    log_losses(1.0, 0.05, 0.05)(cluster)
    assert driver.next_interval_at(cluster) == 60.0
    many = [FakeManagedJob(job(f"j{number}")) for number in range(200)]
    driver, cluster = driver_of(), cluster_of(*many)
    step(driver, cluster, 0.0)
    cluster.managed["uid-j1"].known = progress_measured_at((1, 1))
    assert driver.next_interval_at(cluster) == pytest.approx(40.0)


@pytest.mark.parametrize(
    ("trained", "prices", "seconds"),
    [(0.0, (), 60.0), (0.0, (20.0,), 60.0), (0.0, (90.0,) * 3, 90.0), (600.0, (20.0,), 300.0)],
    ids=["young", "young and cheap", "young and dear", "old"],
)
def test_a_young_job_may_be_moved_again_soon_where_that_is_cheap(
    trained: float, prices: tuple[float, ...], seconds: float
) -> None:
    progress = replace(NOTHING, trained_seconds=trained)
    assert IntervalConfig().cooldown_of(progress, JobHistory(prices=prices)) == seconds


# Pending rescales


def shrink_and_grow() -> tuple[IntervalDriver, FakeManagedCluster]:
    """On a full node ``a``, which is about as fast with less, shrinks so that ``b`` can grow."""
    long, short = FakeManagedJob(job("b", (1, 1))), FakeManagedJob(job("a", (1, 4)))
    driver = driver_of(
        forecasts={"a": steps(1e6, LEVEL), "b": steps(1e6)},
        counts={"a": Counts(1, 1), "b": Counts(1, 4)},
    )
    return driver, cluster_of(short, long, cores=7)


def test_a_growing_job_waits_until_the_other_has_shrunk() -> None:
    driver, cluster = shrink_and_grow()
    decided, shrinks = step(driver, cluster, 0.0)
    assert isinstance(decided, IntervalDecided)
    assert isinstance(shrinks, BeginRescale)
    assert (shrinks.uid, shrinks.counts, shrinks.id) == ("uid-a", Counts(1, 1), "10000-1")
    assert step(driver, cluster, 2.0) == []
    cluster.finish_rescale("uid-a")
    # A step that does not decide still begins what was decided before.
    (grows,) = step(driver, cluster, 4.0, decides=False)
    assert isinstance(grows, BeginRescale)
    assert (grows.uid, grows.counts) == ("uid-b", Counts(1, 4))
    assert grows.purpose is RescalePurpose.INTERVAL
    assert grows.placement is not None
    assert len(grows.placement) == 5
    assert step(driver, cluster, 6.0) == []


def test_a_job_does_not_shrink_on_a_node_that_takes_no_new_pods() -> None:
    driver, cluster = shrink_and_grow()
    (node,) = cluster.nodes
    begun = []
    for instruction in driver.step(cluster, 0.0):
        begun.append(instruction)
        cluster.nodes = (replace(node, cordoned=True),)  # right after it is decided
    assert types_of(begun) == [IntervalDecided]
    cluster.nodes = (node,)
    (shrinks,) = step(driver, cluster, 2.0, decides=False)
    assert isinstance(shrinks, BeginRescale)
    assert (shrinks.uid, shrinks.counts) == ("uid-a", Counts(1, 1))


@dataclass
class WaitingCluster(FakeManagedCluster):
    """The same, but one job has no pod yet."""

    waiting: str = "uid-b"

    def snapshot(self) -> ClusterSnapshot:
        placed = [each for each in self.submitted if each.uid != self.waiting]
        pods = [pod for each in placed for pod in bind(each, ["node-00"] * sum(each.counts))]
        return ClusterSnapshot.of(self.at, self.submitted, self.nodes, pods)


def test_a_waiting_job_shrinks_only_once_there_is_room_for_it() -> None:
    running, waiting = FakeManagedJob(job("a", (1, 3))), FakeManagedJob(job("b", (1, 3)))
    managed = {each.job.uid: each for each in (running, waiting)}
    cluster = WaitingCluster(managed, tuple(nodes(1, 4)))
    forecasts = {"a": steps(10_000), "b": steps(10_000)}
    counts = {"a": Counts(1, 1), "b": Counts(1, 1)}
    driver = driver_of(forecasts=forecasts, counts=counts)
    begun = [each for each in step(driver, cluster, 0.0) if isinstance(each, BeginRescale)]
    assert [(each.uid, each.counts) for each in begun] == [("uid-a", Counts(1, 1))]
    cluster.finish_rescale("uid-a")
    begun = [each for each in step(driver, cluster, 2.0) if isinstance(each, BeginRescale)]
    assert [(each.uid, each.counts) for each in begun] == [("uid-b", Counts(1, 1))]


def promised(cores: int) -> tuple[IntervalDriver, WaitingCluster]:
    """``a`` is made smaller for ``b``, which waits; the speed of the young ``c`` is to be
    measured."""
    donor, waiting = (
        FakeManagedJob(job("a", (2, 8))),
        FakeManagedJob(job("b", (1, 5), bounds=CountBounds(1, None, 3))),
    )
    young = FakeManagedJob(job("c", (1, 1)), progress_measured_at((1, 1)))
    managed = {each.job.uid: each for each in (donor, waiting, young)}
    cluster = WaitingCluster(managed, tuple(nodes(1, cores)))
    donor.record = JobHistory(profiled=(Counts(1, 1),) * 4)
    forecasts = {"a": steps(10), "b": steps(1e6)}
    counts = {"a": Counts(2, 6), "b": Counts(1, 5)}
    profiling = ProfilingConfig(trained_limit_seconds=200)
    config = DriverConfig(interval=IntervalConfig(profiling=profiling), expects=False)
    return driver_of(config, forecasts, counts), cluster


@cases(
    ("cores", "measured"),
    {
        "part of it is free already": (15, []),
        "all of it is free by then": (18, []),
        "there is more than that": (24, ["uid-c"]),
    },
)
def test_what_is_released_for_a_job_that_waits_is_not_used_to_measure_another(
    cores: int, measured: list[str]
) -> None:
    driver, cluster = promised(cores)
    begun = [each for each in step(driver, cluster, 0.0) if isinstance(each, BeginRescale)]
    assert [each.uid for each in begun if each.purpose.measures] == measured


def test_a_promise_ends_when_its_pods_are_placed_or_after_a_while() -> None:
    driver, cluster = promised(18)
    assert step(driver, cluster, 0.0)
    cluster.update("uid-a", rescaling_to=None)
    cluster.at += 700
    again = step(driver, cluster, 2.0, decides=True)
    assert [each.uid for each in again if isinstance(each, BeginRescale)] == ["uid-c"]


def test_a_growing_job_waits_while_another_rescale_claims_the_capacity() -> None:
    driver, cluster = shrink_and_grow()
    step(driver, cluster, 0.0)
    cluster.finish_rescale("uid-a")
    cluster.claimed = [Claim(cluster.managed["uid-a"].job, Counts(1, 2), keeps_pods=True)]
    assert step(driver, cluster, 2.0) == []
    cluster.claimed = []
    assert types_of(step(driver, cluster, 4.0)) == [BeginRescale]


def change_b(**changes: object) -> Callable[[FakeManagedCluster], None]:
    def change(cluster: FakeManagedCluster) -> None:
        each = cluster.managed["uid-b"]
        each.job = replace(each.job, **changes)  # type: ignore[arg-type]  # of a table

    return change


STALE = [
    ("the job has ended", lambda cluster: cluster.managed.pop("uid-b")),
    ("its counts were changed", change_b(counts=Counts(1, 2))),
    ("its bounds do not allow the counts", change_b(bounds=CountBounds(max_workers=3))),
    ("its annotation says never", change_b(rescale=RescaleRule.NEVER)),
    ("its management has ended", change_b(goal=None)),
    ("another rescale is under way", lambda each: each.update("uid-b", rescaling_to=Counts(1, 2))),
    ("it awaits a checkpoint", lambda each: each.update("uid-b", awaits_checkpoint=True)),
]


@pytest.mark.parametrize("change", [each[1] for each in STALE], ids=[each[0] for each in STALE])
def test_a_stale_pending_decision_is_dropped(change: Callable[[FakeManagedCluster], None]) -> None:
    driver, cluster = shrink_and_grow()
    step(driver, cluster, 0.0)
    assert list(driver.state.pending) == ["uid-b"]
    cluster.finish_rescale("uid-a")
    change(cluster)
    assert step(driver, cluster, 2.0, decides=False) == []
    assert driver.state.pending == {}


@cases("is_stale", {"is stale": True, "lacks room": False})
def test_a_pending_decision_that_cannot_begin_holds_back_no_other(is_stale: bool) -> None:
    """b and c wait until a has shrunk by 3 workers; a claim then leaves room for c alone."""
    counts = {"a": Counts(1, 1), "b": Counts(1, 3), "c": Counts(1, 2)}
    jobs = [FakeManagedJob(job(name, (1, 4 if name == "a" else 1))) for name in "abc"]
    forecasts = {"a": steps(1e6, LEVEL), "b": steps(1e6), "c": steps(1e6)}
    driver, cluster = driver_of(forecasts=forecasts, counts=counts), cluster_of(*jobs, cores=9)
    step(driver, cluster, 0.0)
    assert list(driver.state.pending) == ["uid-b", "uid-c"]
    cluster.finish_rescale("uid-a")
    if is_stale:
        change_b(bounds=CountBounds(max_workers=1))(cluster)
    else:
        cluster.claimed = [Claim(cluster.managed["uid-a"].job, Counts(1, 3), keeps_pods=True)]
    (begun,) = step(driver, cluster, 2.0)
    assert isinstance(begun, BeginRescale)
    assert begun.uid == "uid-c"


def test_a_job_at_its_goal_is_suspended_without_a_placement() -> None:
    cluster = cluster_of(FakeManagedJob(job("a", at_target=AtTarget.SUSPEND)))
    _, begun = step(driver_of(forecasts={"a": done()}), cluster, 0.0)
    assert isinstance(begun, BeginRescale)
    assert begun.counts == NO_COUNTS
    assert begun.placement is None


@cases(
    ("changes", "counts", "goal_changed", "reason"),
    {
        "a goal that changed does not stop a resize": ({}, Counts(2, 2), True, None),
        "no goal": ({"goal": None}, Counts(2, 2), False, "its user has ended"),
        "left alone": ({"left_alone": "MXTune"}, Counts(2, 2), False, "MXTune"),
        "rescale never": ({"rescale": RescaleRule.NEVER}, Counts(2, 2), False, "says never"),
        "bounds": ({"bounds": CountBounds(max_ps=1)}, Counts(2, 2), False, "bounds do not allow"),
        "at-target is continue": ({}, NO_COUNTS, False, "changed its goal"),
        "another goal": ({"at_target": AtTarget.SUSPEND}, NO_COUNTS, True, "changed its goal"),
        "its goal is met": ({"at_target": AtTarget.SUSPEND}, NO_COUNTS, False, None),
    },
)
def test_reason_why_pending_counts_are_dropped(
    changes: dict[str, object], counts: Counts, goal_changed: bool, reason: str | None
) -> None:
    found = why_unwanted(
        job("a", **changes),  # type: ignore[arg-type]  # settings of a test table, of any type
        counts,
        goal_changed=goal_changed,
    )
    assert found is reason if reason is None else reason in (found or "")


# Profiling runs and exploration


def test_a_profiling_run_ends_after_steady_training_and_the_next_begins() -> None:
    cluster = cluster_of(FakeManagedJob(job("a", (1, 2)), progress_measured_at((1, 2))))
    driver = driver_of(BLIND)
    _, begun = step(driver, cluster, 0.0)
    assert isinstance(begun, BeginRescale)
    assert begun.purpose is RescalePurpose.PROFILING
    assert begun.id == "profiling-10000-1"
    assert begun.own_counts == Counts(1, 2)
    assert step(driver, cluster, 2.0) == [], "nothing follows while the job is rescaled"
    cluster.finish_rescale("uid-a")
    at = cluster.managed["uid-a"].job.counts
    cluster.update("uid-a", measures=False, profiled=(at,), profiling_since=AT)
    assert step(driver, cluster, 4.0) == [], "the run goes on"
    cluster.managed["uid-a"].known = progress_measured_at((1, 2), (at.ps, at.workers))
    ended, again = step(driver, cluster, 6.0)
    assert ended == EndProfilingRun("uid-a", f"60 s of steady training at {at}")
    assert isinstance(again, BeginRescale)
    assert again.id == "profiling-10000-2"
    assert again.own_counts == Counts(1, 2), "the user's counts are remembered through all runs"


def test_a_profiling_run_without_samples_ends_at_its_time_limit() -> None:
    record = JobHistory(profiled=(Counts(1, 1),), profiling_since=AT)
    cluster = cluster_of(FakeManagedJob(job("a"), NOTHING, record))
    driver = driver_of(DriverConfig())
    assert types_of(step(driver, cluster, 0.0)) == [IntervalDecided]
    cluster.at = AT + RUN_LIMIT + 1
    assert types_of(step(driver, cluster, 2.0)) == [EndProfilingRun]


def test_a_step_that_does_not_decide_begins_no_profiling_run_and_no_interval() -> None:
    cluster = cluster_of(FakeManagedJob(job("a", (1, 2)), progress_measured_at((1, 2))))
    assert step(driver_of(DriverConfig()), cluster, 0.0, decides=False) == []


def test_a_step_that_does_not_decide_ends_no_profiling_run() -> None:
    record = JobHistory(profiled=(Counts(1, 1),), profiling_since=AT - RUN_LIMIT - 1)
    cluster = cluster_of(FakeManagedJob(job("a"), NOTHING, record))
    driver = driver_of(DriverConfig())
    assert step(driver, cluster, 0.0, decides=False) == []
    assert EndProfilingRun in types_of(step(driver, cluster, 2.0))


@cases(
    ("record", "is_early"),
    {
        "never moved": (JobHistory(), True),
        "rescaled, and not measured by that": (JobHistory(rescales=1), False),
    },
)
def test_the_first_measurement_brings_an_interval_forward_for_a_job_that_was_never_moved(
    record: JobHistory, is_early: bool
) -> None:
    managed = FakeManagedJob(job("a"), NOTHING, record)
    cluster, driver = cluster_of(managed), driver_of(DriverConfig())
    step(driver, cluster, 0.0)
    managed.known = progress_measured_at((1, 1))
    assert (driver.next_interval_at(cluster) < 600.0) is is_early


def test_one_job_past_profiling_makes_an_exploratory_move_in_an_interval() -> None:
    old = [FakeManagedJob(job(name), progress_measured_at((1, 1), trained=7000)) for name in "ab"]
    cluster, driver = cluster_of(*old), driver_of(BLIND)
    decided, begun = step(driver, cluster, 0.0)
    assert isinstance(decided, IntervalDecided)
    assert isinstance(begun, BeginRescale)
    assert begun.purpose is RescalePurpose.EXPLORATION
    assert begun.id == "exploration-10000-1"
    assert begun.own_counts == Counts(1, 1)
    assert step(driver, cluster, 300.0) == []


def test_a_job_rescaled_by_the_interval_makes_no_exploratory_move() -> None:
    cluster = cluster_of(FakeManagedJob(job("a"), progress_measured_at((1, 1), trained=7000)))
    driver = driver_of(DriverConfig(), {"a": steps(1e6)}, {"a": Counts(2, 4)})
    _, begun = step(driver, cluster, 0.0)
    assert isinstance(begun, BeginRescale)
    assert begun.purpose is RescalePurpose.INTERVAL


def test_a_job_without_checkpoints_returns_to_its_own_counts_after_profiling() -> None:
    moved = Counts(1, 3)
    record = JobHistory(profiled=(moved,) * 4, own_counts=Counts(1, 1), measured_at=AT - 100)
    cluster = cluster_of(FakeManagedJob(job("a", (1, 3)), progress_measured_at((1, 3)), record))
    _, begun = step(driver_of(DriverConfig()), cluster, 0.0)
    assert isinstance(begun, BeginRescale)
    assert begun.counts == Counts(1, 1)
    assert begun.purpose is RescalePurpose.AFTER_PROFILING


def test_a_profiling_run_leaves_capacity_for_a_profiled_job_to_return() -> None:
    """``b`` is not profiled on the capacity that ``a`` needs to return to its user's counts."""
    record = JobHistory(profiled=(Counts(1, 1),), own_counts=Counts(1, 4), profiling_since=AT)
    small = FakeManagedJob(job("a", (1, 1)), NOTHING, record)
    young = FakeManagedJob(job("b", (1, 1), created_at=1.0), progress_measured_at((1, 1)))
    for cores, begun in ((7, []), (9, ["uid-b"])):
        cluster = cluster_of(replace(small), replace(young), cores=cores)
        found = step(driver_of(BLIND), cluster, 0.0)
        assert [each.uid for each in found if isinstance(each, BeginRescale)] == begun


@cases(
    ("trained", "fields", "purpose"),
    {
        "a new job": (100, {}, RescalePurpose.ADMISSION),
        "not one that trains for five minutes already": (301, {}, RescalePurpose.INTERVAL),
        "not one that was moved already": (
            100,
            {"rescales": 1, "last_rescaled_at": AT - 1000},
            RescalePurpose.INTERVAL,
        ),
        "not one without a prior": (100, {"workload_known": False}, RescalePurpose.INTERVAL),
    },
)
def test_the_first_move_of_a_job_whose_workload_is_known_is_its_admission(
    trained: float, fields: dict[str, object], purpose: RescalePurpose
) -> None:
    known = JobHistory(workload_known=True)
    history = replace(known, **fields)  # type: ignore[arg-type]  # JobHistory's own
    progress = progress_measured_at((1, 1), trained=trained)
    cluster = cluster_of(FakeManagedJob(job("a"), progress, history))
    driver = driver_of(DriverConfig(), {"a": steps(1e6)}, {"a": Counts(2, 4)})
    _, begun = step(driver, cluster, 0.0)
    assert isinstance(begun, BeginRescale)
    assert begun.purpose is purpose
    assert purpose.is_chosen, "it counts against the rate of rescales"


def test_a_job_whose_workload_is_known_makes_no_exploratory_move() -> None:
    known, old = JobHistory(workload_known=True), progress_measured_at((1, 1), trained=7000)
    cluster = cluster_of(FakeManagedJob(job("a"), old, known))
    assert types_of(step(driver_of(DriverConfig()), cluster, 0.0)) == [IntervalDecided]


@pytest.mark.parametrize("prices", [(), (25.0,)])
def test_a_job_that_is_not_to_be_changed_is_told_what_else_would_be(
    prices: tuple[float, ...],
) -> None:
    """With the times at both counts; a job that may be changed is told nothing."""
    advised = JobHistory(recommends=True, held="it is only recommended", prices=prices)
    cluster = cluster_of(
        FakeManagedJob(job("a"), NOTHING, advised), FakeManagedJob(job("b"), NOTHING)
    )
    forecasts = {"a": steps(1000), "b": steps(1000)}
    driver = driver_of(NO_MEASURING, forecasts, dict.fromkeys("ab", Counts(1, 2)))
    decided, *begun = step(driver, cluster, 0.0)
    assert isinstance(decided, IntervalDecided)
    decisions = {each.key.name: each for each in decided.plan.decisions}
    held, told = decisions["a"], decisions["a"].recommended
    assert (held.action, held.counts) == (Action.KEEP, Counts(1, 1))
    assert told is not None
    assert (told.action, told.current, told.counts) == (Action.GROW, Counts(1, 1), Counts(1, 2))
    assert told.seconds_now == pytest.approx(forecasts["a"].at(Counts(1, 1)))
    assert told.seconds_then == pytest.approx(forecasts["a"].at(Counts(1, 2)))
    assert told.price_seconds == (25.0 if prices else 60.0)
    assert not told.expected
    assert decisions["b"].recommended is None
    assert [each.uid for each in begun if isinstance(each, BeginRescale)] == ["uid-b"]


@pytest.mark.parametrize("held", ["", "its user has paused it"])
def test_what_is_recommended_takes_no_room_of_a_job_that_stays(held: str) -> None:
    driver, cluster = shrink_and_grow()
    cluster.update("uid-a", held=held)
    cluster.update("uid-b", held="it is only recommended", recommends=True)
    decided, *_ = step(driver, cluster, 0.0)
    assert isinstance(decided, IntervalDecided)
    told = next(each.recommended for each in decided.plan.decisions if each.uid == "uid-b")
    assert told is not None
    assert told.action is (Action.KEEP if held else Action.GROW)


@cases(
    ("cores", "given_up"),
    {
        "although it fits": (8, [*[False] * 2, *[True] * 6, False, True]),
        "since others still have its room": (3, [False] * 10),
    },
)
def test_a_job_that_is_not_placed_is_given_up_for_a_while(cores: int, given_up: list[bool]) -> None:
    running, waiting = FakeManagedJob(job("a", (1, 1))), FakeManagedJob(job("b", (1, 1)))
    managed = {each.job.uid: each for each in (running, waiting)}
    cluster = WaitingCluster(managed, tuple(nodes(1, cores)))
    driver = driver_of(NO_MEASURING, {"a": steps(10)}, {"a": Counts(1, 1)})
    seen = []
    for at in range(0, 6000, 600):
        cluster.at = AT + at
        begun = step(driver, cluster, float(at))
        (decided,) = [each for each in begun if isinstance(each, IntervalDecided)]
        (why,) = [each.reason for each in decided.plan.decisions if each.uid == "uid-b"]
        seen.append("not placed although" in why)
    assert seen == given_up


@dataclass
class TwoNodes(FakeManagedCluster):
    """A node of each of two kinds, on which jobs have all their pods."""

    on: dict[str, str] = field(default_factory=dict)

    def snapshot(self) -> ClusterSnapshot:
        pods = [pod for uid, node in self.on.items() for pod in self._pods(uid, node)]
        return ClusterSnapshot.of(self.at, self.submitted, self.nodes, pods)

    def _pods(self, uid: str, node: str) -> list[BoundPod]:
        of = self.managed[uid].job
        return bind(of, [node] * sum(of.counts))


@dataclass(frozen=True)
class OnKinds:
    """A policy by which jobs take turns, on these kinds, by UID."""

    kinds: Mapping[str, str]
    name: str = "on-kinds"
    traits: ClassVar[PolicyTraits] = PolicyTraits(
        placed_by="theorem1", reads_forecasts=False, preempts=True, time_shared=True
    )

    def decide(
        self, problem: ClusterProblem, memory: PolicyMemory, _: int
    ) -> tuple[ClusterAllocation, PolicyMemory]:
        candidates = [each for pool in problem.pools for each in pool.allocation.candidates]
        granted = {
            each.job.uid: Grant(each.job.counts, self.kinds[each.job.uid]) for each in candidates
        }
        return granted, memory


class TestASwapOfKinds:
    """a is on the kind that b is to run on, and b on a's."""

    @pytest.fixture
    def cluster(self) -> TwoNodes:
        two = tuple(
            replace(node, labels={NODE_KIND_LABEL: kind})
            for node, kind in zip(nodes(2, 2), ("fast", "slow"), strict=True)
        )
        jobs = [FakeManagedJob(job(name, (1, 1))) for name in "ab"]
        on = {"uid-a": "node-00", "uid-b": "node-01"}
        return TwoNodes({each.job.uid: each for each in jobs}, two, on=on)

    @pytest.fixture
    def driver(self) -> IntervalDriver:
        policy = OnKinds({"uid-a": "slow", "uid-b": "fast"})
        config = replace(NO_MEASURING, expects=False, pauses=True)
        return IntervalDriver(Strategies(policy, Theorem1(), KnownForecasts({})), config)

    def test_stops_both_at_once_for_the_nodes_that_each_leaves(
        self, cluster: TwoNodes, driver: IntervalDriver
    ) -> None:
        _, *begun = step(driver, cluster, 0.0)
        moves = [each for each in begun if isinstance(each, BeginRescale)]
        assert len(moves) == len(begun) == 2
        assert {each.uid: (each.kind, each.purpose) for each in moves} == {
            "uid-a": ("slow", RescalePurpose.TURN),
            "uid-b": ("fast", RescalePurpose.TURN),
        }
        placed = {each.uid: {held.node for held in each.placement or ()} for each in moves}
        assert placed == {"uid-a": {"node-01"}, "uid-b": {"node-00"}}

    def test_is_not_held_back_by_the_pods_of_the_other(
        self, cluster: TwoNodes, driver: IntervalDriver
    ) -> None:
        mine = cluster.managed["uid-a"].job.bound_to(Binding(NODE_KIND_LABEL, "slow"))
        assert not driver.headroom(cluster, mine.uid).fits(mine, mine.counts)
        step(driver, cluster, 0.0)
        assert driver.headroom(cluster, mine.uid).fits(mine, mine.counts)

    def test_is_none_where_a_third_job_is_in_the_way(
        self, cluster: TwoNodes, driver: IntervalDriver
    ) -> None:
        cluster.managed["uid-b"].job = replace(
            cluster.managed["uid-b"].job, rescale=RescaleRule.NEVER
        )
        (decided,) = step(driver, cluster, 0.0)
        assert isinstance(decided, IntervalDecided)


class TestRounds:
    """A policy that does not weigh restarts is asked once in each whole round of 600 s."""

    @dataclass(frozen=True)
    class Anew:
        """Gives the job one worker more than its user did, or pauses it."""

        pauses: bool
        name: str = "anew"
        traits: ClassVar[PolicyTraits] = PolicyTraits(placed_by="theorem1", reads_forecasts=False)

        def allocate(self, problem: AllocationProblem) -> Allocation:
            wanted = {each.job.uid: Counts(1, 2) for each in problem.candidates}
            return Allocation({} if self.pauses else wanted)

    def driver(
        self, *, pauses: bool, together: bool = True, pausing: bool = False
    ) -> IntervalDriver:
        config = replace(
            NO_MEASURING,
            interval_seconds=600.0,
            expects=False,
            pauses=pausing or together,
            stops_together=together,
        )
        strategies = Strategies(per_pool(self.Anew(pauses)), Theorem1(), KnownForecasts({}))
        return IntervalDriver(strategies, config)

    def test_it_is_asked_once_in_each_and_not_early(self) -> None:
        driver, cluster = self.driver(pauses=False), cluster_of(FakeManagedJob(job("a")))
        planned = list[float]()
        for timer in (500.0, 560.0, 599.0, 600.0, 602.0, 1100.0, 1201.0, 1799.0, 1800.0):
            instructions = step(driver, cluster, timer)
            planned += [timer for each in instructions if isinstance(each, IntervalDecided)]
            other = job(f"at-{timer}")
            cluster.managed = {other.uid: FakeManagedJob(other)}
        assert planned == [500.0, 600.0, 1201.0, 1800.0]

    def test_what_it_moves_begins_at_once_on_the_nodes_of_the_plan(self) -> None:
        driver, cluster = self.driver(pauses=False), cluster_of(FakeManagedJob(job("a")))
        decided, begun = step(driver, cluster, 0.0)
        assert isinstance(decided, IntervalDecided)
        assert isinstance(begun, BeginRescale)
        assert (begun.counts, begun.purpose) == (Counts(1, 2), RescalePurpose.INTERVAL)
        assert begun.placement == decided.plan.capacity_plan.held["uid-a"]

    def test_a_job_without_a_grant_is_paused(self) -> None:
        driver, cluster = self.driver(pauses=True), cluster_of(FakeManagedJob(job("a")))
        _, paused = step(driver, cluster, 0.0)
        assert paused == PauseJob("uid-a", "10000-1", "")

    def test_a_job_is_paused_where_jobs_are_not_stopped_together(self) -> None:
        driver = self.driver(pauses=True, together=False, pausing=True)
        cluster = cluster_of(FakeManagedJob(job("a")))
        _, paused = step(driver, cluster, 0.0)
        assert paused == PauseJob("uid-a", "10000-1", "")
        assert not driver.state.pending

    def test_there_a_job_that_is_trimmed_to_its_own_counts_stays(self) -> None:
        driver = self.driver(pauses=False, together=False)
        (decided,) = step(driver, cluster_of(FakeManagedJob(job("a")), cores=2), 0.0)
        assert isinstance(decided, IntervalDecided)
        (decision,) = decided.plan.decisions
        assert "trimmed from 1 PS + 2 workers" in decision.reason
        assert not driver.state.pending

    def test_there_each_begins_once_its_target_fits(self) -> None:
        driver = self.driver(pauses=False, together=False)
        cluster = cluster_of(FakeManagedJob(job("a")), FakeManagedJob(job("b")), cores=7)
        _, begun = step(driver, cluster, 0.0)
        assert isinstance(begun, BeginRescale)
        assert set(driver.state.pending) == {"uid-a", "uid-b"} - {begun.uid}
        cluster.finish_rescale(begun.uid)
        (other,) = step(driver, cluster, 2.0)
        assert isinstance(other, BeginRescale)
        assert other.uid != begun.uid

    def test_a_paused_job_that_finds_no_capacity_is_resumed_after_two_intervals(self) -> None:
        others = FakeManagedJob(job("others", (1, 3), rescale=RescaleRule.NEVER))
        paused = FakeManagedJob(job("a", (0, 0)), record=JobHistory(paused=True))
        driver = self.driver(pauses=False, together=False, pausing=True)
        cluster = cluster_of(others, paused, cores=4)
        paused.job = replace(paused.job, suspended=True)
        begun = list[list[Instruction]]()
        for timer in (0.0, 600.0, 1198.0, 1200.0):
            begun.append([each for each in step(driver, cluster, timer) if begins(each)])
        assert begun[:3] == [[], [], []]
        ((resume,),) = begun[3:]
        assert isinstance(resume, BeginRescale)
        assert (resume.uid, resume.counts, resume.placement) == ("uid-a", Counts(1, 1), None)
