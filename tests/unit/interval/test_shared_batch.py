"""Jobs without parameter servers, of which all processes take equal parts of a batch."""

from dataclasses import replace

import pytest

from optimus.interval import Action
from optimus.interval.growth import GrowthRule
from optimus.jobs import Batch, BatchScope, CountBounds, Counts, TrainingMode
from optimus.models.forecast import Forecast, expected_speed
from optimus.models.speed.curve import MergedSamples, Processes, SpeedTerms
from optimus.models.speed.model import SpeedModel
from optimus.progress.types import NOTHING, SpeedSample
from optimus.resources import Resources
from optimus.snapshot import BoundPod
from tests.unit.interval.cases import ON_NODE_00, Case
from tests.unit.interval.cluster import job, nodes


def case(batch: int, cores: int, workers: int = 1, exchange: float = 0.05) -> Case:
    """A job of a master and workers, alone on a node; its step takes 1 s with one process."""
    bounds = CountBounds(0, 0, workers, None, shares=batch, leads=1)
    terms = SpeedTerms(
        TrainingMode.SYNC,
        Batch(batch, BatchScope.JOB),
        processes=Processes(leads=1, shares=batch, per_server=cores),
    )
    samples = [
        SpeedSample(Counts(0, n - 1), 1 / (1 / n + exchange * (n - 1)), 600.0, 0.0, servers=1)
        for n in (2, 3, 4, 6, 8, 12, 16)
    ]
    speed = SpeedModel.of(MergedSamples.of(samples), terms)
    led = job("a", (0, workers), bounds=bounds, kind="PyTorchJob", batch=terms.batch)
    return Case([(led, ON_NODE_00)], {"a": Forecast(speed, 1e5)}, nodes(1, cores))


@pytest.mark.parametrize(
    ("batch", "cores", "exchange", "workers"),
    [
        pytest.param(64, 16, 0.015, 7, id="more than eight processes would be no faster"),
        pytest.param(64, 6, 0.002, 3, id="a power of two, though a node holds more"),
        pytest.param(48, 7, 0.002, 5, id="six processes divide 48"),
        pytest.param(7, 5, 0.002, 1, id="no other number up to five divides 7"),
    ],
)
def test_it_grows_to_counts_that_share_its_batch(
    batch: int, cores: int, exchange: float, workers: int
) -> None:
    decision = case(batch, cores, exchange=exchange).decisions()["a"]
    assert decision.counts == Counts(0, workers)


@pytest.mark.parametrize(
    ("at", "speeds", "most"),
    [
        pytest.param(1, {}, 3, id="nothing is measured"),
        pytest.param(3, {1: 1.0, 3: 1.8}, 7, id="faster with twice as many"),
        pytest.param(3, {1: 1.0, 3: 0.9}, 1, id="slower with twice as many"),
    ],
)
def test_it_grows_by_one_measured_doubling_at_a_time(
    at: int, speeds: dict[int, float], most: int
) -> None:
    bounds = CountBounds(0, 0, 1, None, shares=64, leads=1)
    led = job("a", (0, at), bounds=bounds, mode=TrainingMode.SYNC)
    samples = [SpeedSample(Counts(0, each), speed, 60.0, 0.0) for each, speed in speeds.items()]
    progress = replace(NOTHING, samples=tuple(samples))
    limit = GrowthRule(8, 0.05).limit(led, Counts(0, 1), progress)
    assert limit.within(bounds).max_workers == most
    assert limit.within(bounds).max_ps == 0


def test_it_shrinks_where_it_is_slower_with_what_it_has() -> None:
    found = case(64, 16, workers=15, exchange=0.05)
    ((led, where),) = found.jobs
    found.jobs = [(replace(led, bounds=replace(led.bounds, min_workers=1)), where)]
    decision = found.decisions()["a"]
    assert decision.action is Action.SHRINK
    assert decision.counts == Counts(0, 3)


def test_it_is_taken_back_from_servers_on_which_twice_as_many_are_slower() -> None:
    samples = (
        SpeedSample(Counts(0, 2), 2.362, 60.0, 0.0, servers=1),
        SpeedSample(Counts(0, 4), 1.496, 60.0, 100.0, servers=3),
    )
    bounds, batch = CountBounds(0, 0, 2, None, shares=64), Batch(64, BatchScope.JOB)
    spread = job("a", (0, 4), bounds=bounds, batch=batch, mode=TrainingMode.SYNC, per_server=6)
    speed = expected_speed(spread, replace(NOTHING, samples=samples))
    assert isinstance(speed, SpeedModel)
    where = ["node-00", "node-01", "node-02", "node-02"]
    found = Case([(spread, where)], {"a": Forecast(speed, 3000.0)}, nodes(4, 6))
    decision = found.decisions()["a"]
    assert decision.counts == Counts(0, 2), "four are not sure to get one server"


@pytest.mark.parametrize(
    ("free", "workers"),
    [pytest.param(4, 4, id="one server holds them"), pytest.param(2, 2, id="two servers would")],
)
def test_it_grows_only_where_it_is_faster_on_the_servers_that_it_gets(
    free: int, workers: int
) -> None:
    samples = [
        SpeedSample(Counts(0, n), 1 / (1 / n + (n - 1) / n * exchange), 600.0, 0.0, servers=on)
        for n, on, exchange in ((1, 1, 0.0), (2, 1, 0.05), (4, 1, 0.05), (2, 2, 0.5), (8, 2, 0.5))
    ]
    terms = SpeedTerms(
        TrainingMode.SYNC, Batch(64, BatchScope.JOB), processes=Processes(shares=64, per_server=6)
    )
    speed = SpeedModel.of(MergedSamples.of(samples), terms)
    bounds = CountBounds(0, 0, 2, 4, shares=64)
    alone = job("a", (0, 2), bounds=bounds, batch=terms.batch, mode=TrainingMode.SYNC)
    taken = Resources(cpu=(6 - free) * 1000)
    others = [BoundPod(f"other-{index}", f"node-{index:02}", taken) for index in (1, 2)]
    others.append(BoundPod("other-0", "node-00", Resources(cpu=4000)))
    found = Case([(alone, ON_NODE_00)], {"a": Forecast(speed, 1e5)}, nodes(3, 6), others=others)
    assert found.decisions()["a"].counts == Counts(0, workers)
