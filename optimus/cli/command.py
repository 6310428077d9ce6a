"""What a command is: arguments in, an answer out. Printing, JSON, plots and errors are the same for
all of them."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:  # loaded only where a plot is asked for: it takes a second
    from matplotlib.figure import Figure

Item = TypeVar("Item")


class BadInput(ValueError):
    """What is wrong with the input, in one line that names the file, the line and what was
    expected."""

    def __init__(self, source: str | Path, expected: str, line: int | None = None) -> None:
        place = str(source) if line is None else f"{source}:{line}"
        super().__init__(f"{place}: {expected}")


class Progress(Protocol):
    """Shows how far long work has come."""

    def __call__(self, items: Sequence[Item], what: str, /) -> Iterable[Item]:
        """The items one by one; ``what`` is being done to them."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command found: ``value`` for ``--json`` (plain lists, dicts, numbers, strings),
    ``text`` for people.

    ``plot`` draws it; ``None`` for a command that has no picture.
    """

    value: object
    text: str
    plot: "Callable[[Figure], None] | None" = None


@dataclass(frozen=True, slots=True)
class Command:
    """One command. ``words`` are how it is called: ``("evaluate", "speed")``.

    ``run`` may raise ``BadInput``.
    """

    words: tuple[str, ...]
    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Progress], Answer]
