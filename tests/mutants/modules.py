"""Which modules are mutated, and the tests that have to notice."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

TESTS: Final = {
    "extender": ("tests/unit/extender",),
    "optimus/placement": ("tests/unit/placement",),
    "autoscaler/rescale": ("tests/unit/rescale",),
}
"""By folder of the sources, the tests below which all of its mutants have to fail."""

MORE_TESTS: Final = {
    "extender/state/reservations.py": ("tests/unit/placement/test_ledger.py",),
    "extender/gang_queue.py": ("tests/unit/placement/test_rules.py",),
    "optimus/placement/queue_order.py": ("tests/unit/extender/test_gang_queue.py",),
    "optimus/placement/ledger.py": ("tests/unit/extender",),
    "optimus/placement/incremental.py": ("tests/unit/interval/test_starting.py",),
}
"""Of single modules, whose tests are partly those of the code that they were made for."""

NOT_MUTATED: Final = ("extender/__main__.py",)
"""Started as a process by the tests in ``tests/integration`` and ``tests/scenarios`` alone."""


def mutated_modules() -> Iterator[str]:
    """The path of every module that is mutated, from the root of the checkout."""
    for folder in TESTS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if path.name != "__init__.py" and name not in NOT_MUTATED:
                yield name


def tests_of(module: str) -> tuple[str, ...]:
    """The folders and files with the tests of a module."""
    folder = next(each for each in TESTS if module.startswith(f"{each}/"))
    return (*TESTS[folder], *MORE_TESTS.get(module, ()))
