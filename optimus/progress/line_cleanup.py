"""Raw log lines made readable: progress bars, colours, backspaces, cuts.

A progress bar rewrites itself with carriage returns and backspaces, so hundreds of its states share
one "line"; only the last of them is complete. Colours may stand between a name and its number.
"""

import re
from typing import Final

MAX_CHARACTERS: Final = 4096
"""Longer lines are cut: no training log needs more, and the time that a pattern takes grows with
the length."""

_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_LAUNCHER: Final = re.compile(r"^\[\d+,\d+\]<std(?:out|err)>:\s?")
_STAMP: Final = re.compile(
    r"^(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\s+)?"
    r"(?:[A-Z]+:[\w.]+:\s?)?(?:[IWEF]\d{4} [\d:.]+\s+\d+ [^\s:]+:\d+\] )?"
)
_INVISIBLE: Final = " \t\b\n\v\f"


def clean(raw: str) -> str:
    """The last complete state of a line without colours and backspaces, at most ``MAX_CHARACTERS``
    long."""
    text = _last_state(raw.rstrip("\n"))
    text = _ANSI.sub("", text).replace("\b", "")
    return text if len(text) <= MAX_CHARACTERS else _cut(text)


def without_prefix(text: str) -> str:
    """The line without what launchers and loggers put in front: time, level, source; for anchored
    patterns."""
    return _STAMP.sub("", _LAUNCHER.sub("", text), count=1)


def _last_state(raw: str) -> str:
    for state in reversed(raw.split("\r")):
        if state.strip(_INVISIBLE):
            return state
    return ""


def _cut(text: str) -> str:
    # A number that the cut went through still parses, as another number: drop the last word.
    return text[:MAX_CHARACTERS].rpartition(" ")[0]
