"""Job traces: jobs read from CSV, and errors with the line number."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from optimus.cli.command import BadInput
from optimus.cli.trace import read_trace
from optimus.jobs import TrainingMode
from optimus.simulator.workload import TraceWorkload
from tests.cases import cases

HEADER = "arrival_seconds,type,mode,threshold,examples"
Written = Callable[[Sequence[str]], Path]


@pytest.fixture
def write_trace(tmp_path: Path) -> Written:
    def write(lines: Sequence[str]) -> Path:
        file = tmp_path / "trace.csv"
        file.write_text("\n".join(lines), encoding="utf-8")
        return file

    return write


def test_jobs_do_not_depend_on_the_order_of_lines_and_columns(write_trace: Written) -> None:
    lines = [
        "\ufeff# by hand",
        "",
        "type,threshold,mode,arrival_seconds",
        "ResNet-50,0.02,sync,30",
        " kaggle,0.05 ,ASYNC, 10",
    ]
    traced = read_trace(write_trace(lines))
    workload = TraceWorkload("mine", traced)(10, np.random.default_rng(1))
    assert [(job.kind, job.job.created_at, job.job.mode) for job in workload.jobs] == [
        ("KAGGLE", 10, TrainingMode.ASYNC),
        ("ResNet-50", 30, TrainingMode.SYNC),
    ]
    backwards = TraceWorkload("mine", traced[::-1])(10, np.random.default_rng(1))
    assert backwards == workload
    assert len(TraceWorkload("mine", traced)(1, np.random.default_rng(1)).jobs) == 1


def test_examples_per_epoch_are_optional(write_trace: Written) -> None:
    traced = read_trace(write_trace([HEADER, "0,DSSM,sync,0.02,5120", "1,DSSM,sync,0.02,"]))
    stated, left_open = TraceWorkload("mine", traced)(2, np.random.default_rng(1)).jobs
    assert stated.steps_per_epoch == 10
    assert left_open.steps_per_epoch > 10


@cases(
    ("lines", "line", "expected"),
    {
        "an empty file": ([], None, "with the columns arrival_seconds"),
        "a column is missing": (["arrival_seconds,type,mode"], 1, "threshold missing"),
        "a column is unknown": ([HEADER + ",color", "0,DSSM,sync,0.02,,red"], 2, "not 'color'"),
        "a column is there twice": ([HEADER + ",mode"], 1, "once"),
        "no job": ([HEADER], None, "at least one job"),
        "a short line": (
            [HEADER, "", "0,DSSM,sync"],
            3,
            "5 values are expected, as in the header, not 3",
        ),
        "an unknown type": ([HEADER, "0,VGG,sync,0.02,"], 2, "found 'VGG'"),
        "an unknown mode": (
            [HEADER, "0,DSSM,both,0.02,"],
            2,
            "among sync, async is expected, found 'both'",
        ),
        "no number": ([HEADER, "soon,DSSM,sync,0.02,"], 2, "is expected as arrival_seconds"),
        "not finite": ([HEADER, "nan,DSSM,sync,0.02,"], 2, "is expected as arrival_seconds"),
        "before the beginning": (
            [HEADER, "-1,DSSM,sync,0.02,"],
            2,
            "from 0 to 1e+09 is expected as arrival_seconds, found '-1'",
        ),
        "a threshold in percent": (
            [HEADER, "0,DSSM,sync,2,"],
            2,
            "from 0 to 1 is expected as threshold, found '2'",
        ),
        "after the end": (
            [HEADER, "1e300,DSSM,sync,0.02,"],
            2,
            "from 0 to 1e+09 is expected as arrival_seconds, found '1e300'",
        ),
        "an epoch without an end": (
            [HEADER, "0,DSSM,sync,0.02,1e300"],
            2,
            "from 0 to 1e+09 is expected as examples",
        ),
        "no examples": ([HEADER, "0,DSSM,sync,0.02,0"], 2, "more than 0 examples"),
        "a quote that does not end": ([HEADER, '0,"DSSM,sync,0.02,'], 2, "a CSV file is expected"),
    },
)
def test_an_error_is_one_line_with_the_line_number(
    write_trace: Written, lines: list[str], line: int | None, expected: str
) -> None:
    file = write_trace(lines)
    with pytest.raises(BadInput) as raised:
        read_trace(file)
    assert str(raised.value).startswith(f"{file}: " if line is None else f"{file}:{line}: ")
    assert expected in str(raised.value)
    assert "\n" not in str(raised.value)
