"""How soon the extender is ready: ``python -m benchmarks.extender_start [--nodes 5000]
[--pods 50000]``.

A real etcd and kube-apiserver run on loopback, with nodes without a kubelet and pods of training
jobs that are bound to them. The extender starts several times, one after the other. The result is
one JSON object: seconds from its launch until ``/readyz`` answers 200, its processor seconds until
then, and its memory."""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.embedded_writes import cpu_seconds
from benchmarks.extender_throughput import pod_bodies
from benchmarks.scheduler_throughput import (
    PODS,
    Api,
    Extender,
    cluster_of,
    rss_mb,
    start_extender,
    tree_of,
)
from localcluster.ports import pick_ports

GANG: Final = 20
AT_ONCE: Final = 5000


def main() -> None:
    """Fill the cluster, start the extender, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50000)
    parser.add_argument("--starts", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, cluster_of(given.nodes) as api:
        create_bound_pods(api, given.pods, given.nodes)
        starts = [start(api, Path(folder)) for _ in range(given.starts)]
    print(json.dumps({"nodes": given.nodes, "pods": given.pods, "starts": starts}, indent=1))


def create_bound_pods(api: Api, count: int, nodes: int) -> None:
    """Pods of jobs of 20, each with its node from the beginning."""
    requests: list[tuple[str, str, bytes | None]] = []
    for first in range(0, count, GANG):
        for at, raw in enumerate(pod_bodies(f"job-{first // GANG}", 8, GANG - 8)):
            pod = msgspec.json.decode(raw)
            del pod["metadata"]["uid"], pod["metadata"]["resourceVersion"], pod["status"]
            pod["spec"]["nodeName"] = f"node-{(first + at) % nodes:05}"
            pod["spec"]["containers"][0] |= {
                "image": "busybox",
                "resources": {"requests": {"cpu": "1", "memory": "4Gi"}},
            }
            requests.append(("POST", PODS, msgspec.json.encode(pod)))
        if len(requests) >= AT_ONCE:
            api.send_all(requests)
            requests.clear()
    api.send_all(requests)


def start(api: Api, folder: Path) -> dict[str, float]:
    """One start, from the launch until it is ready."""
    (port,) = pick_ports(1, random.Random())
    began = time.monotonic()
    process = start_extender(api, folder, Extender(port))
    try:
        seconds = time.monotonic() - began
        pids: Sequence[int] = tree_of(process.pid)
        return {
            "ready_after_seconds": round(seconds, 2),
            "cpu_seconds": round(sum(cpu_seconds(pid) for pid in pids), 2),
            "rss_mb": round(sum(rss_mb(pid) for pid in pids)),
        }
    finally:
        process.terminate()
        process.wait(30)


if __name__ == "__main__":
    main()
