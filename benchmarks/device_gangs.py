"""Pairs of gangs for the devices of one: ``python -m benchmarks.device_gangs [--rounds 50]``.

A real etcd, kube-apiserver, kube-scheduler and the controller of resource claims run on loopback
with one extender. Two nodes, which are API objects, have one device each by their ResourceSlices.
In each round two gangs of a PS and a worker, of which each pod claims a device by a template, are
made in random order. One of them has to be bound whole, and half a second later none of the other;
then the first ends, and the other has to be bound whole. The result is one JSON object; the exit
status is 1 where a gang was bound in part.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.extender_throughput import pod_bodies
from benchmarks.gang_churn import running_program
from benchmarks.scheduler_kills import Replica
from benchmarks.scheduler_throughput import PODS, Api, cluster_of, wait

DEVICES: Final = "/apis/resource.k8s.io/v1"
CLAIMS: Final = f"{DEVICES}/namespaces/ns/resourceclaims"
DRIVER: Final = "gpu.example.com"
LIMIT_SECONDS: Final = 60.0
"""For each step of a round."""


def main() -> None:
    """Run, print the figures, and fail where a gang was bound in part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    rounds = parser.parse_args().rounds
    with (
        tempfile.TemporaryDirectory() as temporary,
        cluster_of(2) as api,
        claim_controller(api, Path(temporary)),
    ):
        make_devices(api)
        replica = Replica(api, Path(temporary), "replica-a", {}, {"check-invariants": True})
        try:
            replica.start("extender")
            replica.start("kube-scheduler")
            wait(replica.is_ready, 300.0)
            began = time.monotonic()
            in_part = sum(round_is_in_part(api, number) for number in range(rounds))
            seconds = time.monotonic() - began
        finally:
            replica.stop()
    load = round(os.getloadavg()[0], 1)
    found = {"rounds": rounds, "in_part": in_part, "seconds": round(seconds), "load_average": load}
    print(json.dumps(found))
    sys.exit(1 if in_part else 0)


@contextmanager
def claim_controller(api: Api, folder: Path) -> Iterator[None]:
    """A kube-controller-manager that makes claims of templates, and nothing else."""
    flags = (
        f"--kubeconfig={api.cluster.kubeconfig}",
        "--leader-elect=false",
        "--controllers=resourceclaim-controller",
    )
    with running_program(api, "kube-controller-manager", folder / "controller.log", *flags):
        yield


def make_devices(api: Api) -> None:
    """A class of devices, one device on each node, and a template that claims one."""

    def create(kind: str, name: str, spec: object) -> None:
        body = msgspec.json.encode({"metadata": {"name": name}, "spec": spec})
        api.send("POST", f"{DEVICES}/{kind}", body)

    expression = f'device.driver == "{DRIVER}"'
    create("deviceclasses", "gpu", {"selectors": [{"cel": {"expression": expression}}]})
    for node in ("node-00000", "node-00001"):
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": "gpu-0"}]
        slice_spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
        create("resourceslices", node, slice_spec)
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]
    template = {"spec": {"devices": {"requests": requests}}}
    create("namespaces/ns/resourceclaimtemplates", "one", template)


def round_is_in_part(api: Api, number: int) -> bool:
    """One pair of gangs; whether one was bound in part beside the other."""
    pair = [f"job-{number}a", f"job-{number}b"]
    pods = [body for job in pair for body in gang(job)]
    random.shuffle(pods)
    for body in pods:
        api.send("POST", PODS, body)
    wait(lambda: 2 in bound(api).values(), LIMIT_SECONDS)
    time.sleep(0.5)
    found = bound(api)
    first, second = sorted(pair, key=lambda job: -found[job])
    end(api, first)
    wait(lambda: bound(api)[second] == 2, LIMIT_SECONDS)
    end(api, second)
    wait(lambda: not items(api, CLAIMS), LIMIT_SECONDS)
    return (found[first], found[second]) != (2, 0)


def gang(job: str) -> list[bytes]:
    """A PS and a worker that claim a device each."""
    bodies = []
    for raw in pod_bodies(job, 1, 1):
        pod = msgspec.json.decode(raw)
        (container,) = pod["spec"]["containers"]
        requests = {"cpu": "1", "memory": "1Gi"}
        resources = {"requests": requests, "claims": [{"name": "gpu"}]}
        container |= {"image": "busybox", "resources": resources}
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
        del pod["metadata"]["uid"], pod["metadata"]["resourceVersion"], pod["status"]
        bodies.append(msgspec.json.encode(pod))
    return bodies


def items(api: Api, path: str) -> list[dict[str, Any]]:
    """What there is of one kind."""
    found: list[dict[str, Any]] = msgspec.json.decode(api.send("GET", path))["items"]
    return found


def bound(api: Api) -> Counter[str]:
    """How many pods of each gang are bound."""
    pods = [pod for pod in items(api, PODS) if pod["spec"].get("nodeName")]
    return Counter(pod["metadata"]["name"].rsplit("-", 2)[0] for pod in pods)


def end(api: Api, job: str) -> None:
    """Delete a gang's pods and claims; nothing collects garbage here."""
    for role in ("ps", "worker"):
        api.send("DELETE", f"{PODS}/{job}-{role}-0?gracePeriodSeconds=0")
    for claim in items(api, CLAIMS):
        (owner,) = claim["metadata"]["ownerReferences"]
        if owner["name"].rsplit("-", 2)[0] == job:
            api.send("DELETE", f"{CLAIMS}/{claim['metadata']['name']}")


if __name__ == "__main__":
    main()
