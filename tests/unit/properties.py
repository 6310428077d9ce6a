"""How many cases a property is tried on."""

from typing import Any

from hypothesis import settings

QUICK = "quick"
"""The profile of ``make check``: a quarter of the cases. ``make test`` tries them all."""


def examples(count: int, **options: Any) -> settings:
    """Settings of a property that is tried on so many cases."""
    is_quick = settings.get_current_profile_name() == QUICK
    return settings(max_examples=-(-count // 4) if is_quick else count, **options)
