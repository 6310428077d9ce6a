"""What jobs that print too much cost the others:
``python -m benchmarks.large_logs [--large 20] [--ordinary 20] [--megabytes 50] [--seconds 120]``.

A server of its own process answers like the API server for the logs of jobs with four workers
each: the large ones print so many megabytes a minute and worker, the ordinary ones a line a second.
The autoscaler's poller and reader read them, and ticks take them in as the autoscaler's do, once
without the large jobs and once with them. Measured are the time of each tick, and after each tick
how long ago the last line of each ordinary job was printed that is taken in: a rescale waits for
such lines. The result is one JSON object."""

import argparse
import asyncio
import json
import math
import multiprocessing
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

import uvicorn

from autoscaler.logs.poller import JobRun, LogPoller
from benchmarks.log_reading import LOG_SECONDS, POLL_SECONDS, TICK_SECONDS, kubeconfig
from optimus.jobs import Counts, NodeConstraints, Role
from optimus.kube.client import connect
from optimus.kube.logs import LogReader
from optimus.kube.pods import Pod
from optimus.kube.times import format_instant, parse_instant
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from optimus.resources import Resources
from optimus.snapshot import ReplicaId

_WORKERS: Final = 4
_TEXT: Final = "step={} loss={:.6f} accuracy=0.5123 lr=0.001 grad_norm=1.25"
_LINE_BYTES: Final = 31 + len(_TEXT.format(1_000_000, 1.0))
_WARM_UP_SECONDS: Final = 20.0
"""Logs are first read from their start, which lies further and further back."""

BEGAN_AT: Final = math.floor(time.time())


def main() -> None:
    """Run once without the large jobs and once with them, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", type=int, default=20)
    parser.add_argument("--ordinary", type=int, default=20)
    parser.add_argument("--megabytes", type=float, default=50.0, help="a minute and worker")
    parser.add_argument("--seconds", type=float, default=120.0, help="of each of the two runs")
    parser.add_argument("--readers", type=int, default=16)
    given = parser.parse_args()
    rate = given.megabytes * 1e6 / 60 / _LINE_BYTES
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        server = multiprocessing.Process(target=serve, args=(listener, rate), daemon=True)
        server.start()
        try:
            port = listener.getsockname()[1]
            found = {
                f"with {large} large jobs": figures(
                    port, large, given.ordinary, given.readers, given.seconds
                )
                for large in (0, given.large)
            }
        finally:
            server.terminate()
            server.join()
    print(json.dumps(found, indent=1))


def figures(
    port: int, large: int, ordinary: int, readers: int, seconds: float
) -> dict[str, object]:
    """How long ticks take, and how late the lines of ordinary jobs are taken in."""
    quiet = [run_of_job(f"ordinary-{number:03}") for number in range(ordinary)]
    loud = [run_of_job(f"large-{number:03}") for number in range(large)]
    logs = {run.name: ProgressLog(LogFormatOptions()) for run in (*quiet, *loud)}
    with tempfile.TemporaryDirectory() as folder:
        client = connect(kubeconfig(Path(folder), port), user_agent="large-logs")
    ticks, late = list[float](), list[float]()
    began, cpu = time.monotonic(), time.process_time()
    with closing(
        LogPoller(LogReader(client), readers=readers, poll_seconds=POLL_SECONDS)
    ) as poller:
        while (now := time.monotonic()) - began < seconds:
            runs = [(logs[run.name], run) for run in (*quiet, *loud)]
            poller.poll(runs, time.time(), timeout_seconds=LOG_SECONDS)
            ticks.append(time.monotonic() - now)
            if now - began > _WARM_UP_SECONDS:
                late += [_late(logs[run.name]) for run in quiet]
            time.sleep(max(now + TICK_SECONDS - time.monotonic(), 0.0))
    wall = time.monotonic() - began
    too_large = sum(logs[run.name].progress(time.time()).is_too_large for run in loud)
    return {
        "ticks": len(ticks),
        "tick, seconds": _spread(ticks),
        "ordinary lines taken in after, seconds": _spread(late),
        "large logs known as such": too_large,
        "large logs behind, seconds": _spread([_late(logs[run.name]) for run in loud]),
        "share of a core": round((time.process_time() - cpu) / wall, 3),
    }


def _late(log: ProgressLog) -> float:
    read_until = log.next_since(log.to_state().pods[0].name) if log.to_state().pods else None
    return time.time() - (BEGAN_AT if read_until is None else read_until)


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(seconds) or [0.0]
    last = len(ordered) - 1
    return {
        name: round(ordered[round(part * last)], 3)
        for name, part in (("median", 0.5), ("p99", 0.99), ("longest", 1.0))
    }


def run_of_job(job: str) -> JobRun:
    """One job's run: four workers, each on a node with a few others."""
    pods = tuple(
        Pod(
            uid=f"{job}-worker-{index}",
            namespace="team",
            name=f"{job}-worker-{index}",
            created_at=BEGAN_AT,
            node=f"node-{job}-{index}",
            phase="Running",
            replica=ReplicaId(job, Role.WORKER, index),
            resources=Resources(pods=1),
            constraints=NodeConstraints(),
        )
        for index in range(_WORKERS)
    )
    return JobRun(pods[0].uid, Counts(1, _WORKERS), pods)


Send = Callable[[dict[str, object]], Awaitable[None]]


def serve(listener: socket.socket, large_rate: float) -> None:
    """Answer for the logs of all pods: the large print so many lines a second, the others one."""

    async def app(scope: dict[str, bytes], receive: object, send: Send) -> None:
        del receive
        query = parse_qs(scope["query_string"].decode())
        rate = large_rate if "large-" in str(scope["path"]) else 1.0
        since = parse_instant(query["sinceTime"][0]) if "sinceTime" in query else BEGAN_AT
        last = int((time.time() - BEGAN_AT) * rate)
        first = max(math.ceil((math.floor(since) - BEGAN_AT) * rate), 0)
        if "tailLines" in query:
            first = max(first, last + 1 - int(query["tailLines"][0]))
        limit = int(query["limitBytes"][0])
        last = min(last, first + limit // _LINE_BYTES + 50)
        body = "".join(
            f"{format_instant(BEGAN_AT + at / rate)} {_TEXT.format(at, 2 / (1 + at))}\n"
            for at in range(first, last + 1)
        )
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body.encode()[:limit]})

    config = uvicorn.Config(app, lifespan="off", log_level="warning", http="httptools")
    server = uvicorn.Server(config)
    asyncio.run(server.serve(sockets=[listener]))


if __name__ == "__main__":
    main()
