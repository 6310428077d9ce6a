"""The log lines of a trainer, in Katib's name=value form, with a UTC time in front.

A line's loss is the mean over the steps since the line before; lines come on the first step of a
run, every so many steps or seconds, and at the end of an epoch. Epochs count from 1.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from examples.light.problem import INITIAL_LOSS
from examples.light.settings import Settings

Print = Callable[[str], None]


def timed(text: str) -> str:
    """The text with the UTC time in front."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return f"{now} {text}"


def print_line(text: str) -> None:
    """Print a line with the UTC time in front, at once."""
    print(timed(text), flush=True)


def accuracy_of(loss: float) -> float:
    """The part of the labels' variance that is explained."""
    return max(1.0 - loss / INITIAL_LOSS, 0.0)


class _Mean:
    def __init__(self) -> None:
        self._sum, self._count = 0.0, 0

    def add(self, value: float) -> None:
        self._sum += value
        self._count += 1

    def take(self) -> float:
        """Return the mean of what was added and start over."""
        mean = self._sum / max(self._count, 1)
        self._sum, self._count = 0.0, 0
        return mean


class Journal:
    """Collects the steps of one trainer and prints its lines."""

    def __init__(self, settings: Settings, step: int, write: Print = print_line) -> None:
        self._settings = settings
        self._write = write
        self._last_step = step
        self._line_loss, self._epoch_loss = _Mean(), _Mean()
        self._line_compute = _Mean()
        self._own_examples = 0
        self._line_at_seconds = time.monotonic()
        self._first = True
        self.checkpoint_step: int | None = None
        """Step of the newest complete checkpoint, where this trainer knows it."""

    def record(
        self, step: int, loss: float, own_examples: int, compute_seconds: float
    ) -> float | None:
        """Take a step in; return the mean loss of the epoch when the step completed one.

        `compute_seconds`: how long this trainer computed in it, without waiting for the others."""
        self._line_loss.add(loss)
        self._line_compute.add(compute_seconds)
        self._epoch_loss.add(loss)
        self._own_examples += own_examples
        epoch_over = self._epochs_done(step) > self._epochs_done(self._last_step)
        if epoch_over or self._first or self._line_due(step):
            self._print(step)
        self._last_step, self._first = step, False
        return self._epoch_loss.take() if epoch_over else None

    def saved(self, step: int) -> None:
        """Say that the checkpoint of that step is complete."""
        self.checkpoint_step = step
        self._write(self.saved_line(step))

    def saved_line(self, step: int) -> str:
        """What says that the checkpoint of that step is complete."""
        return f"epoch={self._epoch(step)} step={step} checkpoint={step}"

    def _line_due(self, step: int) -> bool:
        steps, seconds = self._settings.log_steps, self._settings.log_seconds
        by_steps = steps > 0 and step // steps > self._last_step // steps
        return by_steps or (seconds > 0 and time.monotonic() - self._line_at_seconds >= seconds)

    def _print(self, step: int) -> None:
        now = time.monotonic()
        speed = self._own_examples / max(now - self._line_at_seconds, 1e-6)
        saved = "" if self.checkpoint_step is None else f" checkpoint={self.checkpoint_step}"
        loss = self._line_loss.take()
        accuracy = f"accuracy={accuracy_of(loss):.6f} " if self._settings.log_accuracy else ""
        self._write(
            f"epoch={self._epoch(step)} step={step} loss={loss:.6f} {accuracy}"
            f"samples_per_sec={speed:.1f} compute_seconds={self._line_compute.take():.4f}{saved}"
        )
        self._own_examples, self._line_at_seconds = 0, now

    def _epochs_done(self, step: int) -> int:
        return step * self._settings.batch_size // self._settings.examples_per_epoch

    def _epoch(self, step: int) -> int:
        return max(step * self._settings.batch_size - 1, 0) // self._settings.examples_per_epoch + 1
