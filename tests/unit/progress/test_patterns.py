"""Users' regular expressions: what is taken, what is refused and why, and that none takes long."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.jobs import Counts, Role
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.patterns import (
    MAX_LINE_CHARACTERS,
    MAX_LINE_SECONDS,
    InvalidPattern,
    Pattern,
    compile_pattern,
)
from optimus.progress.types import LogLine
from tests.unit.progress.jobs import job

KATIB = r"([\w|-]+)\s*=\s*([+-]?\d*(\.\d+)?([Ee][+-]?\d+)?)"
EXPONENTIAL = (
    "(a{0,9})(a{0,9})a{0,9}a{0,9}a{0,9}a{0,9}b",
    "(a?)(a?)" + "a?" * 60 + "b",
    "(a)(a)" + "(?:a|a)" * 30 + "b",
    "(a{1,10})" * 8 + "b",
    r"((\w+)+)$(x)",
    r"((a|a)*)(b)",
    r"(\w+)\w+\w+(x)",
    r".*.*.*=(a)(b)",
)
"""With each of these Python's own engine takes from seconds to for ever on some line."""

TAKEN = (
    KATIB,
    r"{metricName: ([\w|-]+), metricValue: ((-?\d+)(\.\d+)?)}",
    r"(\w+): ([\d.]+)",
    r"(loss|xent)\s*[:=]\s*(\d+\.?\d*)",
    r"(?P<name>loss) is (?P<value>\S+)",
    r"^\[train\] (\w+) -> ([-+.\deE]+)$",
    r".*(loss)=(\d+\.\d+)",
    r"(?i)(LOSS) (\d+)",
    r"a{3}(b)(?:cd)*(e)",
    *EXPONENTIAL,
)


def _compiled(text: str, groups: int = 2, timer: Callable[[], float] | None = None) -> Pattern:
    found = compile_pattern(text, groups, *(() if timer is None else (timer,)))
    assert isinstance(found, Pattern), found
    return found


@pytest.mark.parametrize("text", TAKEN)
def test_what_names_and_numbers_need_is_taken(text: str) -> None:
    _compiled(text)


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("(loss", "is not a regular expression"),
        ("loss=1", "has 0 groups"),
        ("(a)" * 101, "303 characters"),
        ("(a)" * 11, "11 groups, at most 10 are accepted; write (?:...)"),
        (r"(?=(a))(b)", "match the text around it"),
        (r"(?<!a)(a)(b)", "match the text around it"),
        (r"(a)\1(b)", "write the text again"),
        (r"(?P<n>a)(?P=n)", "write the text again"),
        (r"(?>a)(b)(c)", "write a plain group or repetition"),
        (r"(a)++(b)", "write a plain group or repetition"),
        (r"(a)(b)\Z", "write $"),
        (r"(\u00e9)(b)", "write the character itself"),
        (r"(?x)(a) (b)", "leave it out"),
        (r"(a{,5})(b)", "write {0,5} for {,5}"),
        (r"(a){2000}(b)", "invalid repetition size"),
        (r"(.{0,100})=(.{0,100})", "write * or + for repetitions"),
        (r"(\pL{30})(\pL{30})", r"\w or [^=\s] for \pL"),
    ],
)
def test_what_is_refused_says_what_to_write_instead(text: str, because: str) -> None:
    found = compile_pattern(text)
    assert isinstance(found, InvalidPattern)
    assert because in found.expected


def test_a_checkpoint_format_needs_no_group() -> None:
    assert _compiled("model written", groups=0).search("the model written") == ()


def test_what_a_group_without_a_part_holds_is_none() -> None:
    assert _compiled("(a)|(b)").findall("ab") == [("a", None), (None, "b")]


@pytest.mark.parametrize(
    "line",
    ["step=100 val-loss = -3.5e-02 lr=.1", "損失=0.5 名=1 loss=2", "loss = 3", "nothing", ""],
)
def test_katibs_own_pattern_finds_what_it_finds_in_katib(line: str) -> None:
    found = [tuple(group or "" for group in groups) for groups in _compiled(KATIB).findall(line)]
    assert found == re.findall(KATIB, line, re.ASCII)


def test_a_class_of_all_but_some_finds_names_in_any_letters() -> None:
    assert _compiled(r"([^\s=]+)=([\d.]+)").findall("損失=0.5") == [("損失", "0.5")]


@pytest.mark.parametrize("text", EXPONENTIAL)
def test_no_pattern_backtracks(text: str) -> None:
    """This test hangs where one does."""
    pattern = _compiled(text)
    for line in ("a" * MAX_LINE_CHARACTERS, "a" * 61 + "!", "ab" * 500):
        pattern.search(line)
        pattern.findall(line)


def test_no_more_of_a_line_is_read_than_the_limit() -> None:
    line = " " * (MAX_LINE_CHARACTERS - 4) + "a=1 b=2"
    assert [name for name, _ in _compiled(r"(\w)=(\d)").findall(line)] == ["a"]


class Timer:
    """Seconds of CPU, of which each look at the time takes some."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.now = seconds, 0.0

    def __call__(self) -> float:
        self.now += self.seconds
        return self.now


def test_matches_that_are_not_found_in_time_are_left() -> None:
    pattern = _compiled(r"(\w)=(\d)", timer=Timer(MAX_LINE_SECONDS * 0.4))
    assert len(pattern.findall("a=1 " * 100)) == 3


def test_a_pattern_that_takes_too_long_on_several_lines_is_not_used_any_more() -> None:
    timer = Timer(2 * MAX_LINE_SECONDS)
    pattern = _compiled(r"(\w)=(\d)", timer=timer)
    found = [bool(pattern.findall("a=1 b=2")) for _ in range(7)]
    assert found == [True] * 5 + [False] * 2
    assert pattern.too_slow
    timer.seconds = 0.0
    assert pattern.search("a=1") is None


@pytest.mark.parametrize("name", ["metrics_format", "checkpoint_format"])
def test_a_pattern_that_is_too_slow_is_named_with_what_would_be_right(name: str) -> None:
    text = r"(\w+)=(\d+)"
    slow = job(**{name: text})
    log = ProgressLog(LogFormatOptions.of(slow, Timer(2 * MAX_LINE_SECONDS)))
    lines = [LogLine(float(at), f"step={at} loss={at}") for at in range(6)]
    log.observe("a-worker-0", Role.WORKER, 0, Counts(1, 1), lines, "run")
    diagnostic = log.progress(10.0).diagnostic
    assert diagnostic is not None
    assert f"optimus.dl/{name.replace('_', '-')}: {text!r} is not used" in diagnostic
    assert "would be right" in diagnostic


@given(st.text(max_size=60))
def test_any_text_is_answered(text: str) -> None:
    found = compile_pattern(text, groups=0)
    if isinstance(found, Pattern):
        found.findall(text)
