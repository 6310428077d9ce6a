"""Traces of jobs: what is read, and one line about what is wrong."""

import numpy as np
import pytest

from optimus.jobs import TrainingMode
from optimus.simulator.workload.trace import BadTraceError, TraceWorkload, read_trace

HEADER = "arrival_seconds,type,mode,threshold,examples"


def test_a_trace_is_read_whatever_the_order_of_its_lines_and_columns() -> None:
    lines = [
        "\ufeff# by hand",
        "",
        "type,threshold,mode,arrival_seconds",
        "ResNet-50,0.02,sync,30",
        " kaggle,0.05 ,ASYNC, 10",
    ]
    traced = read_trace(lines)
    workload = TraceWorkload("mine", traced)(10, np.random.default_rng(1))
    assert [(job.kind, job.job.created_at, job.job.mode) for job in workload.jobs] == [
        ("KAGGLE", 10, TrainingMode.ASYNC),
        ("ResNet-50", 30, TrainingMode.SYNC),
    ]
    backwards = TraceWorkload("mine", traced[::-1])(10, np.random.default_rng(1))
    assert backwards == workload
    assert len(TraceWorkload("mine", traced)(1, np.random.default_rng(1)).jobs) == 1


def test_examples_of_an_epoch_may_be_told_or_left_open() -> None:
    traced = read_trace([HEADER, "0,DSSM,sync,0.02,5120", "1,DSSM,sync,0.02,"])
    told, left_open = TraceWorkload("mine", traced)(2, np.random.default_rng(1)).jobs
    assert told.steps_per_epoch == 10
    assert left_open.steps_per_epoch > 10


@pytest.mark.parametrize(
    ("lines", "line", "expected"),
    [
        pytest.param([], 1, "a line with the columns", id="an empty file"),
        pytest.param(
            ["arrival_seconds,type,mode"], 1, "threshold missing", id="a column is missing"
        ),
        pytest.param([HEADER + ",color"], 1, "not 'color'", id="a column is unknown"),
        pytest.param([HEADER + ",mode"], 1, "once", id="a column is there twice"),
        pytest.param([HEADER], 2, "at least one job", id="no job"),
        pytest.param([HEADER, "", "0,DSSM,sync"], 3, "5 values, found 3", id="a short line"),
        pytest.param([HEADER, "0,VGG,sync,0.02,"], 2, "found 'VGG'", id="an unknown type"),
        pytest.param(
            [HEADER, "0,DSSM,both,0.02,"], 2, "sync or async, found 'both'", id="an unknown mode"
        ),
        pytest.param(
            [HEADER, "soon,DSSM,sync,0.02,"], 2, "a number as arrival_seconds", id="no number"
        ),
        pytest.param(
            [HEADER, "nan,DSSM,sync,0.02,"], 2, "a number as arrival_seconds", id="not finite"
        ),
        pytest.param(
            [HEADER, "-1,DSSM,sync,0.02,"],
            2,
            "from 0 to 1e+09, found -1",
            id="before the beginning",
        ),
        pytest.param(
            [HEADER, "0,DSSM,sync,2,"], 2, "between 0 and 1, found 2", id="a threshold in percent"
        ),
        pytest.param(
            [HEADER, "1e300,DSSM,sync,0.02,"],
            2,
            "from 0 to 1e+09, found 1e+300",
            id="after the end",
        ),
        pytest.param(
            [HEADER, "0,DSSM,sync,0.02,1e300"],
            2,
            "at most 1e+09 examples",
            id="an epoch without an end",
        ),
        pytest.param(
            [HEADER, "0,DSSM,sync,0.02,0"], 2, "more than 0 and at most", id="no examples"
        ),
        pytest.param(
            [HEADER, '0,"DSSM,sync,0.02,'], 2, "comma-separated", id="a quote that does not end"
        ),
    ],
)
def test_what_is_wrong_is_told_in_one_line(lines: list[str], line: int, expected: str) -> None:
    with pytest.raises(BadTraceError) as raised:
        read_trace(lines)
    assert raised.value.line == line
    assert expected in raised.value.expected
    assert "\n" not in str(raised.value)
