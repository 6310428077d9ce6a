"""The PyTorch example, which writes down the examples of its steps: a line for each step, in a file
of its rank in the folder that ``NOTES`` names."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from examples.pytorch.train import Trainer, main
from optimus_trainer.shards import Piece


class Noting(Trainer):
    """A process that writes down what it trains."""

    def train_step(self, pieces: Sequence[Piece]) -> float:
        loss = super().train_step(pieces)
        spans = [(piece.begin, piece.end) for piece in pieces]
        with Path(os.environ["NOTES"], f"{self.rank}.json").open("a") as notes:
            notes.write(json.dumps([self.step, spans]) + "\n")
        return loss


main(Noting)
