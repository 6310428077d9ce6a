"""A plugin of pytest for runs of mutants: forgets before each test what cached functions answered.

mutmut notes which functions each test calls, and starts the run of each mutant as a copy of a
process that has run all tests without a mutant: where a cached function knows the answer, nothing
that it calls is called.
"""

import functools
import gc

_CACHED: "list[functools._lru_cache_wrapper[object]]" = []


def pytest_collection_finish() -> None:
    """Called by pytest once all modules are imported."""
    found = (each for each in gc.get_objects() if isinstance(each, functools._lru_cache_wrapper))
    _CACHED[:] = [
        each for each in found if each.__module__.startswith(("autoscaler", "extender", "optimus"))
    ]


def pytest_runtest_setup() -> None:
    """Called by pytest before each test."""
    for each in _CACHED:
        each.cache_clear()
