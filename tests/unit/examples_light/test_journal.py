"""Log lines: name=value, at the first step, when due, and at the end of an epoch."""

import re

import pytest

from examples.light.journal import Journal
from examples.light.settings import Settings, parse_settings

_KATIB = re.compile(r"([\w|-]+)\s*=\s*([+-]?\d*(\.\d+)?([Ee][+-]?\d+)?)")


def _settings(*flags: str) -> Settings:
    return parse_settings(
        ["--global-batch-size=10", "--examples-per-epoch=40", "--log-seconds=0", *flags]
    )


def _journal(step: int = 0, *flags: str) -> tuple[Journal, list[str]]:
    lines: list[str] = []
    return Journal(_settings(*flags), step, lines.append), lines


def _pairs(line: str) -> dict[str, str]:
    return {match[1]: match[2] for match in _KATIB.finditer(line)}


def test_a_line_names_epoch_step_loss_and_speed_in_katibs_form() -> None:
    journal, lines = _journal()
    journal.record(1, 0.5, 10, 0.25)
    pairs = _pairs(lines[0])
    assert set(pairs) == {"epoch", "step", "loss", "samples_per_sec", "compute_seconds"}
    assert (pairs["epoch"], pairs["step"], pairs["loss"]) == ("1", "1", "0.500000")
    assert pairs["compute_seconds"] == "0.2500"


def test_the_time_of_computing_is_the_mean_since_the_line_before() -> None:
    journal, lines = _journal()
    for step, seconds in enumerate((0.1, 0.2, 0.3, 0.4), start=1):
        journal.record(step, 1.0, 10, seconds)
    assert [_pairs(line)["compute_seconds"] for line in lines] == ["0.1000", "0.3000"]


def test_lines_come_at_the_first_step_and_at_the_end_of_each_epoch() -> None:
    journal, lines = _journal()
    for step in range(1, 13):
        journal.record(step, 1.0, 10, 0.25)
    assert [(p["epoch"], p["step"]) for p in map(_pairs, lines)] == [
        ("1", "1"),
        ("1", "4"),
        ("2", "8"),
        ("3", "12"),
    ]


def test_lines_come_every_so_many_steps_when_asked() -> None:
    journal, lines = _journal(0, "--log-steps=3", "--examples-per-epoch=1000")
    for step in range(1, 9):
        journal.record(step, 1.0, 10, 0.25)
    assert [_pairs(line)["step"] for line in lines] == ["1", "3", "6"]


def test_a_lines_loss_is_the_mean_since_the_line_before_and_an_epochs_is_over_all_its_steps() -> (
    None
):
    journal, lines = _journal()
    means = [
        journal.record(step, loss, 10, 0.25)
        for step, loss in enumerate([8.0, 2.0, 3.0, 4.0], start=1)
    ]
    assert [_pairs(line)["loss"] for line in lines] == ["8.000000", "3.000000"]
    assert means == [None, None, None, pytest.approx(4.25)]


def test_a_resumed_run_goes_on_in_the_epoch_of_its_step() -> None:
    journal, lines = _journal(6)
    journal.record(7, 1.0, 10, 0.25)
    journal.record(8, 1.0, 10, 0.25)
    assert [(p["epoch"], p["step"]) for p in map(_pairs, lines)] == [("2", "7"), ("2", "8")]


def test_a_complete_checkpoint_gets_a_line_and_is_named_from_then_on() -> None:
    journal, lines = _journal()
    journal.record(1, 1.0, 10, 0.25)
    journal.saved(1)
    journal.record(4, 1.0, 10, 0.25)
    assert [_pairs(line).get("checkpoint") for line in lines] == [None, "1", "1"]
    assert "loss" not in _pairs(lines[1])


def test_asynchronous_steps_of_others_may_end_an_epoch_between_two_own_ones() -> None:
    journal, lines = _journal()
    assert journal.record(3, 1.0, 10, 0.25) is None
    assert journal.record(6, 3.0, 10, 0.25) == 2.0
    assert _pairs(lines[-1])["epoch"] == "2"


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        pytest.param(["--epochs=-1"], "--epochs is -1", id="a negative number"),
        pytest.param(["--link-mbit=nan"], "--link-mbit is nan", id="no number at all"),
        pytest.param(
            ["--global-batch-size=0"],
            "--global-batch-size must be more than 0",
            id="an empty batch",
        ),
        pytest.param(
            ["--checkpoint-steps=5"], "need --checkpoint-dir", id="checkpoints without a place"
        ),
        pytest.param(["--mode=maybe"], "invalid choice", id="an unknown mode"),
    ],
)
def test_wrong_flags_are_refused_with_a_sentence(
    flags: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse_settings(flags)
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "last_step"),
    [
        pytest.param([], None, id="no end is set"),
        pytest.param(["--epochs=3"], 12, id="whole batches"),
        pytest.param(
            ["--epochs=3", "--global-batch-size=50"], 3, id="the last batch reaches over the end"
        ),
        pytest.param(
            ["--epochs=3", "--mode=async", "--worker-batch-size=4"],
            30,
            id="async counts workers' batches",
        ),
    ],
)
def test_the_last_step(flags: list[str], last_step: int | None) -> None:
    assert _settings(*flags).last_step == last_step
