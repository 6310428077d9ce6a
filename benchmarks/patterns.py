"""What users' regular expressions cost at most:
``python -m benchmarks.patterns [--patterns 100000] [--seed 0]``.

Patterns are drawn from the pieces that make engines slow, nested and repeated, until so many were
accepted. Each searches lines that are hard to match, once for all matches and once for the first,
as the autoscaler does. The result is one JSON object; times are CPU time of this thread, of a line
above 5 ms the least of three measurements."""

import argparse
import gc
import json
import random
import statistics
import time
from collections.abc import Sequence
from itertools import islice
from typing import Final

from optimus.progress.patterns import (
    MAX_LINE_CHARACTERS,
    MAX_PATTERN_CHARACTERS,
    Pattern,
    compile_pattern,
)

_LIMIT_SECONDS: Final = 0.010
NAMED: Final = (
    "(a{0,9})(a{0,9})a{0,9}a{0,9}a{0,9}a{0,9}b",
    "(a?)(a?)" + "a?" * 60 + "b",
    "(a)(a)" + "(?:a|a)" * 30 + "b",
    "(a{1,10})" * 8 + "b",
)
"""Patterns with which an engine that backtracks takes from seconds to for ever."""

_ATOMS: Final = (
    *("a", "b", "x", "=", ".", r"\w", r"\d", r"\s", r"\b", "^", "$", "[ab]", "[^b]", "[^=,]"),
    *("(?:a|b)", "(?:a|ab)", "(?:|a)", "(?i:k)", r"\pL", "(a)", "(b|)", "()", r"(\w+)", "(a?)"),
    *(".*", ".*?", "(?:ab?)*", r"([\w|-]+)\s*=\s*(\d*)"),
)
_REPEATS: Final = (
    *("", "", "*", "+", "?", "*?", "+?", "??", "{2,}", "{0,9}", "{1,10}", "{20}", "{40}"),
    *("{0,30}?", "{1,99}", "{200}"),
)


def main() -> None:
    """Run once and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--patterns", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print(json.dumps(figures(given.patterns, given.seed), indent=1, ensure_ascii=False))


def figures(patterns: int, seed: int) -> dict[str, object]:
    """The longest times of one line, and the patterns that took them."""
    gc.disable()
    draws, lines = random.Random(seed), adversarial_lines(seed)
    drawn, accepted = 0, [accept(text) for text in NAMED]
    taken = [(longest(pattern, lines), pattern.text) for pattern in accepted if pattern]
    named = max(taken)[0]
    while len(taken) < patterns:
        drawn += 1
        pattern = accept(draw(draws))
        if pattern is not None:
            taken.append((longest(pattern, lines), pattern.text))
    taken = sorted(
        (again(*each, lines) if each[0] > _LIMIT_SECONDS / 2 else each) for each in taken
    )
    taken.reverse()
    seconds = [each for each, _ in taken]
    return {
        "patterns": len(taken),
        "of those drawn": round((len(taken) - len(NAMED)) / max(drawn, 1), 3),
        "lines": len(lines),
        "named patterns, longest ms": round(1000 * named, 3),
        "median of the longest line, ms": round(1000 * statistics.median(seconds), 3),
        "longest line, ms": round(1000 * seconds[0], 3),
        "lines above 10 ms": sum(each > _LIMIT_SECONDS for each in seconds),
        "slowest": [
            {"ms": round(1000 * each, 3), "pattern": text} for each, text in islice(taken, 5)
        ],
    }


def accept(text: str) -> Pattern | None:
    """The pattern as a job has it, if it is accepted."""
    found = compile_pattern(text, groups=0, timer=time.thread_time)
    return found if isinstance(found, Pattern) else None


def longest(pattern: Pattern, lines: Sequence[str]) -> float:
    """The seconds of CPU that the slowest of these lines takes."""
    most = 0.0
    for line in lines:
        for match in (pattern.findall, pattern.search):
            began = time.thread_time()
            match(line)
            most = max(most, time.thread_time() - began)
    return most


def again(seconds: float, text: str, lines: Sequence[str]) -> tuple[float, str]:
    """The least of three measurements: what else the machine does costs CPU time, too."""
    for _ in range(2):
        pattern = accept(text)
        seconds = seconds if pattern is None else min(seconds, longest(pattern, lines))
    return seconds, text


def draw(draws: random.Random, depth: int = 0) -> str:
    """A pattern, as nested as chance wants."""
    text = "".join(_part(draws, depth) for _ in range(draws.randint(1, 6)))
    return text if depth or len(text) <= MAX_PATTERN_CHARACTERS else draw(draws)


def _part(draws: random.Random, depth: int) -> str:
    atom = draws.choice(_ATOMS)
    if depth < 3 and draws.random() < 0.35:
        other = "|" + draw(draws, depth + 1) if draws.random() < 0.4 else ""
        atom = f"{draws.choice(('(', '(?:'))}{draw(draws, depth + 1)}{other})"
    return atom + draws.choice(_REPEATS)


def adversarial_lines(seed: int) -> list[str]:
    """Lines on which patterns of these pieces match nearly, or in many ways."""
    draws = random.Random(seed)
    most = MAX_LINE_CHARACTERS
    return [
        "a" * most,
        "ab" * (most // 2),
        ("a" * 61 + "b") * (most // 62),
        "a=1," * (most // 4),
        "ж" * most,
        "".join(draws.choices("ab", k=most)),
        "".join(draws.choices("abkx=1 ж", k=most)),
    ]


if __name__ == "__main__":
    main()
