"""The speed of jobs without parameter servers."""

import numpy as np
import pytest

from optimus.jobs import Batch, BatchScope, Counts, TrainingMode
from optimus.models.speed.curve import MergedSamples, Processes, SpeedTerms
from optimus.models.speed.model import SpeedModel
from optimus.progress.types import SpeedSample

BATCH = Batch(64, BatchScope.JOB)


def seconds(trainers: int, servers: int) -> float:
    """A step of 64 s of computing, whose exchange is three times cheaper within a server."""
    return 1 + 64 / trainers + 20 * (trainers - 1) / trainers / (3 if servers == 1 else 1)


def sample(trainers: int, servers: int, leads: int = 0) -> SpeedSample:
    speed = 1 / seconds(trainers, servers)
    return SpeedSample(Counts(0, trainers - leads), speed, 600.0, 0.0, servers=servers)


def model(processes: Processes, *samples: SpeedSample) -> SpeedModel:
    terms = SpeedTerms(TrainingMode.SYNC, BATCH, processes=processes)
    return SpeedModel.of(MergedSamples.of(samples), terms)


@pytest.mark.parametrize("leads", [0, 1])
def test_known_coefficients_are_found_with_and_without_a_master(leads: int) -> None:
    known = [sample(n, -(-n // 4), leads) for n in (2, 4, 8, 16, 32)]
    found = model(Processes(leads=leads, per_server=4), *known)
    at = np.array([3, 12, 24])
    wanted = [1 / seconds(n, -(-n // 4)) for n in at]
    assert found.steps_per_second(0, at - leads) == pytest.approx(wanted, rel=0.05)


def test_a_prediction_is_for_the_fewest_servers_whatever_the_samples_ran_on() -> None:
    spread = [sample(n, n) for n in (1, 2, 3, 4, 8)]
    found = model(Processes(per_server=4), *spread, sample(4, 1))
    assert found.at(Counts(0, 4)) > 1.1 / seconds(4, 4)
    assert found.at(Counts(0, 8)) < 1.1 / seconds(8, 2)


def test_samples_on_other_servers_are_not_repeats() -> None:
    merged = MergedSamples.of([sample(4, 1), sample(4, 4)])
    assert merged.servers.tolist() == [1, 4]


def test_workers_beyond_an_equal_share_bring_nothing() -> None:
    found = model(Processes(leads=1, shares=64, per_server=4), sample(2, 1, 1), sample(4, 1, 1))
    speeds = found.steps_per_second(0, np.array([3, 4, 5, 6, 7]))
    assert (speeds[:4] == speeds[0]).all()
    assert speeds[4] != speeds[0]


def test_where_it_ran_on_more_servers_than_it_needs_its_speed_is_that_and_others_keep_theirs() -> (
    None
):
    known = sample(2, 1), sample(4, 4)
    found = model(Processes(per_server=4), *known)
    packed, ran = found.at(Counts(0, 4)), found.where_it_ran()
    assert packed > 1.2 / seconds(4, 4), "another job would have one server"
    anchored = ran.anchored(Counts(0, 4), 1 / seconds(4, 4))
    for each in known:
        assert anchored.at(each.counts) == pytest.approx(each.steps_per_second, rel=0.03)
    assert anchored.steps_per_second(0, np.array([2, 4, 8])) == pytest.approx(
        [anchored.at(Counts(0, workers)) for workers in (2, 4, 8)]
    )
