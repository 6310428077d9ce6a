"""How long calls of kube-scheduler take while gangs wait and pods end:
``python -m benchmarks.extender_under_load [--nodes 5000] [--gangs 200] [--seconds 20]``.

Ten pods run on each node, all of different sizes, and gangs of 12 wait that do not fit. Pods end
and a client asks about the pods of the waiting gangs, as kube-scheduler does after such events;
planning goes on beside it on its own thread, in the same process and interpreter. The times are
those of filter and prioritize and of the handling of one pod's end, without HTTP."""

import argparse
import json
import time
from collections.abc import Iterator

import msgspec
import numpy as np

from extender.parts import Parts
from extender.prioritize import score_nodes
from extender.settings import Settings
from extender.state.event_handlers import EventHandlers
from extender.step_thread import StepThread
from optimus.jobs import NodeConstraints, Role
from optimus.kube.pods import Owner, Pod
from optimus.nodes import Node
from optimus.resources import Resources
from optimus.snapshot import ReplicaId

NODE = Resources(cpu=16_000, memory=64 << 30, pods=110)
REQUEST = Resources(cpu=2_000, memory=4 << 30, pods=1)
PODS_PER_NODE = 10
ROLES = {Role.PS: 4, Role.WORKER: 8}


def main() -> None:
    """Run once and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--gangs", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--ends", type=float, default=10.0, help="pods that end per second")
    parser.add_argument("--calls", type=float, default=100.0, help="calls per second")
    given = parser.parse_args()
    print(json.dumps(figures(given.nodes, given.gangs, given.seconds, given.ends, given.calls)))


def figures(
    nodes: int, gangs: int, seconds: float, ends_per_second: float, calls_per_second: float
) -> dict[str, object]:
    """Milliseconds of calls and of events, and the share of one core that everything took."""
    generator = np.random.default_rng(1)
    parts = Parts.of(Settings())
    planner, handlers = parts.planner, parts.handlers
    names = [f"node-{at:05}" for at in range(nodes)]
    running = fill(handlers, names, generator)
    waiting = [pod for at in range(gangs) for pod in gang_pods(f"job-{at:04}")]
    for pod in waiting:
        handlers.pod(None, pod)
    parts.leading.begin()
    while planner.plan_slice():
        pass
    thread = StepThread("planner", planner.step, changes=parts.state.changes)
    thread.start()
    calls: list[float] = []
    ends: list[float] = []
    began, cpu = time.perf_counter(), time.process_time()
    next_end = next_call = began
    while (now := time.perf_counter()) - began < seconds:
        if now >= next_end:
            next_end += 1 / ends_per_second
            pod = running.pop(int(generator.integers(len(running))))
            handlers.pod(pod, None)
            ends.append(time.perf_counter() - now)
        elif now >= next_call:
            next_call += 1 / calls_per_second
            pod = waiting[int(generator.integers(len(waiting)))]
            calls.append(call(parts, pod, names))
        else:
            time.sleep(max(min(next_end, next_call) - now, 0.0))
    cpu = time.process_time() - cpu
    thread.stop()
    return {
        "nodes": nodes,
        "pods": nodes * PODS_PER_NODE,
        "gangs_waiting": gangs,
        "gangs_planned": parts.state.reservation_count() // sum(ROLES.values()),
        "filter_and_prioritize": percentiles(calls),
        "end_of_a_pod": percentiles(ends),
        "cpu_per_second": round(cpu / seconds, 3),
    }


def percentiles(seconds: list[float]) -> dict[str, float]:
    """Median, 99th percentile and longest, in milliseconds."""
    median, p99, longest = np.percentile(np.array(seconds), [50, 99, 100]) * 1000
    return {"median_ms": round(median, 3), "p99_ms": round(p99, 3), "max_ms": round(longest, 3)}


def call(parts: Parts, pod: Pod, names: list[str]) -> float:
    """Seconds of filter and, where a node is left, of prioritize."""
    began = time.perf_counter()
    kept = parts.gangs.filter(pod, names).kept
    if kept:
        score_nodes(parts, pod, kept)
    return time.perf_counter() - began


def fill(handlers: EventHandlers, names: list[str], generator: np.random.Generator) -> list[Pod]:
    """Nodes with pods of many sizes; what is left of most nodes holds no replica."""
    for name in names:
        handlers.set_node(name, Node(name, NODE))
    pods = list(running_pods(names, generator))
    for pod in pods:
        handlers.pod(None, pod)
    return pods


def running_pods(names: list[str], generator: np.random.Generator) -> Iterator[Pod]:
    """Pods of no training job, bound."""
    for name in names:
        for at, share in enumerate(generator.dirichlet(np.full(PODS_PER_NODE, 20.0))):
            resources = Resources(cpu=int(share * 15_000), memory=int(share * (60 << 30)), pods=1)
            yield Pod(
                uid=f"{name}-{at}",
                namespace="ns",
                name=f"{name}-{at}",
                created_at=0.0,
                node=name,
                phase="Running",
                resources=resources,
                constraints=NodeConstraints(),
            )


def gang_pods(job: str) -> list[Pod]:
    """The pods of a job that waits."""
    pod = Pod(
        uid="",
        namespace="ns",
        name="",
        created_at=time.time(),
        owner=Owner("TFJob", job, job),
        resources=REQUEST,
        constraints=NodeConstraints(),
        scheduler_name=Settings().scheduler_name,
        gang=ROLES,
    )
    return [
        msgspec.structs.replace(
            pod,
            uid=f"{job}-{role}-{index}",
            name=f"{job}-{role}-{index}",
            replica=ReplicaId(job, role, index),
        )
        for role, count in ROLES.items()
        for index in range(count)
    ]


if __name__ == "__main__":
    main()
