"""A hundred thousand mutated lines of published logs never stop the reading."""

import random

from benchmarks.log_forms import mutated_lines
from tests.unit.progress.test_mutated_lines import _LINES, check, read_in_parts


def test_a_hundred_thousand_mutated_lines() -> None:
    for seed in range(10):
        check(read_in_parts(list(mutated_lines(_LINES, 10_000, random.Random(seed)))))
