"""How many pods per second the extender decides:
``python -m benchmarks.extender_throughput [--nodes 5000]``.

Gangs of 40 pods are filtered as kube-scheduler does it, one call per pod with the names of all
nodes that have room, through the WSGI application (decode, decide, encode; the network is left
out), and the planner sees each pod bound after its answer."""

import argparse
import io
import json
import time
from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from extender.http.app import Endpoints, RoutedApp, Verbs, create_app
from extender.metrics import Metrics
from extender.parts import Parts
from extender.settings import Settings
from optimus.kube.job_kinds import REPLICA_INDEX, REPLICA_TYPE
from optimus.kube.pods import decode_pod
from optimus.nodes import Node
from optimus.resources import Resources

NODE = Resources(cpu=16_000, memory=64 << 30, pods=110)
GANGS = 50
PS, WORKERS = 16, 24


def main() -> None:
    """Run once and print the rate and the times, without pauses between calls, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    nodes = parser.parse_args().nodes
    seconds = np.array(list(calls(nodes)))
    median, p99, longest = np.percentile(seconds, [50, 99, 100]) * 1000
    found = {
        "nodes": nodes,
        "gangs": GANGS,
        "gang": {"ps": PS, "workers": WORKERS},
        "calls_per_second": round(len(seconds) / float(seconds.sum()), 1),
        "median_ms": round(float(median), 3),
        "p99_ms": round(float(p99), 3),
        "max_ms": round(float(longest), 3),
    }
    print(json.dumps(found, indent=2))


def calls(nodes: int) -> Iterator[float]:
    """Seconds of each call."""
    app, parts, names = extender(nodes)
    handlers = parts.handlers
    for gang in range(GANGS):
        bodies = pod_bodies(f"job-{gang}", PS, WORKERS)
        pods = [decode_pod(raw) for raw in bodies]
        for pod in pods:
            handlers.pod(None, pod)
        for raw, pod in zip(bodies, pods, strict=True):
            environ = filter_request(raw, names)
            began = time.perf_counter()
            answer = call(app, environ)
            yield time.perf_counter() - began
            (node,) = msgspec.json.decode(answer)["NodeNames"]
            handlers.pod(pod, msgspec.structs.replace(pod, node=node))


def extender(nodes: int) -> tuple[RoutedApp, Parts, list[str]]:
    """An extender over empty nodes, and their names."""
    parts = Parts.of(Settings())
    parts.leading.begin()
    names = [f"node-{at:05}" for at in range(nodes)]
    for name in names:
        parts.handlers.set_node(name, Node(name, NODE))
    app = create_app(Endpoints(Verbs.of(parts), lambda: None, Metrics(), 1 << 30))
    return app, parts, names


def filter_request(raw: bytes, offered: list[str]) -> dict[str, object]:
    """The WSGI environment of a call to filter."""
    body = b'{"Pod":' + raw + b',"Nodes":null,"NodeNames":' + msgspec.json.encode(offered) + b"}"
    return {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/filter",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8888",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "CONTENT_LENGTH": str(len(body)),
    }


def call(app: RoutedApp, environ: dict[str, object]) -> bytes:
    """The body of the application's answer."""

    def start_response(*_: object) -> Callable[[bytes], object]:
        return bytes  # WSGI's write function, which the application does not use

    return b"".join(app(environ, start_response))


def pod_bodies(job: str, ps: int, workers: int, resource_version: str = "") -> list[bytes]:
    """The pods of a job as the API server stores them, TF_CONFIG and all."""
    replicas = [("ps", index) for index in range(ps)]
    replicas += [("worker", index) for index in range(workers)]
    cluster: dict[str, list[str]] = {"ps": [], "worker": []}
    for role, index in replicas:
        cluster[role].append(f"{job}-{role}-{index}.ns.svc:2222")
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": job, "uid": job}
    bodies = []
    for role, index in replicas:
        config = {"cluster": cluster, "task": {"type": role, "index": index}}
        container = {
            "name": "tensorflow",
            "env": [{"name": "TF_CONFIG", "value": msgspec.json.encode(config).decode()}],
            "resources": {"requests": {"cpu": "2", "memory": "4Gi"}},
        }
        metadata = {
            "name": f"{job}-{role}-{index}",
            "namespace": "ns",
            "uid": f"{job}-{role}-{index}",
            "resourceVersion": resource_version,
            "labels": {REPLICA_TYPE: role, REPLICA_INDEX: str(index)},
            "ownerReferences": [{**owner, "controller": True}],
        }
        spec = {"schedulerName": Settings().scheduler_name, "containers": [container]}
        pod = {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
        bodies.append(msgspec.json.encode(pod))
    return bodies


if __name__ == "__main__":
    main()
