"""Problems of ideal shares."""

from dataclasses import replace
from typing import Any

import numpy as np

from optimus.allocation.time_shares import SharesProblem

ONE_EACH = [[1.0], [1.0]]
"""Two kinds with room for one job each."""


def shares_problem(
    speeds: Any, capacity: Any = ONE_EACH, workers: Any = None, others: Any = None, **fields: Any
) -> SharesProblem:
    """Jobs that take one unit each where nothing else is said."""
    rows, free = np.array(speeds, float), np.array(capacity, float)
    taken = np.ones((len(rows), free.shape[1])) if workers is None else np.array(workers, float)
    usual = SharesProblem(
        at=0.0,
        speeds=rows,
        workers=taken,
        others=np.zeros_like(taken) if others is None else np.array(others, float),
        capacity=free,
        nodes=np.ones(len(free)),
        prices=np.ones(len(free)),
        weights=np.ones(len(rows)),
        namespaces=("team",) * len(rows),
        steps_left=np.ones(len(rows)),
        submitted=np.zeros(len(rows)),
        finish_by=np.full(len(rows), np.inf),
        notes=tuple({} for _ in rows),
    )
    return replace(usual, **fields)
