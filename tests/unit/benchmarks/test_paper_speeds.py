"""True speeds beside the best: a job whose best counts are known."""

import pytest

from benchmarks.paper_speeds import SpeedBesideBest, best_of
from optimus.jobs import Counts
from optimus.placement.theorem1 import Theorem1
from optimus.simulator.engine import simulate
from optimus.simulator.forecasts import TrueForecasts
from optimus.simulator.presets import preset
from optimus.simulator.speeds import EmptyCluster
from tests.unit.simulator.workloads import JobParameters, Speed, job, nodes, workload

ALONE = job("a", JobParameters(speed=Speed(each=1.0, apart=9.0), counts=Counts(1, 3)))


def test_the_best_counts_fill_a_server_where_the_network_is_slow() -> None:
    best = best_of(ALONE, EmptyCluster(nodes(3), Theorem1()))
    assert best.tasks == 4
    assert best.rate == pytest.approx(3 / 10)  # epochs of 10 steps, 3 steps a second


def test_a_job_at_its_best_counts_runs_at_its_best_speed() -> None:
    watch = SpeedBesideBest()
    watch.begin(1)
    simulate(workload(ALONE, on=nodes(3)), preset("fifo", placement=Theorem1()), 1, watch)
    assert watch.means == {
        "speed_of_best": 1.0,
        "time_beyond_best": 0.0,
        "tasks": 4.0,
        "tasks_of_best": 4.0,
    }


def test_drf_gives_a_lone_job_more_tasks_than_make_it_faster() -> None:
    watch = SpeedBesideBest()
    watch.begin(1)
    simulate(workload(ALONE, on=nodes(3)), preset("drf", TrueForecasts()), 1, watch)
    assert watch.means["time_beyond_best"] > 0.9
    assert watch.means["speed_of_best"] < 0.5
    assert watch.means["tasks"] > watch.means["tasks_of_best"]
