"""``optimus evaluate speed`` of jobs without parameter servers, on measured tables."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from optimus.cli.command import BadInput
from optimus.cli.evaluate_speed import Draw, evaluate
from optimus.cli.main import main
from optimus.cli.speed_table import read_speed_tables
from optimus.jobs import Counts
from optimus.models.speed.curve import SpeedForm

TABLES: Final = sorted((Path(__file__).parents[2] / "data" / "all_reduce").glob("*.csv"))
HEADER: Final = "mode,workers,servers,speed,batch\n"


@pytest.mark.parametrize("file", TABLES, ids=lambda file: file.stem)
def test_three_samples_choose_workers_near_the_best(file: Path) -> None:
    (table,) = read_speed_tables(file)
    (found,) = evaluate(table, [3], SpeedForm.BLEND, np.random.default_rng(0))
    assert isinstance(found, Draw)
    assert found.chosen_ratio >= 0.92


def test_runs_on_more_servers_than_needed_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "speeds.csv"
    packed = "".join(f"all-reduce,{n},{-(-n // 4)},{n / (n + 8)},64\n" for n in (1, 2, 4, 8))
    file.write_text(f"{HEADER}{packed}all-reduce,4,4,0.1,64\nall-reduce,4,1,0,64\n")
    (table,) = read_speed_tables(file)
    assert table.left_out == 2
    assert table.servers[Counts(0, 8)] == 2
    assert table.repeats[Counts(0, 4)] == (4 / 12,)
    assert main(["evaluate", "speed", str(file), "--samples", "3"]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[1].startswith("all-reduce  ")
    assert "PS" not in text


@pytest.mark.parametrize(
    "row", ["sync,1,1,1,64", "all-reduce,1,2,1,64", "all-reduce,0,1,1,64", "all-reduce,1,,1,64"]
)
def test_a_row_that_cannot_be_is_refused(tmp_path: Path, row: Any) -> None:
    file = tmp_path / "speeds.csv"
    file.write_text(f"{HEADER}{row}\n")
    with pytest.raises(BadInput):
        read_speed_tables(file)
