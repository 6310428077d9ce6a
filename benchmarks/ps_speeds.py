"""Speeds of real parameter-server training:
``OMP_NUM_THREADS=1 python -m benchmarks.ps_speeds [--setups mlp,ctr] [--side 6] [--output DIR]``.

Needs numpy alone. Each PS and each worker is a process of its own, pinned to a core; PSs share one
in pairs. A worker draws examples, computes gradients (``benchmarks.ps_networks``), pushes to each
PS over TCP what it holds, and waits for the new values. In sync training a PS updates once all
workers have pushed, in async training after each push. What a process sends and what it receives
are each held to the speed of its link, so that transfers take their time on one machine. One run
for each pair of counts; several runs at a time where the cores suffice. Each setup becomes one
table ``mode,ps,workers,speed,batch`` for ``optimus evaluate speed``: the speed is the workers' mean
in sync and their sum in async training."""

import argparse
import math
import multiprocessing
import os
import queue
import socket
import statistics
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path

import numpy as np

from benchmarks.ps_networks import Array, Convolutions, Embedding, Network, Perceptron

FRAME = struct.Struct("!II")
WARM_STEPS, FEWEST_STEPS = 2, 5
STUCK_SECONDS = 60.0
CREDIT_SECONDS = 0.002
"""A link that was idle for so long may send at once what it missed: sleeps are not exact."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A network and how it is trained; ``batch`` is the job's in sync, a worker's in async."""

    network: Network
    sync: bool
    batch: int
    megabits: float
    split: bool = True
    """Blocks are cut evenly over the PSs; else each goes whole to the PS with the least."""
    messages: bool = False
    """Each block travels in a message of its own."""
    moments: bool = False
    """PSs update as Adam does, else by the gradient alone."""


_MLP = Perceptron((256, 384, 384, 10))
_CNN = Convolutions(16, (3, 16, 32))
_CTR = Embedding(16_000, 16, 8, (64,))
_WIDE = Perceptron((256, 768, 256, 10))
_DEEP = Perceptron((64, *[64] * 23, 10))
SETUPS: Mapping[str, Setup] = {
    "mlp": Setup(_MLP, sync=True, batch=1024, megabits=600),
    "cnn": Setup(_CNN, sync=True, batch=192, megabits=200),
    "ctr": Setup(_CTR, sync=True, batch=9216, megabits=800, split=False),
    "wide": Setup(_WIDE, sync=True, batch=192, megabits=1000, moments=True),
    "deep": Setup(_DEEP, sync=True, batch=2048, megabits=400, split=False, messages=True),
    "mlp_async": Setup(_MLP, sync=False, batch=256, megabits=600),
    "wide_async": Setup(_WIDE, sync=False, batch=96, megabits=1000, moments=True),
    "cnn_async": Setup(_CNN, sync=False, batch=64, megabits=200),
}
"""Computing and transfer alike; computing alone; one block that is nearly all; transfer alone, with
PSs that compute; many small blocks."""


def main() -> None:
    """Measure each setup and write its table as soon as it is complete."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--setups", default=",".join(SETUPS))
    parser.add_argument("--side", type=int, default=6, help="most PSs, and most workers")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each run, at least")
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds for all tables")
    parser.add_argument("--output", type=Path, default=Path())
    given = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":
        parser.error("set OMP_NUM_THREADS=1, so that a worker computes on its own core alone")
    given.output.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + given.limit
    for name in given.setups.split(","):
        began = time.monotonic()
        speeds = measure(SETUPS[name], given.side, given.seconds, until)
        write(given.output / f"{name}.csv", SETUPS[name], speeds)
        took = time.monotonic() - began
        print(f"{name}: {len(speeds)} of {given.side**2} in {took:.1f} s", flush=True)


def write(file: Path, setup: Setup, speeds: Mapping[tuple[int, int], float]) -> None:
    """A table as ``optimus evaluate speed`` takes it."""
    mode = "sync" if setup.sync else "async"
    rows = [f"{mode},{p},{w},{speeds[p, w]:.5g},{setup.batch}" for p, w in sorted(speeds)]
    file.write_text("\n".join(["mode,ps,workers,speed,batch", *rows, ""]))


def measure(setup: Setup, side: int, seconds: float, until: float) -> dict[tuple[int, int], float]:
    """The speed at all counts up to ``side``, as many runs at a time as there are cores."""
    cores, speeds = sorted(os.sched_getaffinity(0)), dict[tuple[int, int], float]()
    waiting = [(p, w) for p in range(1, side + 1) for w in range(1, side + 1)]
    waiting.sort(key=lambda counts: -cores_of(*counts))
    running: list[Run] = []
    while (waiting and time.monotonic() < until) or running:
        begun = [each for each in waiting if time.monotonic() < until]
        for counts in begun:
            needs = cores_of(*counts)
            if needs <= len(cores) or not running:
                own, cores = cores[:needs], cores[needs:]
                running.append(Run.start(setup, counts, own, seconds))
                waiting.remove(counts)
        ready = wait([run.reports[0] for run in running], STUCK_SECONDS)
        if not ready:
            sys.exit(f"no run ended within {STUCK_SECONDS} s")
        for run in [each for each in running if each.reports[0] in ready]:
            speeds[run.counts] = run.end(setup)
            running.remove(run)
            cores += run.cores
    return speeds


def cores_of(ps: int, workers: int) -> int:
    """The cores of a run: a worker has one, two PSs share one."""
    return (ps + 1) // 2 + workers


@dataclass(frozen=True, slots=True)
class Run:
    """The processes of one pair of counts, and where its workers report."""

    counts: tuple[int, int]
    cores: list[int]
    processes: list[ForkProcess]
    reports: list[Connection]

    @classmethod
    def start(
        cls, setup: Setup, counts: tuple[int, int], cores: list[int], seconds: float
    ) -> "Run":
        """Start all processes; where cores are too few, several processes share one."""
        context, (ps, workers) = multiprocessing.get_context("fork"), counts
        listeners = [socket.create_server(("127.0.0.1", 0), backlog=64) for _ in range(ps)]
        run, places = cls(counts, cores, [], []), place(setup, ps)
        addresses = [each.getsockname() for each in listeners]
        for number, listener in enumerate(listeners):
            core = cores[number // 2 % len(cores)]
            arguments = (setup, listener, places[number], workers, core)
            run.processes.append(context.Process(target=serve, args=arguments, daemon=True))
        for number in range(workers):
            core = cores[((ps + 1) // 2 + number) % len(cores)]
            ours, theirs = context.Pipe(duplex=False)
            run.reports.append(ours)
            share = setup.batch // workers + (number < setup.batch % workers)
            worker = Worker(setup, places, share if setup.sync else setup.batch, number)
            target = partial(until_gone, partial(train, worker, addresses, theirs, (core, seconds)))
            run.processes.append(context.Process(target=target, daemon=True))
        for process in run.processes:
            process.start()
        for listener in listeners:
            listener.close()
        return run

    def end(self, setup: Setup) -> float:
        """The job's steps per second, once all workers have reported; ends the processes."""
        rates: list[float] = [report.recv() for report in self.reports]
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()
        return statistics.mean(rates) if setup.sync else sum(rates)


Part = tuple[int, int, int]
"""A block's number, and where the part begins and ends in it."""


def place(setup: Setup, ps: int) -> list[list[list[Part]]]:
    """What each PS holds: messages, each of parts of blocks."""
    sizes = [each.size for each in setup.network.parameters(np.random.default_rng(0))]
    held: list[list[Part]] = [[] for _ in range(ps)]
    loads = [0] * ps
    for block in sorted(range(len(sizes)), key=lambda block: -sizes[block]):
        if setup.split:
            ends = [sizes[block] * number // ps for number in range(ps + 1)]
            for number in range(ps):
                held[number].append((block, ends[number], ends[number + 1]))
        else:
            least = loads.index(min(loads))
            held[least].append((block, 0, sizes[block]))
            loads[least] += sizes[block]
    return [[[part] for part in parts] if setup.messages else [parts] for parts in held]


class Link:
    """One direction of a process's link: what passes is held to its speed."""

    def __init__(self, megabits: float) -> None:
        self._second = megabits * 1e6 / 8
        self._lock, self._free = threading.Lock(), 0.0
        self.chunk = min(max(int(self._second * 0.001), 8192), 131_072)

    def send(self, connection: socket.socket, data: memoryview) -> None:
        """Send all of it, chunk by chunk, in turn with the other threads."""
        for begin in range(0, len(data), self.chunk):
            piece = data[begin : begin + self.chunk]
            self._pass(len(piece))
            connection.sendall(piece)

    def receive(self, connection: socket.socket, count: int) -> bytearray:
        """So many bytes; ``ConnectionError`` where the other side is gone."""
        whole = bytearray(count)
        data = memoryview(whole)
        begin = 0
        while begin < len(data):
            got = connection.recv_into(data[begin : begin + self.chunk])
            if not got:
                raise ConnectionResetError
            self._pass(got)
            begin += got
        return whole

    def _pass(self, count: int) -> None:
        with self._lock:
            now = time.monotonic()
            begin = max(self._free, now - CREDIT_SECONDS)
            self._free = begin + count / self._second
            ahead = self._free - now
        if ahead > 0:
            time.sleep(ahead)


def tune(connection: socket.socket) -> None:
    """Small buffers, so that who receives slowly slows who sends."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        connection.setsockopt(socket.SOL_SOCKET, option, 65_536)


class Held:
    """One message's parameters on a PS, and what was pushed to them."""

    def __init__(self, values: Array, workers: int, moments: bool) -> None:
        self.values = values
        self._sum, self._pushed, self._workers = np.zeros_like(values), 0, workers
        self._moments = (np.zeros_like(values), np.zeros_like(values)) if moments else None
        self._lock = threading.Lock()

    def push(self, gradient: Array) -> bytes | None:
        """The new values once all of ``workers`` have pushed."""
        with self._lock:
            self._sum += gradient
            self._pushed += 1
            if self._pushed < self._workers:
                return None
            self._update(self._sum / np.float32(self._workers))
            self._sum[:], self._pushed = 0, 0
            return self.values.tobytes()

    def _update(self, gradient: Array) -> None:
        if self._moments is not None:
            mean, square = self._moments
            mean += np.float32(0.1) * (gradient - mean)
            square += np.float32(0.001) * (gradient * gradient - square)
            gradient = np.asarray(mean / (np.sqrt(square) + np.float32(1e-3)), dtype=np.float32)
        self.values -= np.float32(0.01) * gradient


@dataclass(slots=True)
class Server:
    """A PS: a thread for each worker receives, another one answers."""

    setup: Setup
    held: list[Held]
    link_in: Link
    link_out: Link
    queues: list["queue.SimpleQueue[tuple[int, bytes]]"] = field(default_factory=list)

    def receive(self, connection: socket.socket, own: int) -> None:
        """Take in what one worker pushes."""
        while True:
            number, size = FRAME.unpack(self.link_in.receive(connection, FRAME.size))
            data = self.link_in.receive(connection, size)
            values = self.held[number].push(np.frombuffer(data, np.float32))
            if values is not None:
                to = self.queues if self.setup.sync else [self.queues[own]]
                for each in to:
                    each.put((number, values))

    def answer(self, connection: socket.socket, own: int) -> None:
        """Send one worker what is new."""
        while True:
            number, values = self.queues[own].get()
            frame = FRAME.pack(number, len(values)) + values
            self.link_out.send(connection, memoryview(frame))


def serve(
    setup: Setup, listener: socket.socket, messages: list[list[Part]], workers: int, core: int
) -> None:
    """A PS's process: runs until it is killed."""
    os.sched_setaffinity(0, {core})
    blocks = setup.network.parameters(np.random.default_rng(0))
    awaited = workers if setup.sync else 1
    held = [Held(gather(blocks, parts), awaited, setup.moments) for parts in messages]
    server = Server(setup, held, Link(setup.megabits), Link(setup.megabits))
    connections = [listener.accept()[0] for _ in range(workers)]
    server.queues = [queue.SimpleQueue() for _ in range(workers)]
    for own, connection in enumerate(connections):
        tune(connection)
        for run in (server.receive, server.answer):
            target = partial(until_gone, partial(run, connection, own))
            threading.Thread(target=target, daemon=True).start()
    threading.Event().wait()


def until_gone(run: Callable[[], None]) -> None:
    """Processes are killed one after another: the last ones find the others gone."""
    with suppress(ConnectionError):
        run()


def gather(blocks: Sequence[Array], parts: Sequence[Part]) -> Array:
    """The parts as one vector."""
    pieces = [blocks[block].ravel()[begin:end] for block, begin, end in parts]
    return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)


def scatter(blocks: Sequence[Array], parts: Sequence[Part], values: Array) -> None:
    """Put a vector's values where its parts belong."""
    at = 0
    for block, begin, end in parts:
        blocks[block].reshape(-1)[begin:end] = values[at : at + end - begin]
        at += end - begin


@dataclass(frozen=True, slots=True)
class Worker:
    """What a worker's process is told."""

    setup: Setup
    places: list[list[list[Part]]]
    examples: int
    number: int


def train(
    worker: Worker, addresses: list[tuple[str, int]], report: Connection, where: tuple[int, float]
) -> None:
    """A worker's process: trains until it is killed, and reports its steps per second once.

    ``where``: its core, and for how many seconds it measures."""
    core, seconds = where
    os.sched_setaffinity(0, {core})
    rng, setup = np.random.default_rng([1, worker.number]), worker.setup
    blocks = setup.network.parameters(np.random.default_rng(0))
    connections = [socket.create_connection(each) for each in addresses]
    for connection in connections:
        tune(connection)
    links = Link(setup.megabits), Link(setup.megabits)
    with ThreadPoolExecutor(len(connections)) as pool:
        ends = list[float]()
        while True:
            gradients = setup.network.gradients(blocks, rng, worker.examples)
            transfers = [
                pool.submit(exchange, connection, links, messages, (gradients, blocks))
                for connection, messages in zip(connections, worker.places, strict=True)
            ]
            for transfer in transfers:
                transfer.result()
            ends.append(time.monotonic())
            measured = ends[WARM_STEPS - 1 :]
            if len(measured) > FEWEST_STEPS and measured[-1] - measured[0] >= seconds:
                report.send((len(measured) - 1) / (measured[-1] - measured[0]))
                seconds = math.inf


def exchange(
    connection: socket.socket,
    links: tuple[Link, Link],
    messages: list[list[Part]],
    arrays: tuple[list[Array], list[Array]],
) -> None:
    """Push one PS's part of the gradients and take its new values."""
    (link_in, link_out), (gradients, blocks) = links, arrays
    for number, parts in enumerate(messages):
        data = gather(gradients, parts).tobytes()
        link_out.send(connection, memoryview(FRAME.pack(number, len(data)) + data))
    for _ in messages:
        number, size = FRAME.unpack(link_in.receive(connection, FRAME.size))
        values = np.frombuffer(link_in.receive(connection, size), np.float32)
        scatter(blocks, messages[number], values)


if __name__ == "__main__":
    main()
