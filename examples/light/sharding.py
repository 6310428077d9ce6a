"""Even, contiguous shares: of the parameters over the PSs, and of a global batch over the
workers."""

import itertools


def even_slices(total: int, parts: int) -> list[slice]:
    """Cut `range(total)` into `parts` neighbouring slices whose lengths differ by at most one."""
    if total < 0 or parts < 1:
        raise ValueError(f"cannot cut {total} items into {parts} parts")
    bounds = [total * part // parts for part in range(parts + 1)]
    return [slice(start, stop) for start, stop in itertools.pairwise(bounds)]
