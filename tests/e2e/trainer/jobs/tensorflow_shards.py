"""Read TFRecord files by deals of workers that change: `python tensorflow_shards.py FOLDER`.

Prints how often each example was read, with what is left added, and the passes over the data."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]  # lives only in the environment of a framework

from optimus_trainer.shards import Deal

SIZES = (50, 7, 120, 33)
RUNS = ((2, 9, 3), (3, 4, 0), (1, 11, 2), (4, 6, 1), (2, 20, 0))
"""Workers, steps until the last checkpoint, steps that are lost."""


def _write(folder: Path) -> dict[str, int]:
    chunks, number = {}, 0
    for part, size in enumerate(SIZES):
        path = str(folder / f"part-{part}.tfrecord")
        with tf.io.TFRecordWriter(path) as writer:
            for _ in range(size):
                writer.write(str(number).encode())
                number += 1
        chunks[path] = size
    return chunks


def dataset(deal: Deal, worker: int) -> Any:
    """The batches of one worker."""
    chunks, begins, counts = zip(
        *((piece.chunk, piece.begin, piece.examples) for piece in deal.pieces(worker)), strict=True
    )
    pieces = tf.data.Dataset.from_tensor_slices((list(chunks), list(begins), list(counts)))
    read = pieces.flat_map(
        lambda chunk, begin, count: (
            tf.data.TFRecordDataset(chunk)
            .skip(tf.cast(begin, tf.int64))
            .take(tf.cast(count, tf.int64))
        )
    )
    return read.batch(deal.batch_of(worker), drop_remainder=True)


def main() -> None:
    """Play the runs."""
    chunks = _write(Path(sys.argv[1]))
    firsts = {path: sum(SIZES[:number]) for number, path in enumerate(chunks)}
    counts: Counter[int] = Counter()
    saved = None
    for workers, kept, lost in RUNS:
        deal, done = Deal.begin(chunks, 13, workers, saved=saved), 0
        readers = [iter(dataset(deal, worker)) for worker in range(workers)]
        for step in range(kept + lost):
            if done == deal.steps:
                deal, done = deal.next(), 0
                readers = [iter(dataset(deal, worker)) for worker in range(workers)]
            examples = [int(text) for reader in readers for text in next(reader).numpy()]
            assert len(examples) == 13
            done += 1
            if step < kept:
                counts.update(examples)
                saved = deal.saved(done)
    stored = json.loads(saved or "")
    for chunk, begin, end in stored["left"]:
        counts.update(range(firsts[chunk] + begin, firsts[chunk] + end))
    found = [counts[number] for number in range(sum(SIZES))]
    print(json.dumps({"counts": found, "passes": stored["epoch"] + 1}), flush=True)


main()
