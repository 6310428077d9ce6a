"""Figures, intervals and files."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from optimus.cli.simulate import summary_table
from optimus.resources import Resources
from optimus.simulator.files import FORECAST_COLUMNS, JOB_COLUMNS, TIMELINE_COLUMNS, results, write
from optimus.simulator.forecasts import LoggedForecast
from optimus.simulator.results import GPU, JobResult, Simulation, TimelinePoint
from optimus.simulator.summary import FIGURES, Estimate, summarise, verdict

CAPACITY = Resources({"cpu": 10_000, GPU: 4})


def record(uid: str, arrived_at: float, finished_at: float) -> JobResult:
    return JobResult(
        uid=uid,
        kind="test",
        mode="async",
        arrived_at=arrived_at,
        placed_at=arrived_at,
        finished_at=finished_at,
        trained_seconds=finished_at - arrived_at,
        epochs=5,
        restarts=2,
        profiling_runs=1,
        pauses=0,
    )


def point(at: float, ps_cpu: int, gpus: int) -> TimelinePoint:
    return TimelinePoint(at, 1, 0, 0, 1, 2, ps_cpu, 2000, gpus)


def simulation(
    policy: str = "ours", seed: int = 1, ends: tuple[float, ...] = (110.0, 60.0)
) -> Simulation:
    jobs = tuple(record(f"job-{n}", 10.0, end) for n, end in enumerate(ends))
    timeline = (point(10.0, 1000, 0), point(60.0, 5000, 2), point(max(ends), 0, 0))
    forecasts = (
        LoggedForecast("job-0", 20.0, 0.5, 80.0, 12.0, 10, 1.1, 1.0),
        LoggedForecast("job-1", 20.0, 0.5, 50.0, 9.0, 10, 0.7, 1.0),
    )
    return Simulation(policy, "test", seed, CAPACITY, jobs, timeline, forecasts)


class TestFigures:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("average_jct_seconds", 75.0),
            ("median_jct_seconds", 75.0),
            ("p99_jct_seconds", 99.5),
            ("makespan_seconds", 100.0),
            ("ps_cpu_share", 0.3),
            ("worker_cpu_share", 0.2),
            ("gpu_share", 0.25),
            ("restarts_per_job", 2.0),
            ("profiling_runs_per_job", 1.0),
            ("pauses_per_job", 0.0),
            ("core_hours_per_job", (3 + 7) * 50 / 3600 / 2),
            ("speed_error", 0.2),
            ("convergence_error", 0.15),
        ],
    )
    def test_each_equals_its_value_by_hand(self, name: str, value: float) -> None:
        assert FIGURES[name](simulation()) == pytest.approx(value)

    def test_a_policy_without_forecasts_has_no_error_of_them(self) -> None:
        silent = replace(simulation(), forecasts=())
        assert FIGURES["speed_error"](silent) is None
        assert summarise([silent])[0].figures["speed_error"].mean is None

    def test_a_cluster_without_gpus_has_no_share_of_them(self) -> None:
        assert FIGURES["gpu_share"](replace(simulation(), capacity=Resources(cpu=10_000))) is None


class TestEstimates:
    def test_the_interval_is_that_of_students_t(self) -> None:
        from scipy import stats  # half a second, for this test alone

        values = [3.0, 5.0, 4.0, 8.0]
        low, high = stats.t.interval(0.95, 3, loc=5.0, scale=stats.sem(values))
        found = Estimate.of(values)
        assert (found.mean, found.low, found.high) == pytest.approx((5.0, low, high))

    def test_a_single_seed_has_no_interval(self) -> None:
        assert Estimate.of([3.0]) == Estimate(3.0, None, None, (3.0,))

    def test_ratios_are_taken_seed_by_seed(self) -> None:
        # Twice as long with each seed, however much the seeds differ: there is no doubt about the
        # ratio.
        found = [simulation("ours", 1), simulation("ours", 2, (310.0, 210.0))]
        found += [simulation("theirs", 2, (610.0, 410.0)), simulation("theirs", 1, (210.0, 110.0))]
        ratio = summarise(found)[1].ratios["average_jct_seconds"]
        assert (ratio.mean, ratio.low, ratio.high) == pytest.approx((2.0, 2.0, 2.0))

    def test_the_first_policy_is_the_measure(self) -> None:
        first, second = summarise([simulation("b"), simulation("a")])
        assert (first.policy, second.policy) == ("b", "a")
        assert first.ratios["makespan_seconds"].mean == 1.0


class TestVerdict:
    def test_it_says_by_how_much_jobs_end_sooner_or_later_and_whether_by_chance(self) -> None:
        runs = [simulation("ours", 1), simulation("ours", 2, (310.0, 210.0))]
        runs += [simulation("slow", 1, (210.0, 110.0)), simulation("slow", 2, (610.0, 410.0))]
        runs += [simulation("fast", 1, (60.0, 35.0)), simulation("fast", 2, (160.0, 110.0))]
        runs += [simulation("other", 1, (300.0, 60.0)), simulation("other", 2, (210.0, 110.0))]
        assert verdict(runs) == (
            "ours ends jobs 50% sooner than slow and 100% later than fast; these differences are"
            " larger than chance; ours differs from other by no more than chance"
        )

    def test_one_seed_is_said_to_be_one(self) -> None:
        runs = [simulation("ours"), simulation("slow", ends=(210.0, 110.0))]
        expected = "ours ends jobs 50% sooner than slow; this difference is of one seed"
        assert verdict(runs) == expected

    def test_one_policy_is_compared_with_nothing(self) -> None:
        assert verdict([simulation()]) == ""


class TestFiles:
    def test_they_are_written_byte_for_byte_like_this(self, tmp_path: Path) -> None:
        write([simulation()], tmp_path)
        assert (tmp_path / "jobs.csv").read_text() == (
            ",".join(JOB_COLUMNS) + "\n"
            "ours,1,job-0,test,async,10.000,10.000,110.000,100.000,100.000,5,2,1,0,0.000\n"
            "ours,1,job-1,test,async,10.000,10.000,60.000,50.000,50.000,5,2,1,0,0.000\n"
        )
        assert (tmp_path / "timeline.csv").read_text().splitlines() == [
            ",".join(TIMELINE_COLUMNS),
            "ours,1,10.000,1,0,0,1,2,1000,2000,0,0.0",
            "ours,1,60.000,1,0,0,1,2,5000,2000,2,0.0",
            "ours,1,110.000,1,0,0,1,2,0,2000,0,0.0",
        ]
        assert (tmp_path / "forecasts.csv").read_text().splitlines() == [
            ",".join(FORECAST_COLUMNS),
            "ours,1,job-0,20.000,0.500000,80.000,90.000,12.000,10,1.1,1",
            "ours,1,job-1,20.000,0.500000,50.000,40.000,9.000,10,0.7,1",
        ]

    def test_the_json_holds_every_figure_and_no_number_that_json_does_not_know(
        self, tmp_path: Path
    ) -> None:
        write([replace(simulation(), forecasts=())], tmp_path)
        read = json.loads((tmp_path / "results.json").read_text())
        assert read == json.loads(
            json.dumps(results([replace(simulation(), forecasts=())]), allow_nan=False)
        )
        assert set(read["policies"]["ours"]["figures"]) == set(FIGURES)
        assert read["policies"]["ours"]["figures"]["speed_error"] == {
            "mean": None,
            "low": None,
            "high": None,
            "by_seed": [None],
        }

    def test_the_table_has_a_line_for_each_policy(self) -> None:
        lines = summary_table(
            [simulation("ours"), replace(simulation("drf"), forecasts=())]
        ).splitlines()
        assert [line.split()[0] for line in lines] == ["policy", "ours", "drf"]
        assert lines[2].split()[-2:] == ["-", "-"]
