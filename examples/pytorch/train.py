"""Train a small network with ``DistributedDataParallel``; all processes share one batch.

Every process deals the same epochs (``optimus_trainer.shards``) and takes an equal part of each
batch, in as many passes as its memory asks for (``optimus_trainer.split``). Rank 0 saves the model,
the optimizer, the step and what is left of the epoch; any number of processes goes on from there.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from optimus_trainer.report import report
from optimus_trainer.save_on_stop import SaveOnStop
from optimus_trainer.shards import Deal, Piece
from optimus_trainer.split import split_batch

_FEATURES, _CLASSES, _LOG_STEPS = 64, 10, 5


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The flags."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--batch", type=int, default=128, help="examples of a step, of all processes together")
    add("--most", type=int, default=64, help="examples that fit the memory of a process at once")
    add("--examples", type=int, default=6400, help="of an epoch")
    add("--steps", type=int, default=1000)
    add("--example-seconds", type=float, default=0.0, help="added to what an example takes")
    add("--checkpoint-steps", type=int, default=50)
    add("--checkpoint-dir", type=Path, default=Path("checkpoints"))
    add("--stop-file", type=Path, default=Path("goal-met"), help="ends once it has content")
    return parser.parse_args(arguments)


class Trainer:
    """One process of the job."""

    def __init__(self, options: argparse.Namespace) -> None:
        import torch  # type: ignore[import-not-found]  # lives only in the environment of this example

        self.torch, self.options = torch, options
        torch.distributed.init_process_group("gloo")
        self.rank = torch.distributed.get_rank()
        self.workers = torch.distributed.get_world_size()
        self.split = split_batch(options.batch, options.most)
        torch.manual_seed(0)
        self.inputs = torch.randn(options.examples, _FEATURES)
        self.labels = (self.inputs @ torch.randn(_FEATURES, _CLASSES)).argmax(1)
        layers = torch.nn.Linear(_FEATURES, 128), torch.nn.ReLU(), torch.nn.Linear(128, _CLASSES)
        self.model = torch.nn.Sequential(*layers)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.path = options.checkpoint_dir / "latest.pt"
        saved = torch.load(self.path) if self.path.exists() else None
        if saved is not None:
            self.model.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
        self.step = 0 if saved is None else int(saved["step"])
        text = None if saved is None else saved["deal"]
        chunks = {"all": options.examples}
        self.deal, self.done = Deal.begin(chunks, options.batch, self.workers, saved=text), 0
        self.parallel = torch.nn.parallel.DistributedDataParallel(self.model)
        print(f"restored step {self.step} world {self.workers}", flush=True)

    def train_step(self, pieces: Sequence[Piece]) -> float:
        """Take one step; returns the mean loss of this process's examples."""
        at = [number for piece in pieces for number in range(piece.begin, piece.end)]
        self.optimizer.zero_grad()
        total = 0.0
        for number in range(self.split.passes):
            last = number + 1 == self.split.passes
            with contextlib.nullcontext() if last else self.parallel.no_sync():
                now = at[number * self.split.at_once :][: self.split.at_once]
                found = self.parallel(self.inputs[now])
                loss = self.torch.nn.functional.cross_entropy(found, self.labels[now])
                (loss / self.split.passes).backward()
                total += float(loss) / self.split.passes
        time.sleep(self.options.example_seconds * len(at))
        self.optimizer.step()
        self.step, self.done = self.step + 1, self.done + 1
        return total

    def save(self) -> None:
        """Save what is needed to go on, if this is rank 0."""
        if self.rank:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        state: dict[str, Any] = {"step": self.step, "deal": self.deal.saved(self.done)}
        state |= {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        new = self.path.with_suffix(".new")
        self.torch.save(state, new)
        new.replace(self.path)
        report(step=self.step, checkpoint=self.step)

    def is_over(self) -> bool:
        """Whether all processes are to end: rank 0 sees that the goal is met."""
        file = self.options.stop_file
        met = self.rank == 0 and file.exists() and file.stat().st_size > 0
        told = self.torch.tensor([float(met)])
        self.torch.distributed.broadcast(told, 0)
        return bool(told) or self.step >= self.options.steps

    def train(self, stop: SaveOnStop) -> None:
        """Train until the steps are done, or the goal is met."""
        while True:
            for pieces in self.deal.batches(self.rank):
                loss = self.train_step(pieces)
                if stop.told and self.rank == 0:
                    self.save()
                    stop.leave()
                if self.step % _LOG_STEPS == 0:
                    if self.rank == 0:
                        report(step=self.step, epoch=self.deal.epoch, loss=loss)
                    if self.is_over():
                        return self.save()
                if self.step % self.options.checkpoint_steps == 0:
                    self.save()
            self.deal, self.done = self.deal.next(), 0


def main(made: type[Trainer] = Trainer) -> None:
    """Train as the flags say."""
    options = parse_arguments()
    # Rank 0 ends its step before it saves, for which it needs the others.
    stop = SaveOnStop() if os.environ.get("RANK", "0") == "0" else SaveOnStop(seconds=10)
    trainer = made(options)
    trainer.train(stop)
    trainer.torch.distributed.barrier()  # nobody's connection is closed under another's last step


if __name__ == "__main__":
    main()
