"""Deal an epoch's data to the workers that are there, and remember what is done of it.

A job whose workers change must not train some examples twice and others never. The data are chunks
(files, parts of a RecordIO file) of known numbers of examples. All workers make the same deal, by
themselves; each reads its pieces, in order, a batch at a time:

    deal = Deal.begin({"part-0": 5000, "part-1": 4800}, batch=128, workers=kvstore.num_workers)
    done = 0                                               # steps of this deal
    while training:
        for batch in read(deal.pieces(rank), deal.batch_of(rank)):
            train(batch)
            done += 1
            if time_to_save:
                save(model, deal.saved(done))              # a text, to be kept with the checkpoint
        deal, done = deal.next(), 0                        # the next epoch

After a restart ``saved=text`` deals what was left to the workers that are there now. In synchronous
training each example of an epoch is then trained once, whatever the number of workers did and
whoever was killed: steps after the last checkpoint are not in the model, and their examples are
dealt again. In asynchronous training ``done`` is the job's steps divided by the number of workers:
workers that are slower than the others have the more of their examples trained twice, or not at all
in that epoch.

Examples within a piece are read in order: an order mixed by a buffer is off by that buffer.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Iterable, Mapping, NamedTuple, Sequence


class Piece(NamedTuple):
    """Examples ``begin`` to ``end``, the latter excluded, of a chunk."""

    chunk: str
    begin: int
    end: int

    @property
    def examples(self) -> int:
        """How many there are."""
        return self.end - self.begin


class Deal:
    """What is left of an epoch, dealt to a number of workers in whole steps.

    Each step has ``batch`` examples of all workers together. What is left for less than a step is
    dealt first in the next epoch.
    """

    def __init__(
        self,
        chunks: Mapping[str, int],
        batch: int,
        workers: int,
        seed: int,
        epoch: int,
        left: Sequence[Piece],
    ) -> None:
        if not 1 <= workers <= batch:
            raise ValueError(f"a batch of {batch} cannot be shared by {workers} workers")
        self._chunks, self._batch, self._workers, self._seed = chunks, batch, workers, seed
        while _examples(left) < batch:
            epoch += 1
            left = [*left, *_of_epoch(chunks, seed, epoch)]
        self.epoch = epoch
        """The pass over the data that is dealt, counted from 0."""
        self.steps = _examples(left) // batch
        """Steps of this deal."""
        self._left = _joined(left)
        sizes = [self.batch_of(worker) * self.steps for worker in range(workers)]
        *self._shares, self._rest = _split(self._left, sizes)

    @classmethod
    def begin(
        cls,
        chunks: Mapping[str, int],
        batch: int,
        workers: int,
        seed: int = 0,
        saved: str | None = None,
    ) -> Deal:
        """The first deal of a job, or the one after the checkpoint with this text.

        Raises:
            ValueError: no worker, more of them than examples in a batch, no example, or a text of
                other data.
        """
        if sum(chunks.values()) < 1:
            raise ValueError("there are no examples")
        if saved is None:
            return cls(chunks, batch, workers, seed, -1, [])
        try:
            stored = json.loads(saved)
            epoch, left = int(stored["epoch"]), [Piece(*piece) for piece in stored["left"]]
        except (ValueError, TypeError, KeyError):
            raise ValueError("the checkpoint holds no deal of this module") from None
        for piece in left:
            if piece.end > chunks.get(piece.chunk, 0):
                raise ValueError(f"the checkpoint is of other data: it names {piece}")
        return cls(chunks, batch, workers, seed, epoch, left)

    def next(self) -> Deal:
        """The deal after this one."""
        return Deal(self._chunks, self._batch, self._workers, self._seed, self.epoch, self._rest)

    def batch_of(self, worker: int) -> int:
        """Examples of a step of one worker; they differ by at most one."""
        whole, more = divmod(self._batch, self._workers)
        return whole + (worker < more)

    def pieces(self, worker: int) -> list[Piece]:
        """What one worker reads, in order: ``steps`` batches."""
        return list(self._shares[worker])

    def batches(self, worker: int) -> list[list[Piece]]:
        """The same, batch by batch."""
        return _split(self._shares[worker], [self.batch_of(worker)] * self.steps)[:-1]

    def saved(self, steps: int) -> str:
        """What is left after so many steps of this deal, as text."""
        left: list[Piece] = []
        for worker, share in enumerate(self._shares):
            left += _split(share, [steps * self.batch_of(worker)])[1]
        return json.dumps({"epoch": self.epoch, "left": _joined([*left, *self._rest])})


def _of_epoch(chunks: Mapping[str, int], seed: int, epoch: int) -> list[Piece]:
    """All examples, in an order of chunks that depends on the seed and the epoch alone."""

    def key(chunk: str) -> Any:
        return hashlib.sha256(f"{seed}/{epoch}/{chunk}".encode()).digest()

    return [Piece(chunk, 0, chunks[chunk]) for chunk in sorted(chunks, key=key)]


def _examples(pieces: Iterable[Piece]) -> int:
    return sum(piece.examples for piece in pieces)


def _split(pieces: Sequence[Piece], sizes: Sequence[int]) -> list[list[Piece]]:
    """Cut a row of pieces into rows of these numbers of examples, and what is left of it."""
    rows: list[list[Piece]] = []
    rest = [piece for piece in reversed(pieces) if piece.examples]
    for size in sizes:
        row: list[Piece] = []
        lacking = size
        while lacking > 0 and rest:
            chunk, begin, end = rest.pop()
            cut = min(end, begin + lacking)
            row.append(Piece(chunk, begin, cut))
            lacking -= cut - begin
            if cut < end:
                rest.append(Piece(chunk, cut, end))
        rows.append(row)
    return [*rows, rest[::-1]]


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Neighbours that follow one another in a chunk become one piece."""
    joined: list[Piece] = []
    for piece in pieces:
        if joined and joined[-1].chunk == piece.chunk and joined[-1].end == piece.begin:
            joined[-1] = Piece(piece.chunk, joined[-1].begin, piece.end)
        else:
            joined.append(piece)
    return joined
