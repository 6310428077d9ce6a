"""A plugin of pytest for runs of mutants: forgets what cached functions have answered so far.

mutmut starts the run of each mutant as a copy of a process that has run all tests without a mutant:
where a cached function still knows an answer, nothing that it calls is called.
"""

import functools
import gc


def pytest_sessionstart() -> None:
    """Called by pytest before it looks for tests."""
    for each in gc.get_objects():
        if isinstance(each, functools._lru_cache_wrapper):
            each.cache_clear()
