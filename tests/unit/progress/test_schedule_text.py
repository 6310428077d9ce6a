"""The annotation ``lr-schedule``: each shape, what is refused, its place beside the log's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.jobs import Counts, Role
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.schedule import InvalidSchedule, parse_schedule
from optimus.progress.types import NOTHING_DECLARED, Declared, LogLine
from tests.unit.progress.jobs import job


@pytest.mark.parametrize(
    ("text", "declared"),
    [
        ("step:100,150", Declared(schedule="step", drops=(100.0, 150.0))),
        (
            " Step:30,60.5 factor=0.2 end=90 ",
            Declared(epochs=90, schedule="step", drops=(30.0, 60.5), drop_factor=0.2),
        ),
        ("cosine:200", Declared(epochs=200, schedule="cosine")),
        ("linear:3 warmup=0.1", Declared(epochs=3, schedule="linear", warmup_epochs=0.1)),
        ("poly:120", Declared(epochs=120, schedule="poly")),
        ("constant:10 end=20", Declared(epochs=20, schedule="constant")),
    ],
)
def test_each_shape_is_read(text: str, declared: Declared) -> None:
    assert parse_schedule(text) == declared


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "a shape and its epochs"),
        ("step", "a shape and its epochs"),
        ("step:-3", "a shape and its epochs"),
        ("sine:200", "a shape and its epochs"),
        ("step:100 epochs=3", "a shape and its epochs"),
        ("step:" + "1," * 400 + "2", "a shape and its epochs"),
        ("step:150,100", "epochs of drops that rise"),
        ("cosine:100,200", "one number"),
        ("step:100 factor=10", "a factor between 0 and 1"),
        ("step:100 end=100", "after the last drop"),
        ("cosine:2.5", "a whole number of epochs"),
        ("cosine:0", "a whole number of epochs"),
    ],
)
def test_what_is_wrong_is_said(text: str, expected: str) -> None:
    found = parse_schedule(text)
    assert isinstance(found, InvalidSchedule)
    assert expected in found.expected


@given(st.text(max_size=80) | st.from_regex(r"(step|cosine):[0-9., ]{0,20}( end=[0-9.]{1,9})?"))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert isinstance(parse_schedule(text), (Declared, InvalidSchedule))


def test_the_annotation_replaces_what_the_log_says() -> None:
    line = "Namespace(num_epochs=100, lr_mode='cosine', batch_size=32)"
    for options, expected in (
        (LogFormatOptions.of(job()), Declared(epochs=100, batch=32, schedule="cosine")),
        (
            LogFormatOptions.of(job(lr_schedule="step:60 end=90")),
            Declared(epochs=90, batch=32, schedule="step", drops=(60.0,)),
        ),
    ):
        log = ProgressLog(options)
        log.observe("worker-0", Role.WORKER, 0, Counts(1, 1), [LogLine(1.0, line)], "uid")
        assert log.progress(2.0).declared == expected


def test_the_log_replaces_what_the_command_says() -> None:
    command = "sh -c python train.py --num-epochs 90 --lr-decay-epoch 30,60 --verbose"
    log = ProgressLog(LogFormatOptions.of(job(command=command)))
    assert log.progress(1.0).declared == Declared(epochs=90, schedule="step", drops=(30.0, 60.0))
    line = [LogLine(1.0, "Namespace(num_epochs=100, lr_mode='cosine', batch_size=32)")]
    log.observe("worker-0", Role.WORKER, 0, Counts(1, 1), line, "uid")
    assert log.progress(2.0).declared == Declared(epochs=100, batch=32, schedule="cosine")


@pytest.mark.parametrize("command", ["", "python train.py", "train --fast --name=x --lr high"])
def test_a_command_may_say_nothing(command: str) -> None:
    log = ProgressLog(LogFormatOptions.of(job(command=command)))
    assert log.progress(1.0).declared == NOTHING_DECLARED


def test_a_wrong_one_says_nothing() -> None:
    assert LogFormatOptions.of(job(lr_schedule="sine:3")).declared is None
