"""Share one batch among the processes that are there, so that a step is the same at any number.

    split = split_batch(256, most=64)     # 256 examples a step, 64 of them fit at once
    for step in steps:
        optimizer.zero_grad()
        for number in range(split.passes):
            with contextlib.nullcontext() if number + 1 == split.passes else model.no_sync():
                (loss(model, next_batch(split.at_once)) / split.passes).backward()
        optimizer.step()

``DistributedDataParallel`` averages the gradients of the processes, which take equal parts of the
batch: the mean is that of the whole batch, and the learning rate stays what it was.
"""

from __future__ import annotations

import os
from typing import Mapping, NamedTuple


class Split(NamedTuple):
    """One process's part of a step: ``passes`` of ``at_once`` examples each."""

    at_once: int
    passes: int


def split_batch(
    batch: int, most: int | None = None, environment: Mapping[str, str] = os.environ
) -> Split:
    """Divide a step's ``batch`` by WORLD_SIZE, into the fewest passes of at most ``most`` examples.

    Raises:
        ValueError: the processes cannot take equal parts of the batch.
    """
    world = int(environment.get("WORLD_SIZE", "1"))
    part, rest = divmod(batch, world)
    if rest or not part:
        raise ValueError(f"{world} processes cannot take equal parts of {batch} examples")
    fewest = 1 if most is None else -(-part // max(most, 1))
    passes = next(each for each in range(fewest, part + 1) if part % each == 0)
    return Split(part // passes, passes)
