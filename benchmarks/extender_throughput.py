"""How many pods a second the extender decides:
``python -m benchmarks.extender_throughput [--nodes 5000]``.

Gangs of 40 pods are filtered as kube-scheduler does it, one call per pod with the names of all
nodes that have room, through the WSGI application (decode, decide, encode; the network is left
out), and are shown to the placer as bound after each answer. A second round offers each pod its
nominated node alone, as happens once a plan is told."""

import argparse
import io
import json
import time
from collections.abc import Iterator

import msgspec
import numpy as np

from extender.http.app import Endpoints, create_app
from extender.metrics import Metrics
from extender.placer import Placer
from extender.planner import Rules
from optimus.kube.pods import Pod, decode_pod
from optimus.nodes import Node
from optimus.resources import Resources

SCHEDULER = "optimus-scheduler"
NODE = Resources(cpu=16_000, memory=64 << 30, pods=110)


def main() -> None:
    """Run both rounds and print them as JSON, with the ratio of the second to the first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--gangs", type=int, default=50)
    parser.add_argument("--ps", type=int, default=16)
    parser.add_argument("--workers", type=int, default=24)
    options = parser.parse_args()
    shape = options.ps, options.workers
    every, nominated = (
        figures(options.nodes, options.gangs, shape, told=told) for told in (False, True)
    )
    found = {
        "nodes": options.nodes,
        "gangs": options.gangs,
        "gang": {"ps": options.ps, "workers": options.workers},
        "every_node_offered": every,
        "nominated_node_offered": nominated,
        "rate_ratio": round(nominated["calls_per_second"] / every["calls_per_second"], 2),
    }
    print(json.dumps(found, indent=2))


def figures(nodes: int, gangs: int, shape: tuple[int, int], *, told: bool) -> dict[str, float]:
    """One round's rate and times; nobody waits in between."""
    seconds = np.array(list(calls(nodes, gangs, shape, told=told)))
    half, nearly_all, most = np.percentile(seconds, [50, 99, 100]) * 1000
    return {
        "calls_per_second": round(len(seconds) / float(seconds.sum()), 1),
        "median_ms": round(float(half), 3),
        "p99_ms": round(float(nearly_all), 3),
        "max_ms": round(float(most), 3),
    }


def calls(nodes: int, gangs: int, shape: tuple[int, int], *, told: bool) -> Iterator[float]:
    """Seconds of each call."""
    placer = Placer(Rules(scheduler_name=SCHEDULER))
    names = [f"node-{at:05}" for at in range(nodes)]
    for name in names:
        placer.node_changed(name, Node(name, NODE))
    app = create_app(Endpoints(placer, lambda: None, Metrics(), 1 << 30))
    for gang in range(gangs):
        pods = [
            (raw, decode_pod(raw))
            for role, count in zip(("ps", "worker"), shape, strict=True)
            for raw in (pod_json(f"job-{gang}", role, index, shape) for index in range(count))
        ]
        for _, pod in pods:
            placer.pod_changed(None, pod)
        if told:
            placer.advance()
        planned = {wish.pod.uid: wish.node for wish in placer.wishes()}
        for raw, pod in pods:
            offered = [planned[pod.uid]] if told else names
            yield decide(app, placer, raw, pod, offered)


def decide(app: object, placer: Placer, raw: bytes, pod: Pod, offered: list[str]) -> float:
    """Filter one pod and bind it to the answer; returns the seconds of the call."""
    if len(offered) == 1:
        raw = raw.replace(
            b'"status":{', b'"status":{"nominatedNodeName":"%s",' % offered[0].encode()
        )
    body = b'{"Pod":' + raw + b',"Nodes":null,"NodeNames":' + msgspec.json.encode(offered) + b"}"
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/filter",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8888",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "CONTENT_LENGTH": str(len(body)),
    }
    assert callable(app)
    began = time.perf_counter()
    answer = b"".join(app(environ, lambda *_: None))
    taken = time.perf_counter() - began
    (node,) = msgspec.json.decode(answer)["NodeNames"]
    placer.pod_changed(pod, msgspec.structs.replace(pod, node=node))
    return taken


def pod_json(job: str, role: str, index: int, shape: tuple[int, int]) -> bytes:
    """A pod as the API server stores it, TF_CONFIG and all."""
    cluster = {
        name: [f"{job}-{name}-{at}.ns.svc:2222" for at in range(count)]
        for name, count in zip(("ps", "worker"), shape, strict=True)
    }
    config = msgspec.json.encode(
        {"cluster": cluster, "task": {"type": role, "index": index}}
    ).decode()
    container = {
        "name": "tensorflow",
        "env": [{"name": "TF_CONFIG", "value": config}],
        "resources": {"requests": {"cpu": "2", "memory": "4Gi"}},
    }
    owner = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "name": job,
        "uid": job,
        "controller": True,
    }
    labels = {
        "training.kubeflow.org/replica-type": role,
        "training.kubeflow.org/replica-index": str(index),
    }
    name = f"{job}-{role}-{index}"
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": name,
        "labels": labels,
        "ownerReferences": [owner],
    }
    spec = {"schedulerName": SCHEDULER, "containers": [container]}
    return msgspec.json.encode({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})


if __name__ == "__main__":
    main()
