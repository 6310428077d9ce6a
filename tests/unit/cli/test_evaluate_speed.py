"""``optimus evaluate speed``: errors of the model, speed tables, and errors in the input."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from optimus.cli.evaluate_speed import Draw, Score, distinct_draws, evaluate
from optimus.cli.speed_table import read_speed_tables
from optimus.errors import NotReady
from optimus.jobs import BatchScope, Counts, TrainingMode
from optimus.models.speed.curve import SpeedForm
from tests.cases import cases
from tests.unit.cli.conftest import CommandLine

DATA = Path(__file__).parents[2] / "data" / "ps_speed"
MEASURED, RAW = DATA / "mxnet_links200_speeds.csv", DATA / "mxnet_ps_links200.csv"
GRID = [(ps, workers) for ps in range(1, 5) for workers in range(1, 5)]


def seconds(ps: int, workers: int) -> float:
    return 4 / workers + 0.5 + max(workers / ps, 1.0) + 0.05 * workers + 0.02 * ps


def rows(noise: float = 0.0, repeats: int = 1, grid: Iterable[tuple[int, int]] = GRID) -> str:
    generator = np.random.default_rng(3)
    lines = ["mode,ps,workers,speed"]
    for ps, workers in grid:
        speeds = np.exp(generator.normal(0, noise, repeats)) / seconds(ps, workers)
        lines.extend(f"sync,{ps},{workers},{speed:.12g}" for speed in speeds)
    return "\n".join(lines) + "\n"


Written = Callable[[str | bytes], Path]


@pytest.fixture
def write_table(tmp_path: Path) -> Written:
    def write(content: str | bytes) -> Path:
        file = tmp_path / "speeds.csv"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    return write


MEASURED_TABLES = sorted(set(DATA.glob("*.csv")) - {RAW})


@pytest.mark.parametrize(
    ("samples", "mean", "worst"), [(3, 0.9, 0.85), (5, 0.93, 0.85), (10, 0.95, 0.85)]
)
def test_choices_on_all_measured_networks(samples: int, mean: float, worst: float) -> None:
    chosen = []
    for table in (each for file in MEASURED_TABLES for each in read_speed_tables(file)):
        draws = list[Draw | NotReady]()
        for seed in range(distinct_draws(table, 10)):
            rng = np.random.default_rng([1, seed])
            draws += evaluate(table, (samples,), SpeedForm.BLEND, rng)
        chosen.append(Score.of([each for each in draws if isinstance(each, Draw)]).chosen_ratio)
    assert np.mean(chosen) >= mean
    assert min(chosen) >= worst


class TestResult:
    def test_errors_on_measured_speeds_are_below_the_limits(self, cli: CommandLine) -> None:
        value = cli.json("evaluate", "speed", MEASURED)
        limits = {"sync": {"5": 0.05, "10": 0.04}, "async": {"5": 0.075, "10": 0.065}}
        assert {mode: list(held) for mode, held in value.items()} == {
            "sync": ["5", "10"],
            "async": ["5", "10"],
        }
        for mode, held in limits.items():
            for samples, bar in held.items():
                assert 0 < value[mode][samples]["mean"] < bar
                assert value[mode][samples]["mean"] < value[mode][samples]["p90"]
                assert 0.95 <= value[mode][samples]["chosen_ratio"] <= 1

    def test_samples_are_distinct_and_begin_at_1_1(self, cli: CommandLine) -> None:
        found = cli.json("evaluate", "speed", MEASURED, "--samples", "7")["async"]["7"]
        assert sorted(found) == ["chosen_ratio", "mean", "p90", "samples"]
        assert found["samples"][0] == [1, 1]
        assert len({tuple(each) for each in found["samples"]}) == 7
        assert any(ps != workers for ps, workers in found["samples"])

    def test_the_result_depends_only_on_the_seed(
        self, cli: CommandLine, write_table: Written
    ) -> None:
        file = write_table(rows(noise=0.05, repeats=3))
        first, again, other = (
            cli.json("evaluate", "speed", file, "--seed", seed) for seed in ("1", "1", "2")
        )
        assert first == again
        assert first != other

    def test_errors_are_null_where_every_pair_was_sampled(
        self, cli: CommandLine, write_table: Written
    ) -> None:
        file = write_table(rows(grid=[(1, 1), (1, 2), (2, 1), (2, 2)]))
        value = cli.json("evaluate", "speed", file, "--samples", "3,4")["sync"]
        assert value["3"]["mean"] is not None
        assert value["4"] == {**value["4"], "mean": None, "p90": None, "chosen_ratio": 1.0}

    def test_text(self, cli: CommandLine) -> None:
        text = cli.text("evaluate", "speed", MEASURED)
        assert "sync         5        2.4%" in text


HEADER = "mode,ps,workers,speed\n"


class TestTables:
    def test_repeats_failed_runs_and_the_batch_are_read(self, write_table: Written) -> None:
        (table,) = read_speed_tables(
            write_table(
                "Mode, PS ,workers,speed,batch,host\n"
                + "".join(
                    f"dist_sync,{ps},{w},{speed},64,a\n"
                    for ps, w, speed in [
                        (1, 1, "2"),
                        (1, 1, "4"),
                        (2, 1, "1;0"),
                        (1, 2, "3;5"),
                        (2, 2, 5),
                        (3, 1, 6),
                    ]
                )
            )
        )
        assert table.mode is TrainingMode.SYNC
        assert table.repeats == {
            Counts(1, 1): (2.0, 4.0),
            Counts(1, 2): (4.0,),
            Counts(2, 2): (5.0,),
            Counts(3, 1): (6.0,),
        }
        assert table.left_out == 1
        assert table.batch is not None
        assert (table.batch.size, table.batch.scope) == (64, BatchScope.JOB)

    def test_a_batch_proportional_to_the_workers_is_per_worker(self, write_table: Written) -> None:
        lines = "".join(f"sync,{ps},{w},1.5,{16 * w}\n" for ps in (1, 2) for w in (1, 2, 3))
        (table,) = read_speed_tables(write_table("mode,ps,workers,speed,batch\n" + lines))
        assert table.batch is not None
        assert (table.batch.size, table.batch.scope) == (16, BatchScope.WORKER)

    @cases(
        ("content", "error"),
        {
            "empty": ("", "the columns mode,ps,workers,speed is expected, this is empty"),
            "only a header": (HEADER, "rows of measured speeds are expected after the header"),
            "a column missing": (
                "mode,ps,speed\n",
                ":1: the columns mode,ps,workers,speed are expected, workers missing in",
            ),
            "no header": ("sync,1,1,2.0\n", ":1: the columns mode,ps,workers,speed are expected"),
            "not a number": (
                HEADER + "sync,1,1,fast\n",
                ":2: a number from 0 to 1e+12 is expected as speed",
            ),
            "no PS": (HEADER + "sync,0,1,2\n", ":2: a number from 1 to 1e+12 is expected as ps"),
            "half a worker": (
                HEADER + "sync,1,1.5,2\n",
                ":2: whole numbers are expected as ps and workers",
            ),
            "unknown mode": (
                HEADER + "semi,1,1,2\n",
                ":2: a mode among sync, dist_sync, async, dist_async is expected, found 'semi'",
            ),
            "a short row": (
                HEADER + "sync,1,1\n",
                ":2: 4 values are expected, as in the header, not 3",
            ),
            "a batch that is none": (
                "mode,ps,workers,speed,batch\nsync,1,1,2,big\n",
                ":2: a number from 1 to 1e+12 is expected as batch",
            ),
            "a column twice": (
                "mode,ps,workers,speed,speed\nsync,1,1,2,3\n",
                ":1: each column once is expected, 'speed' is repeated",
            ),
            "one configuration": (
                HEADER + "sync,1,1,2\nsync,1,1,2.1\n",
                "at least 4 different counts are expected, sync has 1",
            ),
            "only failed runs": (
                HEADER + "async,1,1,0\n" * 9,
                "different counts are expected, async has 0",
            ),
            "binary": (
                b"\x89PNG\r\n\x1a\n\x00\x00\xff\xfe\x80",
                "a text file (CSV in UTF-8) is expected",
            ),
            "a quote that never ends": (
                HEADER + 'sync,1,1,"' + "9" * 200_000,
                "a CSV file is expected: field larger",
            ),
        },
    )
    def test_an_invalid_table_is_reported_in_one_line(
        self,
        cli: CommandLine,
        write_table: Written,
        content: str | bytes,
        error: str,
    ) -> None:
        file = write_table(content)
        said = cli.error("evaluate", "speed", file)
        assert said.startswith(f"optimus: {file}:")
        assert error in said
        assert len(said) < 400

    def test_a_table_with_equal_ps_and_workers_only_is_refused(
        self, cli: CommandLine, write_table: Written
    ) -> None:
        file = write_table(rows(grid=[(n, n) for n in range(1, 9)]))
        said = cli.error("evaluate", "speed", file)
        assert "sync: speed was measured only with as many PSs as workers" in said


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--samples", "5,2"], "a whole number of at least 3 is expected, not '2'"),
        (["--samples", ""], "a whole number of at least 3 is expected, not ''"),
        (["--seed", "-1"], "a whole number of at least 0 is expected, not '-1'"),
    ],
)
def test_invalid_options_exit_with_status_2(
    cli: CommandLine, arguments: list[str], error: str
) -> None:
    assert error in cli.refused("evaluate", "speed", MEASURED, *arguments)
