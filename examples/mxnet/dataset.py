"""A small classification problem made in the process, and which examples each worker sees at each
step.

The examples are drawn once from a seeded teacher network with noisy labels, so that nothing is
downloaded and the loss falls over hundreds of steps. Which examples make up a step depends on the
step's number and the seed alone: a job that goes on from a checkpoint, with however many workers,
sees the data in the order in which it would have seen them without the interruption.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FEATURES = 16
CLASSES = 10
_TEACHER_WIDTH = 24
_LABEL_NOISE = 0.4


@dataclass(frozen=True)
class Dataset:
    """Features of shape (examples, FEATURES), float32, and labels of shape (examples,), float32
    class numbers."""

    features: npt.NDArray[np.float32]
    labels: npt.NDArray[np.float32]
    seed: int

    @property
    def examples(self) -> int:
        """How many examples there are."""
        return len(self.labels)

    def steps_per_epoch(self, batch: int) -> int:
        """Steps of `batch` examples in one pass over the data; a last, smaller batch is left
        out."""
        return self.examples // batch

    def of_step(self, step: int, batch: int) -> npt.NDArray[np.int64]:
        """Indices, shape (batch,), of the examples of a step (counted from 1 over the whole
        job)."""
        epoch, nth = divmod(step - 1, self.steps_per_epoch(batch))
        order = np.random.default_rng([self.seed, epoch]).permutation(self.examples)
        return order[nth * batch : (nth + 1) * batch]


def make_dataset(examples: int, seed: int) -> Dataset:
    """Draw the data set: the same for the same arguments, in every process."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((examples, FEATURES))
    hidden = np.tanh(features @ rng.standard_normal((FEATURES, _TEACHER_WIDTH)))
    scores = hidden @ rng.standard_normal((_TEACHER_WIDTH, CLASSES))
    noise = _LABEL_NOISE * rng.gumbel(size=scores.shape)
    labels = np.argmax(scores + noise, axis=1)
    return Dataset(features.astype(np.float32), labels.astype(np.float32), seed)


def share(batch: int, workers: int, worker: int) -> slice:
    """Part of a global batch that one worker computes: sizes differ by at most one and add up to
    `batch`.

    Raises ValueError, with a sentence, where a worker would be left without an example.
    """
    if workers > batch:
        raise ValueError(
            f"a global batch of {batch} examples cannot be shared by {workers} workers"
        )
    whole, extra = divmod(batch, workers)
    start = worker * whole + min(worker, extra)
    return slice(start, start + whole + (1 if worker < extra else 0))
