"""Raw lines: bars, colours, cuts, bytes that are no text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.progress.lines import split_prefix
from optimus.progress.parsed_line import MAX_CHARACTERS, clean
from tests.cases import cases


@cases(
    ("raw", "cleaned"),
    {
        "a plain line": ("loss=1\n", "loss=1"),
        "tqdm: the last state": (" 5%|#\r10%|##\r15%|###\n", "15%|###"),
        "an erased state is none": ("1/3 loss: 2\r2/3 loss: 1\b\b\b \r   \b\b", "2/3 loss: 1 "),
        "colours between name and number": (
            "\x1b[1mloss\x1b[0m: \x1b[32;1m0.5\x1b[0m",
            "loss: 0.5",
        ),
        "backspaces": ("\b\b\b\b12/20 - loss: 1", "12/20 - loss: 1"),
        "bytes that were no text": ("loss: 0.5 \ufffd\ufffd", "loss: 0.5 \ufffd\ufffd"),
        "nothing": ("", ""),
    },
)
def test_the_last_complete_state_is_left(raw: str, cleaned: str) -> None:
    assert clean(raw) == cleaned


def test_a_number_that_a_cut_goes_through_is_dropped() -> None:
    line = "x" * (MAX_CHARACTERS - 9) + " loss=0.4567"
    assert clean(line) == "x" * (MAX_CHARACTERS - 9)


@cases(
    ("raw", "cleaned"),
    {
        "one state: its beginning": ("loss=1 " + "x" * 10**7, "loss=1"),
        "states": ("\r".join([f"loss={n}" for n in range(10**6)]), "loss=999999"),
        "nothing but ends of states for long": ("loss=1 " + "\r" * 10**7, ""),
        "a long last state": ("y" * 10**6 + "\rloss=1 " + "x" * 10**6, "loss=1"),
    },
)
def test_of_megabytes_only_the_last_state_is_looked_at(raw: str, cleaned: str) -> None:
    assert clean(raw).rstrip() == cleaned


@given(st.text())
def test_any_text_is_cleaned(raw: str) -> None:
    cleaned = clean(raw * 50)
    assert len(cleaned) <= MAX_CHARACTERS
    assert not set(cleaned) & {"\b", "\r"}


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "INFO:root:",
        "INFO:tensorflow:",
        "[1,0]<stderr>:",
        "2026-01-01 10:00:00,123 ",
        "2026-01-01T10:00:00.123Z INFO:root:",
        "I0401 16:50:17.657439 140657036416832 basic_session_run_hooks.py:260] ",
        "INFO:tensorflow:I0401 16:50:17.657439 1406 hooks.py:260] ",
    ],
)
def test_what_launchers_and_loggers_put_in_front_goes(prefix: str) -> None:
    assert split_prefix(prefix + "Epoch 3/10").text == "Epoch 3/10"
