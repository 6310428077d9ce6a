"""The write rate that the embedded API server sustains: ``python -m benchmarks.embedded_writes``.

Pods are created and their status patched, over a few connections, at a steady rate (0: as fast as
possible), while watchers in a process of their own follow all pods. Every object carries the
instant of its write, from which a watcher gets the delay. The result is one JSON object, with the
share of a core that the server used."""

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import numpy as np

from localcluster.ports import pick_ports

_PODS: Final = "/api/v1/namespaces/default/pods"
_MARK: Final = b'"written-at":"'
_SAMPLED: Final = 25
_READY_SECONDS: Final = 600.0
_SETTLE_SECONDS: Final = 1.0


def main() -> None:
    """Run once and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rate", type=float, default=1000.0, help="writes a second; 0 for as many as it takes"
    )
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--watchers", type=int, default=20)
    parser.add_argument("--connections", type=int, default=16)
    options = parser.parse_args()
    with served() as (port, process):
        ours, theirs = multiprocessing.Pipe()
        watching = multiprocessing.Process(
            target=watch, args=(port, options.watchers, theirs), daemon=True
        )
        watching.start()
        ours.recv()
        before = cpu_seconds(process.pid)
        written = asyncio.run(write(port, options.rate, options.seconds, options.connections))
        used = cpu_seconds(process.pid) - before
        time.sleep(_SETTLE_SECONDS)
        ours.send("done")
        received = ours.recv()
        watching.join()
    print(json.dumps(result(options, written, received, used), indent=1))


@dataclass
class Written:
    """Counts and latencies of the writers."""

    count: int = 0
    refused: int = 0
    seconds: float = 0.0
    latencies_seconds: list[float] = field(default_factory=list)


def result(
    options: argparse.Namespace, written: Written, received: dict[str, Any], used_seconds: float
) -> dict[str, Any]:
    """Return the figures by name; milliseconds are rounded to hundredths."""
    return {
        "asked_rate": options.rate,
        "writes": written.count,
        "refused": written.refused,
        "seconds": round(written.seconds, 2),
        "writes_per_second": round(written.count / written.seconds, 1),
        "write_p50_ms": percentile(written.latencies_seconds, 50),
        "write_p99_ms": percentile(written.latencies_seconds, 99),
        "watchers": options.watchers,
        "events_expected": written.count * options.watchers,
        "events_received": received["events"],
        "received_after_p50_ms": percentile(received["delays_seconds"], 50),
        "received_after_p99_ms": percentile(received["delays_seconds"], 99),
        "server_cpu_share": round(used_seconds / written.seconds, 3),
        "cores": os.cpu_count(),
    }


def percentile(seconds: list[float], which: float) -> float | None:
    """Return a percentile in milliseconds; None of nothing."""
    return round(float(np.percentile(seconds, which)) * 1000, 2) if seconds else None


@contextmanager
def served() -> Iterator[tuple[int, "subprocess.Popen[bytes]"]]:
    """Run a server of its own for the time of the block."""
    (port,) = pick_ports(1, random.Random())
    process = subprocess.Popen(
        [sys.executable, "-m", "localcluster.embedded.apiserver", "--port", str(port)]
    )
    try:
        wait_ready(port)
        yield port, process
    finally:
        process.terminate()
        process.wait()


def wait_ready(port: int) -> None:
    """Wait for the server to answer."""
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def write(port: int, rate: float, seconds: float, connections: int) -> Written:
    """Write for a while: each connection its share of the rate."""
    written = Written()
    began = time.monotonic()
    share = connections / rate if rate else 0.0
    await asyncio.gather(
        *(_writer(port, number, share, began + seconds, written) for number in range(connections))
    )
    written.seconds = time.monotonic() - began
    return written


async def _writer(
    port: int, number: int, pause_seconds: float, until: float, written: Written
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    due, turn = time.monotonic(), 0
    while time.monotonic() < until:
        began = time.monotonic()
        writer.write(_request(f"writer-{number}-{turn // 2}", patch=turn % 2 == 1))
        ok = await _is_ok(reader)
        written.latencies_seconds.append(time.monotonic() - began)
        written.count += ok
        written.refused += not ok
        turn += 1
        due += pause_seconds
        await asyncio.sleep(max(0.0, due - time.monotonic()))
    writer.close()


def _request(name: str, *, patch: bool) -> bytes:
    metadata = {"name": name, "annotations": {"written-at": f"{time.monotonic():.6f}"}}
    if patch:
        conditions = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "no room",
            }
        ]
        body: dict[str, Any] = {"metadata": metadata, "status": {"conditions": conditions}}
        head = f"PATCH {_PODS}/{name}/status HTTP/1.1\r\nContent-Type: application/merge-patch+json"
    else:
        container = {
            "name": "c",
            "image": "busybox:1",
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        }
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"containers": [container]},
        }
        head = f"POST {_PODS} HTTP/1.1\r\nContent-Type: application/json"
    data = json.dumps(body).encode()
    return f"{head}\r\nHost: 127.0.0.1\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


async def _is_ok(reader: asyncio.StreamReader) -> bool:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
    )
    await reader.readexactly(int(length.partition(b":")[2]))
    return head.split(b" ", 2)[1] in {b"200", b"201"}


def watch(port: int, watchers: int, pipe: Connection) -> None:
    """Follow all pods with so many watchers until the pipe says to end; send what was received."""
    asyncio.run(_watch(port, watchers, pipe))


async def _watch(port: int, watchers: int, pipe: Connection) -> None:
    received: dict[str, Any] = {"events": 0, "delays_seconds": []}
    opened = [
        await asyncio.open_connection("127.0.0.1", port, limit=1 << 24) for _ in range(watchers)
    ]
    for _, writer in opened:
        writer.write(f"GET {_PODS}?watch=true HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    for reader, _ in opened:
        await reader.readuntil(b"\r\n\r\n")
    pipe.send("watching")
    following = [asyncio.ensure_future(_follow(reader, received)) for reader, _ in opened]
    await asyncio.to_thread(pipe.recv)
    for task in following:
        task.cancel()
    pipe.send(received)


async def _follow(reader: asyncio.StreamReader, received: dict[str, Any]) -> None:
    """Count the events of one watcher, and measure the delay of every few."""
    count, rest = 0, b""
    while piece := await reader.read(1 << 20):
        piece = rest + piece
        rest = piece[1 - len(_MARK) :]  # a mark may come in two halves
        found = piece.count(_MARK)
        received["events"] += found
        count += found
        if count >= _SAMPLED:
            count = 0
            stamp = piece.rpartition(_MARK)[2].partition(b'"')[0]
            if len(stamp) > 7:
                received["delays_seconds"].append(time.monotonic() - float(stamp))


if __name__ == "__main__":
    main()
