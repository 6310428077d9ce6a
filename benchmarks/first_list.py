"""The extender's first list: ``python -m benchmarks.first_list [--nodes 5000] [--pods 50000]``.

Pages of bound pods, as large as the API server sends them (field managers and tolerations are in
them), are decoded and counted by the caches of nodes and pods. The network and the API server's own
time are left out: the pages are in files. The result is one JSON object: processor seconds of each
list, and by how much the process has grown."""

import argparse
import itertools
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import msgspec
import urllib3

from benchmarks.extender_throughput import pod_bodies
from extender.parts import Parts
from extender.settings import Settings
from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.nodes import watched_nodes
from optimus.kube.pods import watched_pods
from optimus.kube.reflector import Reflector, ReflectorConfig

GANG: Final = 20
ALLOCATABLE: Final = {"cpu": "64", "memory": "256Gi", "pods": "110"}
TOLERATIONS: Final = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
    for key in ("not-ready", "unreachable")
]


def main() -> None:
    """List nodes, then pods, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(figures(Path(folder), given.nodes, given.pods), indent=1))


def figures(folder: Path, node_count: int, pod_count: int) -> dict[str, float]:
    """Both lists, and what they take."""
    handlers = Parts.of(Settings()).handlers
    nodes = Pages(folder / "nodes", node_bodies(node_count))
    pods = Pages(folder / "pods", bound_pods(pod_count, node_count))
    before = rss_mb()
    caches: list[Reflector[Any]] = [
        Reflector(nodes, watched_nodes(), observer=handlers.node),
        Reflector(pods, watched_pods(), observer=handlers.pod),
    ]
    seconds = []
    for cache in caches:
        began = time.process_time()
        cache.start()
        wait_filled(cache)
        seconds.append(round(time.process_time() - began, 2))
    found = {
        "nodes": len(caches[0]),
        "pods": len(caches[1]),
        "cpu_seconds_of_nodes": seconds[0],
        "cpu_seconds_of_pods": seconds[1],
        "grown_by_mb": round(rss_mb() - before),
    }
    for cache in caches:
        cache.stop()
    return found


def wait_filled(*caches: Reflector[Any]) -> None:
    """Wait for the first list of each, which on a busy machine takes as long as it takes.

    Raises:
        RuntimeError: one cannot be read."""
    for cache in caches:
        while not cache.wait_synced(1.0):
            if cache.failure is not None and not cache.synced:
                raise RuntimeError(cache.failure)


class Pages:
    """A source whose lists are in files, and whose watches show nothing."""

    def __init__(self, folder: Path, bodies: Iterator[bytes]) -> None:
        folder.mkdir()
        self._folder, page = folder, ReflectorConfig().page
        items = list(itertools.islice(bodies, page))
        for number in itertools.count():
            following = list(itertools.islice(bodies, page))
            token = b',"continue":"%d"' % (number + 1) if following else b""
            metadata = b'{"resourceVersion":"1"' + token + b"}"
            whole = b'{"metadata":' + metadata + b',"items":[' + b",".join(items) + b"]}"
            (folder / str(number)).write_bytes(whole)
            if not following:
                break
            items = following

    def get(self, what: str, path: str, query: Sequence[tuple[str, str]] = ()) -> bytes:
        """One page."""
        del what, path
        return (self._folder / dict(query).get("continue", "0")).read_bytes()

    def stream(
        self, what: str, path: str, query: Sequence[tuple[str, str]], read_seconds: float
    ) -> AbstractContextManager[urllib3.BaseHTTPResponse]:
        """No watch: what counts is the list."""
        del path, query, read_seconds
        raise KubeError(ErrorKind.TRANSIENT, f"{what}: there is no server")


def node_bodies(count: int) -> Iterator[bytes]:
    """Ready nodes."""
    for at in range(count):
        name = f"node-{at:05}"
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        yield msgspec.json.encode({"metadata": metadata, "status": {"allocatable": ALLOCATABLE}})


def bound_pods(count: int, nodes: int) -> Iterator[bytes]:
    """Pods that run."""
    fields: dict[str, object] = {
        "f:metadata": {f"f:field-{at}": {"f:part": {}} for at in range(40)}
    }
    manager = {"manager": "training-operator", "operation": "Update", "fieldsV1": fields}
    for at in range(count):
        if at % GANG == 0:
            gang = pod_bodies(f"job-{at // GANG}", GANG * 2 // 5, GANG - GANG * 2 // 5, "1")
        pod = msgspec.json.decode(gang[at % GANG])
        pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        pod["metadata"]["managedFields"] = [manager]
        pod["spec"] |= {"nodeName": f"node-{at % nodes:05}", "tolerations": TOLERATIONS}
        pod["status"] = {"phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.0.0.2"}
        yield msgspec.json.encode(pod)


def rss_mb() -> float:
    """The memory that this process has in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()
