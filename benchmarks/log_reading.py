"""How often the logs of thousands of jobs are read, and what it costs:
``python -m benchmarks.log_reading [--jobs 4000] [--latency 0.03] [--lines 1000] [--seconds 90]``.

A server of its own process answers like the API server: after a latency, over HTTP on loopback,
with the lines that a pod has printed since an instant. The autoscaler's poller and reader read
them, and ticks take them in, as in the autoscaler. Of each job one pod is read, its chief or
worker 0. The result is one JSON object.
"""

import argparse
import asyncio
import json
import math
import multiprocessing
import socket
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from urllib.parse import parse_qs

import uvicorn
import yaml

from autoscaler.logs.poller import JobRun, LogPoller
from optimus.jobs import Counts, NodeConstraints, Role
from optimus.kube.client import connect
from optimus.kube.logs import LogReader
from optimus.kube.pods import Pod
from optimus.kube.results import Refused
from optimus.kube.times import format_instant, parse_instant
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.types import LogRead
from optimus.resources import Resources
from optimus.snapshot import ReplicaId

TICK_SECONDS = 2.0
LOG_SECONDS = 0.25
POLL_SECONDS = 10.0
PODS_PER_NODE = 8
BEGAN_AT = math.floor(time.time())


def main() -> None:
    """Run once and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=4000)
    parser.add_argument("--latency", type=float, default=0.03, help="seconds of one read")
    parser.add_argument("--lines", type=float, default=1000.0, help="lines per second, of all jobs")
    parser.add_argument("--readers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=90.0)
    given = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        rate = given.lines / given.jobs
        arguments = (listener, given.latency, rate)
        server = multiprocessing.Process(target=serve, args=arguments, daemon=True)
        server.start()
        try:
            port = listener.getsockname()[1]
            found = figures(port, given.jobs, given.readers, given.seconds)
        finally:
            server.terminate()
            server.join()
    print(json.dumps(found))


class Recording:
    """Reads logs, and notes when each was read."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self.read_at: dict[str, list[float]] = {}
        self.lines = 0

    def read(
        self, pod: Pod, *, since: float | None = None, last_lines: int | None = None
    ) -> LogRead | Refused:
        """As the reader does."""
        self.read_at.setdefault(pod.uid, []).append(time.monotonic())
        read = self._reader.read(pod, since=since, last_lines=last_lines)
        if isinstance(read, Refused):
            raise TypeError(str(read))
        self.lines += len(read.lines)
        return read


def figures(port: int, jobs: int, readers: int, seconds: float) -> dict[str, object]:
    """Seconds between two reads of one log, and the processor time of the reading process."""
    runs = [(ProgressLog(LogFormatOptions()), run_of_job(number)) for number in range(jobs)]
    with tempfile.TemporaryDirectory() as folder:
        client = connect(kubeconfig(Path(folder), port), user_agent="log-reading")
    logs = Recording(LogReader(client))
    lags: list[float] = []
    began, cpu = time.monotonic(), time.process_time()
    with closing(LogPoller(logs, readers=readers, poll_seconds=POLL_SECONDS)) as poller:
        while (now := time.monotonic()) - began < seconds:
            poller.poll(runs, time.time(), timeout_seconds=LOG_SECONDS)
            lags.append(poller.lag_seconds(time.time()))
            time.sleep(max(now + TICK_SECONDS - time.monotonic(), 0.0))
    wall = time.monotonic() - began
    intervals = [b - a for at in logs.read_at.values() for a, b in pairwise(at)]
    reads = sum(map(len, logs.read_at.values()))
    return {
        "jobs": jobs,
        "logs read": len(logs.read_at),
        "reads per second": round(reads / wall, 1),
        "lines per second": round(logs.lines / wall),
        "seconds between two reads of a log": {
            "median": round(statistics.median(intervals), 1),
            "longest": round(max(intervals), 1),
        },
        "longest lag at the last tick": round(lags[-1], 1),
        "share of a core": round((time.process_time() - cpu) / wall, 3),
    }


def run_of_job(number: int) -> JobRun:
    """One job's run: worker 0, on a node with a few others."""
    name = f"job-{number:05}-worker-0"
    pod = Pod(
        uid=name,
        namespace="team",
        name=name,
        created_at=BEGAN_AT,
        node=f"node-{number // PODS_PER_NODE:05}",
        phase="Running",
        replica=ReplicaId(f"job-{number:05}", Role.WORKER, 0),
        resources=Resources(pods=1),
        constraints=NodeConstraints(),
    )
    return JobRun(name, Counts(1, 1), (pod,))


def kubeconfig(folder: Path, port: int) -> Path:
    """A kubeconfig for the server on this port."""
    path = folder / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    users = [{"name": "u", "user": {}}]
    config = {"clusters": [cluster], "contexts": [context], "users": users, "current-context": "c"}
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **config}))
    return path


Send = Callable[[dict[str, object]], Awaitable[None]]


def serve(listener: socket.socket, latency: float, rate: float) -> None:
    """Answer for the logs of all pods, of which each prints so many lines a second."""

    async def app(scope: dict[str, bytes], receive: object, send: Send) -> None:
        del receive
        query = parse_qs(scope["query_string"].decode())
        await asyncio.sleep(latency)
        since = parse_instant(query["sinceTime"][0]) if "sinceTime" in query else BEGAN_AT
        first, last = math.ceil((since - BEGAN_AT) * rate), int((time.time() - BEGAN_AT) * rate)
        body = "".join(
            f"{format_instant(BEGAN_AT + at / rate)} step={at} loss={2 / (1 + at):.4f}\n"
            for at in range(max(first, 0), last + 1)
        )
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body.encode()})

    config = uvicorn.Config(app, lifespan="off", log_level="warning", http="httptools")
    server = uvicorn.Server(config)
    asyncio.run(server.serve(sockets=[listener]))


if __name__ == "__main__":
    main()
