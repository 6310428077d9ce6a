"""How many cases a property is tried on."""

from collections.abc import Sequence
from typing import Any, TypeVar

from hypothesis import settings

QUICK = "quick"
"""The profile of ``make check``: a quarter of the cases. ``make test`` tries them all."""


_T = TypeVar("_T")


def examples(count: int, **options: Any) -> settings:
    """Settings of a property that is tried on so many cases."""
    return settings(max_examples=-(-count // 4) if _is_quick() else count, **options)


def sampled(cases: Sequence[_T]) -> Sequence[_T]:
    """The cases of a costly table: each fourth one of them in ``make check``."""
    return cases[::4] if _is_quick() else cases


def _is_quick() -> bool:
    return settings.get_current_profile_name() == QUICK
