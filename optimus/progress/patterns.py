"""Users' regular expressions: compiled by RE2, refused with a reason, limited in time.

RE2 takes time that is linear in the text, whatever the pattern, and has Katib's syntax. The cost of
a line is limited by the size of the program times the bytes that it reads, by the number of groups,
and by a time for all matches: a pattern that takes longer again and again is not used any more."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple

import re2  # type: ignore[import-untyped]  # it has no types

MAX_PATTERN_CHARACTERS: Final = 300
MAX_LINE_CHARACTERS: Final = 1000
"""No more characters of a line are searched with a user's pattern."""
MAX_GROUPS: Final = 10
MAX_INSTRUCTIONS: Final = 400
MAX_LINE_SECONDS: Final = 0.002
"""CPU time after which no further match is looked for on a line."""

_MAX_WORK: Final = MAX_INSTRUCTIONS * MAX_LINE_CHARACTERS
"""Bytes times instructions of one search: at most 12 ns each, so that it ends in 5 ms."""
_SLOW_LINES: Final = 5
_MAX_MEMORY: Final = 1 << 16
"""Bytes of a program and its cache of states: each job may have two."""

_MISREAD: Final = re.compile(r"(?:[^\\]|^)(\{,(\d+)\})")
_INSTEAD: Final = (
    (re.compile(r"\(\?<?[=!]"), "match the text around it, and put the name or value in a group"),
    (re.compile(r"\\[1-9]|\(\?P$"), "write the text again instead of referring to a group"),
    (re.compile(r"\(\?>|operator: .*\+$"), "write a plain group or repetition, which is as fast"),
    (re.compile(r"\\Z"), "write $"),
    (re.compile(r"\\[uUN]"), "write the character itself"),
    (re.compile(r"\(\?[aLux#(]"), "leave it out; (?i), (?s) and (?m) can be used"),
)
"""The advice for what Python's syntax has and RE2's has not, by RE2's message."""


Groups = tuple[str | None, ...]
"""The texts of one match's groups, ``None`` where a group has no part in it."""


class Pair(NamedTuple):
    """A name and its value, which stands at these characters of the line."""

    name: str
    value: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class InvalidPattern:
    """A text that is not accepted as a pattern."""

    expected: str
    """Why, as a sentence for its user."""


def no_timer() -> float:
    """The timer of a pattern whose time is not limited: no time passes."""
    return 0.0


@dataclass(slots=True)
class Pattern:
    """One user's pattern."""

    text: str
    _program: Any = field(repr=False, compare=False)
    _timer: Callable[[], float] = field(default=no_timer, repr=False, compare=False)
    """Seconds of CPU of this thread."""
    _slow_lines: int = field(default=0, repr=False, compare=False)

    @property
    def too_slow(self) -> bool:
        """True where it took too long on several lines; it finds nothing any more."""
        return self._slow_lines >= _SLOW_LINES

    def search(self, line: str) -> Groups | None:
        """The groups of the first match on a line."""
        return next(map(_groups, self._matches(line, at_most=1)), None)

    def findall(self, line: str) -> list[Groups]:
        """The groups of each match on a line; those that are found in time."""
        return list(map(_groups, self._matches(line, at_most=MAX_LINE_CHARACTERS)))

    def pairs(self, line: str) -> Iterator[Pair]:
        """The first two groups of each match that has both, and where the second stands."""
        for match in self._matches(line, at_most=MAX_LINE_CHARACTERS):
            name, value = map(_decoded, match.groups()[:2])
            if name and value:
                start = len(_decoded(match.string[: match.start(2)]) or "")
                yield Pair(name, value, start, start + len(value))

    def _matches(self, line: str, at_most: int) -> list[Any]:
        if self.too_slow:
            return []
        data = line[:MAX_LINE_CHARACTERS].encode("utf-8", "replace")
        data = data[: _MAX_WORK // self._program.programsize]
        began, found = self._timer(), list[Any]()
        for match in islice(self._program.finditer(data), at_most):
            found.append(match)
            if self._timer() - began > MAX_LINE_SECONDS:
                break
        self._slow_lines += self._timer() - began > MAX_LINE_SECONDS
        return found


def _groups(match: Any) -> Groups:
    return tuple(map(_decoded, match.groups()))


def _decoded(group: bytes | None) -> str | None:
    return None if group is None else group.decode("utf-8", "replace")


def compile_pattern(
    text: str, groups: int = 2, timer: Callable[[], float] = no_timer
) -> Pattern | InvalidPattern:
    """The pattern, or why it cannot be used.

    It needs ``groups``: 2 for a metrics format (name and value, in Katib's form), 0 for a
    checkpoint format, of which a first group, if there is one, is the step."""
    program = _program(text)
    if isinstance(program, InvalidPattern):
        return program
    if program.groups < groups:
        needed = "the first must be the name and the second the value"
        return InvalidPattern(f"{text!r} has {program.groups} groups; {needed}")
    return Pattern(text, program, timer)


@lru_cache(256)
def _program(text: str) -> Any:
    """RE2's program, which jobs with the same pattern share, or why there is none."""
    if len(text) > MAX_PATTERN_CHARACTERS:
        return InvalidPattern(
            f"the pattern has {len(text)} characters, at most {MAX_PATTERN_CHARACTERS} are accepted"
        )
    misread = _MISREAD.search(text)
    if misread is not None:
        literal, most = misread.groups()
        return InvalidPattern(f"{text!r} is not accepted: write {{0,{most}}} for {literal}")
    options = re2.Options()
    options.max_mem, options.log_errors = _MAX_MEMORY, False
    try:
        program = re2.compile(text.encode("utf-8", "replace"), options)
    except re2.error as error:
        return InvalidPattern(_refusal(text, error.args[0].decode("utf-8", "replace")))
    if program.groups > MAX_GROUPS:
        return InvalidPattern(
            f"{text!r} has {program.groups} groups, at most {MAX_GROUPS} are accepted; write "
            "(?:...) for those that only hold together"
        )
    if program.programsize > MAX_INSTRUCTIONS:
        return InvalidPattern(_too_large(text))
    return program


def _refusal(text: str, message: str) -> str:
    if message.startswith("pattern too large"):
        return _too_large(text)
    instead = next((right for wrong, right in _INSTEAD if wrong.search(message)), None)
    sentence = f"{text!r} is not a regular expression in RE2's syntax: {message}"
    return sentence if instead is None else f"{sentence}; {instead}"


def _too_large(text: str) -> str:
    return (
        f"{text!r} is not accepted, as its program is too large; write * or + for repetitions such "
        r"as {1,40}, and \w or [^=\s] for \pL"
    )
