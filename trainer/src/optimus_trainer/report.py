"""Print where the training stands, in the form that Optimus reads without an annotation.

report(step=120, loss=0.25)                           step=120 loss=0.25
report(step=120, epoch=3, loss=0.25, auc=0.71)        epoch=3 step=120 loss=0.25 auc=0.71
report(step=120, checkpoint=120)                      step=120 checkpoint=120
report(step=0, total_epochs=60)                       step=0 total_epochs=60

``step`` counts the updates of the whole job since the beginning of its training, before restarts,
too. ``checkpoint`` is the step of a checkpoint that is complete. In a job of several workers one
of them reports: the chief, or worker 0.
"""

from __future__ import annotations

import sys
from typing import SupportsFloat


def report(
    step: int,
    *,
    epoch: int | None = None,
    checkpoint: int | None = None,
    total_steps: int | None = None,
    total_epochs: int | None = None,
    **values: SupportsFloat,
) -> None:
    """Print one line; ``values`` are numbers, arrays or tensors of one number, by their names.

    Raises:
        TypeError, ValueError: a value is not one number.
    """
    numbers = {
        "epoch": epoch,
        "step": step,
        "total_steps": total_steps,
        "total_epochs": total_epochs,
        "checkpoint": checkpoint,
    }
    parts = [f"{name}={int(number)}" for name, number in numbers.items() if number is not None]
    parts += [f"{name}={float(value):.9g}" for name, value in values.items()]
    # One write, so that lines of several threads do not mix.
    sys.stdout.write(" ".join(parts) + "\n")
    sys.stdout.flush()
