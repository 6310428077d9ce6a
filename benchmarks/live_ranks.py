"""One rank of a light PyTorchJob: ``python -m benchmarks.live_ranks [--within N] [flags]``.

The flags are those of ``examples.light``. All ranks meet at the master's address, as those of
``torch.distributed`` do. Rank 0 then takes each step of the whole batch, sleeps what all of them
would take for it at its stated costs, logs, and saves as the light trainer does; the others wait
for its end."""

import argparse
import os
import signal
import socket
import sys
import time
from types import FrameType
from typing import Final

from examples.light.checkpoints import Checkpoint, restore, save
from examples.light.costs import Costs
from examples.light.journal import Journal, print_line
from examples.light.problem import FEATURES, Problem
from examples.light.settings import Settings, parse_settings

_AGAIN_SECONDS: Final = 0.2
_END: Final = b"end"


def step_seconds(costs: Costs, batch: int, within: float, ranks: int, servers: int) -> float:
    """The stated time of one step: the batch shared by all ranks, and an exchange by a ring, which
    takes 1 / ``within`` of the time where all ranks are on one server."""
    part = 2 * (ranks - 1) / ranks
    exchange = costs.hold_seconds(costs.model_bytes * part, 2 * (ranks - 1))
    return costs.compute_seconds(-(-batch // ranks)) + exchange / (within if servers == 1 else 1.0)


class Leader:
    """Rank 0."""

    def __init__(self, settings: Settings, seconds: float) -> None:
        self._settings, self._seconds = settings, seconds
        self._problem = Problem(settings.seed)
        assert settings.checkpoint_dir is not None, "a rank needs --checkpoint-dir"
        self._folder = settings.checkpoint_dir
        found = restore(self._folder, FEATURES).checkpoint
        self._held = found or Checkpoint(0, Problem.initial_parameters())
        self._saved_step, self._saved_at = self._held.step, time.monotonic()
        if found is not None:
            print_line(f"goes on from checkpoint={found.step}")
        self._journal = Journal(settings, self._held.step)

    def train(self) -> None:
        """Take all steps that are left."""
        last, due = self._settings.last_step, time.monotonic()
        while last is None or self._held.step < last:
            due = max(due, time.monotonic() - self._seconds) + self._seconds
            time.sleep(max(due - time.monotonic(), 0.0))
            if self._is_over_after_step():
                break
        self._save()

    def stop(self, number: int, _: FrameType | None) -> None:
        """Save, if it may, and end at once."""
        if self._settings.saves_on_stop and self._held.step > self._saved_step:
            save(self._folder, self._held)
            os.write(1, f"{self._journal.saved_line(self._held.step)}\n".encode())
        os._exit(128 + number)

    def _is_over_after_step(self) -> bool:
        settings, held = self._settings, self._held
        batch = settings.batch_size
        gradient = self._problem.gradient(held.parameters, held.step * batch, batch)
        parameters = held.parameters - settings.learning_rate * gradient.values / batch
        self._held = Checkpoint(held.step + 1, parameters)
        epoch_loss = self._journal.record(
            self._held.step, gradient.loss / batch, batch, self._seconds
        )
        every = settings.checkpoint_seconds
        if every and time.monotonic() - self._saved_at >= every:
            self._save()
        file = settings.stop_file
        return bool(epoch_loss is not None and file and file.exists() and file.stat().st_size)

    def _save(self) -> None:
        self._saved_at = time.monotonic()
        if self._held.step > self._saved_step:
            save(self._folder, self._held)
            self._saved_step = self._held.step
            self._journal.saved(self._held.step)


def main() -> None:
    """Lead the ranks, or wait for the end."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--within", type=float, default=1.0)
    own, flags = parser.parse_known_args()
    settings = parse_settings(flags)
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    master = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    node = os.environ["NODE_NAME"]
    if rank:
        sys.exit(_wait_for_end(master, node))
    with socket.create_server(master) as server:
        others = [server.accept()[0] for _ in range(ranks - 1)]
        nodes = {node, *(each.recv(256).decode() for each in others)}
        print_line(f"{ranks} ranks on {len(nodes)} servers")
        seconds = step_seconds(settings.costs, settings.batch_size, own.within, ranks, len(nodes))
        leader = Leader(settings, seconds)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, leader.stop)
        leader.train()
        for each in others:
            each.sendall(_END)


def _wait_for_end(master: tuple[str, int], node: str) -> int:
    signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    while True:
        try:
            connection = socket.create_connection(master)
        except OSError:
            time.sleep(_AGAIN_SECONDS)
            continue
        with connection:
            connection.sendall(node.encode())
            return 0 if connection.recv(len(_END)) == _END else 1


if __name__ == "__main__":
    main()
