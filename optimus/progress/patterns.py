"""Users' regular expressions: checked, refused with a reason, and bounded before they are used.

Python's engine backtracks, so a careless pattern can take exponential time on an ordinary line.
Accepted is what names and numbers need: literals, classes, groups, alternatives, repetitions.
Refused is what backtracks exponentially: a repeated group with repetitions or alternatives in it,
and three repetitions in a row that can match each other's text. Unlimited repetitions get a limit,
so that the time for a line is bounded."""

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAX_PATTERN_CHARACTERS: Final = 300
MAX_REPEATS: Final = 100
MAX_LINE_CHARACTERS: Final = 1000
"""Of a line, only the first so many characters are searched with a user's pattern."""

_MOST_OVERLAPPING: Final = 2
_FEW: Final = 10
"""Fewer repeats do not count as a repetition."""
_TOKEN: Final = re.compile(
    r"(?P<open>\((?:\?:|\?P<\w+>)?(?!\?))|(?P<close>\))|(?P<or>\|)"
    r"|(?P<repeat>(?:[*+?]|\{(?:\d+,?\d*|,\d*)\})[?+]?)"
    r"|(?P<anchor>\^|\$|\\[bBAZ])"
    r"|(?P<atom>\\[dDwWsS]|\\[^A-Za-z0-9]|\\[nrtfv]|\[\^?\]?(?:\\.|[^\]\\])*\]|\.|[^\\()|*+?\[\]{}^$])"
    r"|(?P<brace>[\]{}])",
    re.DOTALL,
)
_BOUNDS: Final = re.compile(r"\{(\d*)(,?)(\d*)\}")
_ALPHABET: Final = tuple(map(chr, range(128)))


@dataclass(frozen=True, slots=True)
class _Atom:
    """One character class with its repetition."""

    characters: frozenset[str]
    least: int
    most: float
    path: frozenset[int]
    """The groups and branches that it is in."""


@dataclass(slots=True)
class _Group:
    """An open group."""

    branch: int
    """The current alternative."""
    first: int
    """The index of its first atom."""
    complex: bool = False
    """Whether it holds a repetition or alternatives."""


def check_pattern(text: str, groups: int = 2) -> str | None:
    """Why a pattern cannot be used, as a sentence; ``None`` where it can.

    It needs ``groups``: 2 for a metrics format (name and value, in Katib's form), 0 for a
    checkpoint format, of which a first group, if there is one, is the step."""
    if len(text) > MAX_PATTERN_CHARACTERS:
        return (
            f"the pattern has {len(text)} characters, at most {MAX_PATTERN_CHARACTERS} are accepted"
        )
    try:
        # Warnings such as of "[[", which a later Python may read otherwise.
        with warnings.catch_warnings(action="ignore"):
            compiled = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        return f"{text!r} is not a regular expression: {error}"
    if compiled.groups < groups:
        needed = "the first must be the name and the second the value"
        return f"{text!r} has {compiled.groups} groups; {needed}"
    reader = _Reader()
    try:
        for kind, token in _tokens(text):
            reader.take(kind, token)
    except _Refused as refused:
        return f"{text!r} is not accepted: {refused}"
    if reader.overlapping() > _MOST_OVERLAPPING:
        return (
            f"{text!r} is not accepted, as it may take very long: more than {_MOST_OVERLAPPING} "
            "repetitions in a row can match the same text; remove '.*' at either end, and put "
            "a literal between repetitions"
        )
    return None


def bounded(text: str) -> re.Pattern[str]:
    """A pattern that ``check_pattern`` accepts, compiled with a limit to each repetition."""
    return re.compile("".join(_limited(kind, token) for kind, token in _tokens(text)))


class _Refused(ValueError):
    """The pattern uses what is not accepted; the message says what."""


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            known = "literals, classes, groups, alternatives, repetitions"
            raise _Refused(f"{text[at : at + 4]!r} is none of {known}")
        yield str(found.lastgroup), found[0]
        at = found.end()


def _limited(kind: str, token: str) -> str:
    if kind != "repeat":
        return token
    least, most = _repetition(token)
    lazy = token[-1] if len(token) > 1 and token[-1] in "?+" else ""
    return token if most <= MAX_REPEATS else f"{{{least},{MAX_REPEATS}}}{lazy}"


def _repetition(token: str) -> tuple[int, float]:
    """The least and the most times that a repetition token asks for."""
    simple = {"*": (0, float("inf")), "+": (1, float("inf")), "?": (0, 1.0)}
    if token[0] in simple:
        return simple[token[0]]
    found = _BOUNDS.match(token)
    assert found is not None
    least, comma, most = found.groups()
    low = int(least or 0)
    high = float(most) if most else float("inf") if comma else float(low)
    if low > MAX_REPEATS or (most and high > MAX_REPEATS):
        raise _Refused(f"{token} repeats more than {MAX_REPEATS} times")
    return low, high


class _Reader:
    """Reads tokens into atoms, groups flattened; refuses repeated groups that are complex."""

    def __init__(self) -> None:
        self._atoms: list[_Atom] = []
        self._open = [_Group(0, 0)]
        self._closed: _Group | None = None
        self._optional: set[int] = set()
        self._branches = iter(range(1, 10 * MAX_PATTERN_CHARACTERS))

    def take(self, kind: str, token: str) -> None:
        """Take the next token."""
        closed, self._closed = self._closed, None
        if kind == "open":
            self._open.append(_Group(next(self._branches), len(self._atoms)))
        elif kind == "close":
            self._closed = self._open.pop()
            self._open[-1].complex |= self._closed.complex
        elif kind == "or":
            self._next_branch(self._open[-1])
        elif kind == "repeat":
            self._repeat(token, closed)
        elif kind in ("atom", "brace"):
            path = frozenset(group.branch for group in self._open)
            self._atoms.append(
                _Atom(_characters(token if kind == "atom" else "\\" + token), 1, 1.0, path)
            )

    def overlapping(self) -> int:
        """The longest chain of repetitions of which each can match text of the next.

        Alternatives count as if they followed each other: that may overestimate a chain, never
        underestimate it."""
        lengths = [0] * len(self._atoms)
        for n, later in enumerate(self._atoms):
            if later.most > _FEW:
                chained = (lengths[m] for m in range(n) if lengths[m] and self._can_overlap(m, n))
                lengths[n] = 1 + max(chained, default=0)
        return max(lengths, default=0)

    def _next_branch(self, group: _Group) -> None:
        group.complex = True
        self._optional.add(group.branch)
        group.branch = next(self._branches)
        self._optional.add(group.branch)

    def _repeat(self, token: str, group: _Group | None) -> None:
        least, most = _repetition(token)
        if group is None:
            repeated = len(self._atoms) - 1
        elif most > 1 and group.complex:
            raise _Refused("a repeated group must not hold repetitions or alternatives itself")
        else:
            repeated = group.first
            if least == 0:
                self._optional.add(group.branch)
        for n in range(max(repeated, 0), len(self._atoms)):
            atom = self._atoms[n]
            own = least if group is None else atom.least
            self._atoms[n] = _Atom(atom.characters, own, max(atom.most, most), atom.path)
        self._open[-1].complex |= least != most

    def _can_overlap(self, first: int, last: int) -> bool:
        """Whether two repetitions can match each other's text, despite the atoms between them."""
        one, other = self._atoms[first], self._atoms[last]
        if not one.characters & other.characters:
            return False
        entered = one.path | other.path
        definite = (
            atom
            for atom in self._atoms[first + 1 : last]
            if atom.least and not (atom.path & self._optional) - entered
        )
        return all(
            atom.characters & one.characters and atom.characters & other.characters
            for atom in definite
        )


def _characters(token: str) -> frozenset[str]:
    """The ASCII characters that a class matches."""
    with warnings.catch_warnings(action="ignore"):
        one = re.compile(token, re.DOTALL)
    return frozenset(character for character in _ALPHABET if one.fullmatch(character))
