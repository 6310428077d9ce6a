"""What a job claims of its length or speed buys it no more than its namespace's share."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from optimus.jobs import Counts, JobKey, RescaleRule, TargetEpochs
from optimus.simulator.cluster import SimulatedCluster
from optimus.simulator.engine import simulate
from optimus.simulator.jobs import SimulatedJob, TrueSpeed
from optimus.simulator.presets import preset
from tests.cases import cases
from tests.unit.simulator.workloads import JobParameters, Speed, job, nodes, workload

NODES, CPUS = 16, 4
MOST = 0.6 * NODES * CPUS
"""Of the tasks, which ask for one CPU each: what no liar may hold while the other wants more."""
WITHIN_SECONDS = 240.0
"""From the arrival of a job until it has its share: it starts, is measured, grows, is measured
again and grows again."""
ONE = (Counts(1, 1),)
SCALES = Speed(each=1.0, batch=0.1)


@dataclass(frozen=True)
class Claimed:
    """Whatever a log says: so many steps per second with these PSs and workers."""

    rate: Callable[[int, int], float]

    def steps_per_second(self, servers: tuple[Counts, ...], _: tuple[float, ...] = (), /) -> float:
        return self.rate(sum(each.ps for each in servers), sum(each.workers for each in servers))


class Over(Exception):
    """All of interest has happened."""


@dataclass
class Held:
    """The counts of each namespace's job, by instant."""

    until: float
    seen: list[tuple[float, dict[str, Counts]]] = field(default_factory=list)

    def __call__(self, cluster: SimulatedCluster) -> None:
        counts = {state.job.key.namespace: state.job.counts for state in cluster.states.values()}
        self.seen.append((cluster.now, counts))
        if cluster.now >= self.until:
            raise Over

    def tasks(self, namespace: str, beside: str, since: float) -> Iterator[int]:
        """The tasks of one namespace at each instant from then on at which the other has a job."""
        for at, counts in self.seen:
            if at >= since and beside in counts:
                yield sum(counts[namespace])


def submitted(namespace: str, speed: TrueSpeed, epochs: int, arrives: float = 0.0) -> SimulatedJob:
    """A job of 1 PS and 1 worker, with which an epoch takes 100 s."""
    epoch = 100 * speed.steps_per_second(ONE)
    goal = TargetEpochs(epochs)
    parameters = JobParameters(arrives, epochs, goal=goal, noise=0.02, steps_per_epoch=epoch)
    usual = job(namespace, parameters)
    named = replace(usual.job, key=JobKey(namespace, "a"))
    return replace(usual, job=named, speed=speed, most_epochs=epochs)


def held(*jobs: SimulatedJob, until: float) -> Held:
    watch = Held(until)
    with pytest.raises(Over):
        simulate(workload(*jobs, on=nodes(NODES, CPUS)), preset("optimus"), 1, watch)
    return watch


@cases("arrives", {"beside it": 0.0, "into a full cluster": 1500.0})
@cases(
    ("speed", "epochs"),
    {
        "an absurd amount of work": (SCALES, 20_000),
        "a fake speed": (Claimed(lambda ps, workers: float(ps * workers)), 100_000),
        "a speed of its own": (Claimed(lambda _ps, _workers: 1.0), 20_000),
    },
)
def test_a_liar_holds_no_more_than_its_share_while_another_namespace_wants_more(
    speed: TrueSpeed, epochs: int, arrives: float
) -> None:
    honest = submitted("honest", SCALES, 3000, arrives)
    watch = held(submitted("liar", speed, epochs), honest, until=arrives + 1200)
    liars = list(watch.tasks("liar", beside="honest", since=arrives + WITHIN_SECONDS))
    assert liars
    assert max(liars) <= MOST
    others = watch.tasks("honest", beside="liar", since=arrives + WITHIN_SECONDS)
    assert min(others) >= 0.4 * NODES * CPUS


def test_namespaces_that_want_no_more_leave_the_rest_to_the_others() -> None:
    """Their parts are no reason for which one of two others keeps more than the other."""
    modest = [submitted(f"modest-{number}", SCALES, 3000) for number in range(6)]
    modest = [replace(each, job=replace(each.job, rescale=RescaleRule.NEVER)) for each in modest]
    honest = submitted("honest", SCALES, 3000, 1500.0)
    liar = submitted("liar", Claimed(lambda ps, workers: float(ps * workers)), 100_000)
    watch = held(liar, honest, *modest, until=2700)
    of_both = NODES * CPUS - 2 * len(modest)
    liars = list(watch.tasks("liar", beside="honest", since=1500 + WITHIN_SECONDS))
    assert max(liars) <= 0.6 * of_both
    others = watch.tasks("honest", beside="liar", since=1500 + WITHIN_SECONDS)
    assert min(others) >= 0.4 * of_both


def test_a_job_that_is_no_faster_with_more_ends_within_twice_its_own_counts() -> None:
    flat = submitted("flat", Claimed(lambda _ps, _workers: 1.0), 20_000)
    watch = held(flat, until=3600.0)
    assert max(sum(counts["flat"]) for _, counts in watch.seen) <= 16
    for at, counts in watch.seen:
        if at >= 300:
            assert max(counts["flat"]) <= 2
