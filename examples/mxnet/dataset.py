"""A small classification problem made in the process, and which examples each worker trains.

The examples are drawn once from a seeded teacher network with noisy labels, so that nothing is
downloaded and the loss falls over hundreds of steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from optimus_trainer.shards import Deal

FEATURES = 16
CLASSES = 10
_TEACHER_WIDTH = 24
_LABEL_NOISE = 0.4
PART = 400
"""Examples of a part of the data, which is dealt as a file would be."""


@dataclass(frozen=True)
class Dataset:
    """Features of shape (examples, FEATURES), float32, and labels of shape (examples,), float32
    class numbers."""

    features: npt.NDArray[np.float32]
    labels: npt.NDArray[np.float32]
    seed: int

    def steps_per_epoch(self, batch: int) -> int:
        """Whole steps of `batch` examples in one pass over the data."""
        return len(self.labels) // batch


class Reader:
    """The examples of one worker, batch by batch.

    The data are dealt in parts, as files would be, to the workers that are there: a job that goes
    on from a checkpoint, with however many, trains what is left of the epoch. `batch` is of all
    workers together. Raises ValueError, with a sentence, where a worker would be left without an
    example."""

    def __init__(
        self, data: Dataset, batch: int, worker: int, workers: int, saved: str | None
    ) -> None:
        self._worker, self._done = worker, 0
        parts = -(-len(data.labels) // PART)
        sizes = {str(part): min(PART, len(data.labels) - part * PART) for part in range(parts)}
        self._deal = Deal.begin(sizes, batch, workers, data.seed, saved)
        self._batches = iter(self._deal.batches(worker))

    @property
    def batch(self) -> int:
        """Examples of one batch of this worker."""
        return self._deal.batch_of(self._worker)

    def next(self) -> npt.NDArray[np.int64]:
        """Indices, shape (batch,), of the examples of the next step."""
        if self._done == self._deal.steps:
            self._deal, self._done = self._deal.next(), 0
            self._batches = iter(self._deal.batches(self._worker))
        self._done += 1
        pieces = next(self._batches)
        return np.concatenate(
            [int(piece.chunk) * PART + np.arange(piece.begin, piece.end) for piece in pieces]
        )

    def saved(self) -> str:
        """What is left, to be stored with a checkpoint."""
        return self._deal.saved(self._done)


def make_dataset(examples: int, seed: int) -> Dataset:
    """Draw the data set: the same for the same arguments, in every process.

    A larger one of the same seed begins with the same features and has the same teacher."""
    rng = np.random.default_rng(seed)
    first, second = (
        rng.standard_normal(shape)
        for shape in ((FEATURES, _TEACHER_WIDTH), (_TEACHER_WIDTH, CLASSES))
    )
    features = rng.standard_normal((examples, FEATURES))
    scores = np.tanh(features @ first) @ second
    noise = _LABEL_NOISE * rng.gumbel(size=scores.shape)
    labels = np.argmax(scores + noise, axis=1)
    return Dataset(features.astype(np.float32), labels.astype(np.float32), seed)
