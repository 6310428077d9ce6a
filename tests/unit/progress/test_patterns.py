"""Users' regular expressions: what is taken, what is refused and why, and that none can hang the
process."""

import re
import signal
from collections.abc import Iterator
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.progress.patterns import MAX_LINE_CHARACTERS, bounded, check_pattern
from tests.unit.properties import examples

KATIB = r"([\w|-]+)\s*=\s*([+-]?\d*(\.\d+)?([Ee][+-]?\d+)?)"
TAKEN = [
    KATIB,
    r"{metricName: ([\w|-]+), metricValue: ((-?\d+)(\.\d+)?)}",
    r"(\w+): ([\d.]+)",
    r"(loss|xent)\s*[:=]\s*(\d+\.?\d*)",
    r"(?P<name>loss) is (?P<value>\S+)",
    r"^\[train\] (\w+) -> ([-+.\deE]+)$",
    r".*(loss)=(\d+\.\d+)",
    r"a{3}(b)(?:cd)*(e)",
]


@pytest.mark.parametrize("pattern", TAKEN)
def test_what_names_and_numbers_need_is_taken(pattern: str) -> None:
    assert check_pattern(pattern) is None
    assert bounded(pattern).groups >= 2


@pytest.mark.parametrize(
    ("pattern", "because"),
    [
        ("(loss", "is not a regular expression"),
        ("loss=1", "has 0 groups"),
        ("(a)" * 101, "303 characters"),
        (r"((\w+)+)$(x)", "a repeated group must not hold repetitions"),
        (r"((a|a)*)(b)", "a repeated group must not hold repetitions or alternatives"),
        (r"((a?a?)+)(b)", "a repeated group must not hold repetitions"),
        (r"(\w+)\w+\w+(x)", "more than 2 repetitions in a row"),
        (r".*.*.*=(a)(b)", "more than 2 repetitions in a row"),
        (r"(?=(a))(b)", "none of literals"),
        (r"(a)\1(b)", "none of literals"),
        (r"(a){1000}(b)", "repeats more than 100 times"),
    ],
)
def test_what_is_refused_says_why(pattern: str, because: str) -> None:
    refusal = check_pattern(pattern)
    assert refusal is not None
    assert because in refusal


def test_a_checkpoint_format_needs_no_group() -> None:
    assert check_pattern("model written", groups=0) is None


@pytest.mark.parametrize(
    ("pattern", "limited"),
    [
        (r"(\w+)=(.*?)x", r"(\w{1,100})=(.{0,100}?)x"),
        (r"(a{2,})(b?)", r"(a{2,100})(b?)"),
        (r"(a{,5})(b)", r"(a{,5})(b)"),
    ],
)
def test_repetitions_get_a_limit(pattern: str, limited: str) -> None:
    assert bounded(pattern).pattern == limited


def test_katibs_own_pattern_finds_what_it_finds_in_katib() -> None:
    line = "step=100 val-loss = -3.5e-02 lr=.1"
    assert bounded(KATIB).findall(line) == re.findall(KATIB, line)


@pytest.fixture
def _alarm() -> Iterator[None]:
    """Ends a match that hangs: the engine looks for signals while it backtracks."""

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError

    former = signal.signal(signal.SIGALRM, ring)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, former)


PIECES = [
    "a",
    r"\w",
    r"\d",
    ".",
    "[ab]",
    "=",
    r"\s",
    "(a",
    "(",
    "(?:b",
    ")",
    "*",
    "+",
    "?",
    "*?",
    "{2,}",
    "|",
    "x",
]
LINES = [
    "a" * MAX_LINE_CHARACTERS,
    "ab" * (MAX_LINE_CHARACTERS // 2),
    "a=" * (MAX_LINE_CHARACTERS // 2),
    "1" * 999 + "!",
]


@examples(150)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
@pytest.mark.usefixtures("_alarm")
def test_a_pattern_that_is_taken_never_hangs(pattern: str) -> None:
    if check_pattern(pattern, groups=0) is None:
        for line in LINES:
            bounded(pattern).search(line + "#")


@given(st.text(max_size=60))
def test_any_text_is_answered(text: str) -> None:
    if check_pattern(text, groups=0) is None:
        bounded(text)
