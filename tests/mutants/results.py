"""What became of the mutants of one module, read from the files that mutmut keeps."""

import difflib
import json
import re
import textwrap
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.mutants.modules import ROOT

WORK: Final = ROOT / ".mutants"
"""One folder per module, in which mutmut works and keeps its results."""

EQUIVALENT: Final = Path(__file__).with_name("equivalent.toml")


class Fate(StrEnum):
    """What became of a mutant."""

    KILLED = "tests"
    TYPES = "types"
    TIMEOUT = "time-out"
    EQUIVALENT = "equivalent"
    WORDING = "wording"
    """A sentence for people, in other letters: no test holds it word by word."""

    SURVIVED = "survived"
    NO_TESTS = "no tests"
    NOT_RUN = "not run"


DEAD: Final = (Fate.KILLED, Fate.TYPES, Fate.TIMEOUT)

_FATES: Final[Mapping[int | None, Fate]] = {
    None: Fate.NOT_RUN,
    0: Fate.SURVIVED,
    1: Fate.KILLED,
    2: Fate.NOT_RUN,  # interrupted
    3: Fate.KILLED,  # pytest itself failed
    5: Fate.NO_TESTS,
    33: Fate.NO_TESTS,
    37: Fate.TYPES,
}
"""By mutmut's exit codes; every other one is that of a process that had to be ended."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one function."""

    name: str
    """mutmut's name of it."""

    function: str
    """Class and function, with a point between them."""

    fate: Fate
    removed: str
    added: str
    """The changed lines, joined by blanks."""


def workspace(module: str) -> Path:
    """The folder of a module's results."""
    return WORK / module.removesuffix(".py").replace("/", ".")


def undecided(module: str, *, survivors: bool) -> list[str]:
    """The names of the mutants still to be run; ``survivors``: and of what has not surely died."""
    codes = _exit_codes(module) or {}
    fates = (Fate.NOT_RUN, *((Fate.SURVIVED, Fate.NO_TESTS, Fate.TIMEOUT) if survivors else ()))
    return [name for name, code in codes.items() if _fate(code) in fates]


def mutants_of(module: str) -> list[Mutant]:
    """All mutants of a module; none before its first run."""
    codes = _exit_codes(module)
    if codes is None:
        return []
    mutated = workspace(module) / "mutants" / module
    lines = mutated.read_text().splitlines()
    spans = json.loads(mutated.with_name(f"{mutated.name}.spans").read_text())["spans"]
    return [_mutant(module, name, code, lines, spans) for name, code in codes.items()]


def counts_of(module: str) -> Counter[Fate]:
    """How many mutants of a module met which fate."""
    return Counter(mutant.fate for mutant in mutants_of(module))


def share_dead(counts: Mapping[Fate, int]) -> float | None:
    """The part that died, of those that were run and do not behave or read as the original."""
    dead = sum(counts.get(fate, 0) for fate in DEAD)
    alive = counts.get(Fate.SURVIVED, 0) + counts.get(Fate.NO_TESTS, 0)
    return dead / (dead + alive) if dead + alive else None


def unknown_equivalents() -> Iterator[str]:
    """Entries of the kept list that are no mutant any more, of modules that have been run."""
    for module, function, removed, added in _equivalents():
        found = mutants_of(module)
        if found and not any(
            (each.function, each.removed, each.added) == (function, removed, added)
            for each in found
        ):
            yield f"{module}: {function}: {removed} -> {added}"


@cache
def _equivalents() -> Mapping[tuple[str, str, str, str], str]:
    entries: list[dict[str, Any]] = tomllib.loads(EQUIVALENT.read_text()).get("mutant", [])
    return {
        (each["module"], each["function"], each["removed"], each["added"]): each["why"]
        for each in entries
    }


def _exit_codes(module: str) -> dict[str, int | None] | None:
    kept = workspace(module) / "mutants" / f"{module}.meta"
    if not kept.exists():
        return None
    codes: dict[str, int | None] = json.loads(kept.read_text())["exit_code_by_key"]
    return codes


def _fate(code: int | None) -> Fate:
    return _FATES.get(code, Fate.TIMEOUT)


def _mutant(
    module: str, name: str, code: int | None, lines: list[str], spans: Mapping[str, list[int]]
) -> Mutant:
    changed = name.rpartition(".")[2]
    mangled = changed.partition("__mutmut_")[0]
    original = f"{mangled}__mutmut_orig"
    before, after = (_body(lines, *spans[each]) for each in (original, changed))
    removed, added = _difference(before, after)
    # mutmut names a function x_NAME, and a method x, CLASS and NAME with a click letter between.
    function = mangled.removeprefix("x").strip("_").replace("ǁ", ".").strip(".")
    fate = _fate(code)
    if fate in (Fate.SURVIVED, Fate.NO_TESTS):
        if (module, function, removed, added) in _equivalents():
            fate = Fate.EQUIVALENT
        elif _is_wording(removed, added):
            fate = Fate.WORDING
    return Mutant(name, function, fate, removed, added)


def _is_wording(removed: str, added: str) -> bool:
    """Whether only sentences differ, in capitals or by the marks that mutmut puts around them."""
    before, after = re.split(_TEXT, removed), re.split(_TEXT, added)
    if len(before) != len(after):
        return False
    pairs = [(one, other) for one, other in zip(before, after, strict=True) if one != other]
    return bool(pairs) and all(
        " " in one.strip() and one.startswith('"') and one.casefold() == _unmarked(other).casefold()
        for one, other in pairs
    )


_TEXT: Final = r'("(?:[^"\\]|\\.)*")'


def _unmarked(text: str) -> str:
    return text.removeprefix('"XX').removesuffix('XX"').join('""') if "XX" in text else text


def _body(lines: list[str], first: int, last: int) -> list[str]:
    """The lines of a function after its name."""
    text = textwrap.dedent("\n".join(lines[first - 1 : last])).splitlines()
    start = next(at for at, line in enumerate(text) if line.startswith(("def ", "async def ")))
    return [text[start].partition("(")[2], *text[start + 1 :]]


def _difference(before: list[str], after: list[str]) -> tuple[str, str]:
    changes = [*difflib.ndiff(before, after)]
    removed = " ".join(line[2:].strip() for line in changes if line.startswith("- "))
    added = " ".join(line[2:].strip() for line in changes if line.startswith("+ "))
    return removed, added
