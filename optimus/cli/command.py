"""The interface of a command: arguments in, an answer out; ``main`` prints it."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol, TypeVar

Item = TypeVar("Item")


class BadInput(ValueError):
    """Wrong input, as one line that names the file, the line and what was expected."""

    def __init__(self, source: str | Path, expected: str, line: int | None = None) -> None:
        place = str(source) if line is None else f"{source}:{line}"
        super().__init__(f"{place}: {expected}")


class Progress(Protocol):
    """Shows the progress of long work."""

    def __call__(self, items: Sequence[Item], what: str, /) -> Iterable[Item]:
        """The items one by one; ``what`` is being done to them."""


_NO_COLOURS: Final[Mapping[str, str]] = MappingProxyType({})

INCOMPLETE: Final = 3
"""The exit status of an answer that lacks what could not be read, mostly for want of rights."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command found."""

    value: object
    """The answer for ``--json``: plain lists, dicts, numbers, strings."""
    text: str

    colours: Mapping[str, str] = field(default_factory=lambda: _NO_COLOURS)
    """Words that a terminal shows in a colour of rich."""

    status: int = 0
    """The exit status: 1 where the answer is that something is wrong, ``INCOMPLETE`` where
    something could not be read."""


@dataclass(frozen=True, slots=True)
class Implementation:
    """What a command takes and does; ``run`` may raise ``BadInput``."""

    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Progress], Answer]


@dataclass(frozen=True, slots=True)
class Command:
    """One command."""

    path: tuple[str, ...]
    """How it is called: ``("evaluate", "speed")``."""
    summary: str
    load: Callable[[], Implementation]
    """May take a second: called only for the command that is used."""
    watchable: bool = False
    """Whether ``--watch`` asks it again and again."""
