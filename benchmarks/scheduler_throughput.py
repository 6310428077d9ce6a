"""Pods per second through a real kube-scheduler, with the extender and without:
``python -m benchmarks.scheduler_throughput [--nodes 1000]``.

A real etcd, kube-apiserver and kube-scheduler run on loopback. Nodes are API objects without a
kubelet, so the controllers, which would mark them as lost, are frozen. Gangs of 10 to 40 pods, as
the training operator makes them, all exist before the schedulers start. The clock runs from the
instant at which kube-scheduler acquires its Lease to the last binding. Each round schedules the
same gangs with the stock scheduler, which knows no gangs, with the same as Kubernetes' own gangs
(pod groups), with the extender that leaves all binding to kube-scheduler (one by one), and with
the one that binds the rest of each gang (bind, the default). The result is one JSON object: rates,
their ratio, processor time by process, and what kube-scheduler and the extender say of themselves.
"""

import argparse
import json
import os
import random
import re
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import urllib3
import yaml

from benchmarks.embedded_writes import cpu_seconds
from benchmarks.extender_throughput import pod_bodies
from localcluster.cluster import LocalCluster
from localcluster.ports import pick_ports
from localcluster.processes import send
from localcluster.specs import Backend
from localcluster.testing.pod_groups import pod_groups
from optimus.kube.client import connect
from optimus.kube.pods import Pod, watched_pods
from optimus.kube.reflector import Reflector

REPOSITORY: Final = Path(__file__).parents[1]
SIZES: Final = (10, 20, 30, 40)
"""Pods of a gang, in turn; two fifths of them are PSs."""
FROZEN: Final = ("kube-controller-manager", "training-operator", "kube-scheduler")
STORES: Final = ("kube-apiserver", "etcd")
LEASE: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LASTING_LEASE: Final = {"leaseDuration": "60s", "renewDeadline": "40s", "retryPeriod": "2s"}
"""A kube-scheduler that cannot renew its Lease in time, since the machine is busy, ends."""
PODS: Final = "/api/v1/namespaces/ns/pods"
POD_GROUPS: Final = f"{pod_groups().api}/namespaces/ns/podgroups"
NODE_CAPACITY: Final = {"cpu": "16", "memory": "64Gi", "pods": "110"}


Run: TypeAlias = Callable[[Any, Path, Sequence[int], float], dict[str, Any]]


def main() -> None:
    """Run all rounds and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--gangs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--limit-seconds", type=float, default=180.0, help="of one run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, cluster_of(options.nodes) as api:
        variants: dict[str, Run] = {
            "stock": stock,
            "pod groups": partial(stock, in_groups=True),
            "one by one": partial(with_extender, binds=False),
            "bind": partial(with_extender, binds=True),
        }
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in variants}
        for number in range(options.rounds):
            for name, run in variants.items():
                place = Path(folder) / f"{name}-{number}"
                place.mkdir()
                found = run(api, place, sizes(options.gangs), options.limit_seconds)
                print(json.dumps({"round": number, name: found}), file=sys.stderr, flush=True)
                runs[name].append(found)
    rates = {name: [each["pods_per_second"] for each in found] for name, found in runs.items()}
    medians = {name: statistics.median(found) for name, found in rates.items()}
    result = {
        "nodes": options.nodes,
        "gangs": options.gangs,
        "pods": sum(sizes(options.gangs)),
        "ratio_to_stock": {
            name: round(median / medians["stock"], 2) for name, median in medians.items()
        },
        **runs,
    }
    print(json.dumps(result, indent=1))


def sizes(gangs: int) -> list[int]:
    """How many pods each gang has."""
    return [SIZES[number % len(SIZES)] for number in range(gangs)]


@dataclass
class Api:
    """The API server as administrator, with the connections of several threads."""

    cluster: LocalCluster
    server: str
    pool: urllib3.PoolManager

    def send(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """One request; a refusal ends the benchmark."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = self.pool.request(
            method, f"{self.server}{path}", body=body, headers={"Content-Type": kind}
        )
        if answer.status >= 400:
            raise SystemExit(f"{method} {path}: {answer.status} {answer.data.decode()}")
        return answer.data

    def send_all(self, requests: list[tuple[str, str, bytes | None]]) -> None:
        """Many requests, several at a time."""
        with ThreadPoolExecutor(16) as threads:
            list(threads.map(lambda request: self.send(*request), requests))


@contextmanager
def cluster_of(nodes: int) -> Iterator[Api]:
    """A control plane with nodes that nothing runs on, its controllers frozen."""
    flags = pod_groups().flags("kube-apiserver")
    with LocalCluster("throughput", backend=Backend.REAL, flags=flags) as cluster:
        client = cluster.api_client()
        api = Api(cluster, str(client.configuration.host), client.rest_client.pool_manager)
        api.send("POST", "/api/v1/namespaces", msgspec.json.encode({"metadata": {"name": "ns"}}))
        wait_for_account(api)
        frozen = [cluster.components[name].process for name in FROZEN]
        for process in frozen:
            send(process, signal.SIGSTOP)
        try:
            create_nodes(api, nodes)
            yield api
        finally:
            for process in frozen:
                send(process, signal.SIGCONT)


def wait_for_account(api: Api) -> None:
    """Until this account exists, the API server refuses every pod of the namespace."""
    path = "/api/v1/namespaces/ns/serviceaccounts"
    while b'"name":"default"' not in api.send("GET", path):
        time.sleep(0.1)


def create_nodes(api: Api, count: int) -> None:
    """Ready nodes; the API server itself taints each new node as not ready."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    status = {"capacity": NODE_CAPACITY, "allocatable": NODE_CAPACITY, "conditions": [ready]}
    requests: list[tuple[str, str, bytes | None]] = []
    names = [f"node-{number:05}" for number in range(count)]
    for name in names:
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        body = {"metadata": metadata, "status": status}
        requests.append(("POST", "/api/v1/nodes", msgspec.json.encode(body)))
    api.send_all(requests)
    untainted = msgspec.json.encode({"spec": {"taints": None}})
    api.send_all([("PATCH", f"/api/v1/nodes/{name}", untainted) for name in names])


@dataclass
class Watching:
    """When each pod was seen bound, and where."""

    bound_at: dict[str, float] = field(default_factory=dict)
    node: dict[str, str] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)

    def see(self, before: Pod | None, after: Pod | None) -> None:
        """An event of the watch."""
        if after is None:
            if before is not None:
                self.known.discard(before.name)
            return
        self.known.add(after.name)
        if after.node is not None and after.name not in self.bound_at:
            self.bound_at[after.name] = time.time()
            self.node[after.name] = after.node


def stock(
    api: Api, folder: Path, gangs: Sequence[int], limit_seconds: float, *, in_groups: bool = False
) -> dict[str, Any]:
    """The gangs, of so many pods each, under kube-scheduler with its defaults but for the client's
    limits; ``in_groups``: and each is a PodGroup."""
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {
            "leaderElect": True,
            "resourceNamespace": "kube-system",
            "resourceName": "stock",
        },
        "profiles": [{"schedulerName": "stock"}],
    }
    return measure(api, folder, gangs, limit_seconds, Variant(configuration, in_groups=in_groups))


def with_extender(
    api: Api, folder: Path, gangs: Sequence[int], limit_seconds: float, *, binds: bool = False
) -> dict[str, Any]:
    """The gangs, of so many pods each, under the shipped configuration; ``binds``: the extender
    binds the rest of a gang."""
    path = REPOSITORY / "scheduler-config" / "kube-scheduler-config.yaml"
    configuration = yaml.safe_load(path.read_text())
    (port,) = pick_ports(1, random.Random())
    configuration["extenders"][0]["urlPrefix"] = f"http://127.0.0.1:{port}"
    variant = Variant(configuration, Extender(port, binds=binds))
    return measure(api, folder, gangs, limit_seconds, variant)


class Extender(NamedTuple):
    """How an extender is started."""

    port: int
    binds: bool = False
    """Whether it binds the rest of gangs."""


class Variant(NamedTuple):
    """What schedules the gangs."""

    configuration: dict[str, Any]
    """Of kube-scheduler."""

    extender: Extender | None = None
    in_groups: bool = False
    """Whether each gang is a PodGroup."""


def measure(
    api: Api, folder: Path, gangs: Sequence[int], limit_seconds: float, variant: Variant
) -> dict[str, Any]:
    """Make the pods, start the processes, wait until every pod is bound, remove the pods."""
    configuration, extender, in_groups = variant
    scheduler_name = configuration["profiles"][0]["schedulerName"]
    jobs = create_gangs(api, gangs, scheduler_name, in_groups=in_groups)
    watching = Watching()
    client = connect(api.cluster.kubeconfig, user_agent="benchmark")
    reflector = Reflector(client, watched_pods(), observer=watching.see)
    reflector.start()
    count = sum(len(names) for names in jobs.values())
    wait(lambda: len(watching.known) == count, limit_seconds)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        if extender is not None:
            processes.append(start_extender(api, folder, extender))
        before = {name: cpu_of(api, name) for name in STORES}
        started = sum(cpu_seconds(pid) for each in processes for pid in tree_of(each.pid))
        gates = (pod_groups().gates,) if in_groups else ()
        port = start_scheduler(api, folder, configuration, processes, gates)
        wait(lambda: len(watching.bound_at) == count, limit_seconds)
        used = {
            "kube-scheduler": cpu_seconds(processes[-1].pid),
            **{name: cpu_of(api, name) - before[name] for name in STORES},
        }
        if extender is not None:
            pids = tree_of(processes[0].pid)
            used["extender"] = sum(cpu_seconds(pid) for pid in pids) - started
        lease = configuration["leaderElection"]["resourceName"]
        found = figures(api, watching, jobs, lease, used)
        found["kube-scheduler says"] = scheduler_metrics(port)
        if extender is not None:
            found["extender says"] = extender_metrics(extender.port)
            found["extender_rss_mb"] = sum(rss_mb(pid) for pid in tree_of(processes[0].pid))
        return found
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)
        api.send("DELETE", f"{LEASE}/{configuration['leaderElection']['resourceName']}")
        delete_pods(api, [name for names in jobs.values() for name in names])
        wait(lambda: not watching.known, limit_seconds)
        reflector.stop()
        client.close()


def cpu_of(api: Api, component: str) -> float:
    """The processor seconds that a component of the control plane has used."""
    process = api.cluster.components[component].process
    assert process is not None
    return cpu_seconds(process.pid)


def create_gangs(
    api: Api, gangs: Sequence[int], scheduler_name: str, *, in_groups: bool
) -> dict[str, list[str]]:
    """The pods of every gang, gang by gang as the operator makes them; their names by job."""
    requests: list[tuple[str, str, bytes | None]] = []
    jobs: dict[str, list[str]] = {}
    for number, size in enumerate(gangs):
        job, ps = f"{scheduler_name[:5]}-{number}", size * 2 // 5
        group = f"{job}-{secrets.token_hex(4)}"  # without its controller none goes again
        if in_groups:
            policy = {"schedulingPolicy": {"gang": {"minCount": size}}}
            body = msgspec.json.encode({"metadata": {"name": group}, "spec": policy})
            requests.append(("POST", POD_GROUPS, body))
        for raw in pod_bodies(job, ps, size - ps):
            pod = msgspec.json.decode(raw)
            pod["spec"]["schedulerName"] = scheduler_name
            if in_groups:
                pod["spec"]["schedulingGroup"] = {"podGroupName": group}
            pod["spec"]["containers"][0]["image"] = "busybox"
            del pod["metadata"]["uid"], pod["metadata"]["resourceVersion"], pod["status"]
            jobs.setdefault(job, []).append(pod["metadata"]["name"])
            requests.append(("POST", PODS, msgspec.json.encode(pod)))
    for request in requests:
        api.send(*request)
    return jobs


def delete_pods(api: Api, names: list[str]) -> None:
    """At once: no kubelet would confirm their end."""
    body = msgspec.json.encode({"gracePeriodSeconds": 0})
    api.send_all([("DELETE", f"{PODS}/{name}", body) for name in names])


def start_extender(api: Api, folder: Path, extender: Extender) -> "subprocess.Popen[bytes]":
    """The extender, ready."""
    config, port = folder / "optimus.yaml", extender.port
    config.write_text(yaml.safe_dump({"extender": {"bind-gangs": extender.binds}}))
    flags = [
        f"--listen=127.0.0.1:{port}",
        f"--kubeconfig={api.cluster.kubeconfig}",
        f"--config={config}",
    ]
    with (folder / "extender.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "extender", *flags], stdout=log, stderr=log, cwd=REPOSITORY
        )
    http = urllib3.PoolManager(retries=False)

    def ready() -> bool:
        try:
            return http.request("GET", f"http://127.0.0.1:{port}/readyz").status == 200
        except urllib3.exceptions.HTTPError:
            return False

    wait(ready, 600.0)
    return process


def start_scheduler(
    api: Api,
    folder: Path,
    configuration: dict[str, Any],
    processes: list["subprocess.Popen[bytes]"],
    flags: Sequence[str] = (),
) -> int:
    """kube-scheduler with client limits that do not limit it; returns its port."""
    kubeconfig = str(api.cluster.kubeconfig)
    connection = {"kubeconfig": kubeconfig, "qps": 5000, "burst": 5000}
    path = folder / "kube-scheduler.yaml"
    election = {**configuration["leaderElection"], **LASTING_LEASE}
    changed = {"clientConnection": connection, "leaderElection": election}
    path.write_text(yaml.safe_dump({**configuration, **changed}))
    (port,) = pick_ports(1, random.Random())
    command = [
        str(api.cluster.binaries["kube-scheduler"]),
        f"--config={path}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--authorization-always-allow-paths=/metrics",
        *flags,
    ]
    with (folder / "kube-scheduler.log").open("wb") as log:
        processes.append(subprocess.Popen(command, stdout=log, stderr=log))
    return port


def figures(
    api: Api, watching: Watching, jobs: dict[str, list[str]], lease: str, used: dict[str, float]
) -> dict[str, Any]:
    """What one run comes to."""
    spec = msgspec.json.decode(api.send("GET", f"{LEASE}/{lease}"))["spec"]
    began = datetime.fromisoformat(spec["acquireTime"]).timestamp()
    seconds = max(watching.bound_at.values()) - began
    pods = len(watching.bound_at)
    whole = sum(all(name in watching.node for name in names) for names in jobs.values())
    per_gang = [len({watching.node[name] for name in names}) for names in jobs.values()]
    on_node = Counter(watching.node.values())
    whole_at = sorted(max(watching.bound_at[name] for name in names) for names in jobs.values())
    return {
        "pods_per_second": round(pods / seconds, 1),
        "seconds": round(seconds, 2),
        "first_binding_after_seconds": round(min(watching.bound_at.values()) - began, 2),
        "first_gang_whole_after_seconds": round(whole_at[0] - began, 2),
        "median_gang_whole_after_seconds": round(statistics.median(whole_at) - began, 2),
        "gangs_whole": whole,
        "servers_per_gang": round(statistics.mean(per_gang), 1),
        "most_pods_on_a_node": max(on_node.values()),
        "cpu_ms_per_pod": {name: round(each / pods * 1000, 2) for name, each in used.items()},
    }


def scheduler_metrics(port: int) -> dict[str, float]:
    """kube-scheduler's own account: attempts by result, and seconds by phase."""
    urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # its own certificate
    http = urllib3.PoolManager(cert_reqs="CERT_NONE")
    text = http.request("GET", f"https://127.0.0.1:{port}/metrics").data.decode()
    found: dict[str, float] = {}
    for result, value in re.findall(
        r'^scheduler_schedule_attempts_total\{.*?result="(\w+)"\} (\S+)', text, re.MULTILINE
    ):
        found[f"attempts {result}"] = float(value)
    for point, value in re.findall(
        r'^scheduler_framework_extension_point_duration_seconds_sum\{extension_point="(\w+)".*?\} '
        r"(\S+)",
        text,
        re.MULTILINE,
    ):
        total = found.get(f"seconds in {point}", 0.0) + float(value)
        found[f"seconds in {point}"] = round(total, 3)
    for name in ("scheduling_algorithm_duration", "pod_scheduling_sli_duration"):
        for value in re.findall(rf"^scheduler_{name}_seconds_sum.*? (\S+)$", text, re.MULTILINE):
            found[f"seconds of {name}"] = round(float(value), 3)
    return found


def extender_metrics(port: int) -> dict[str, float]:
    """The extender's own account: calls and their seconds, requeues by outcome, refusals."""
    text = urllib3.request("GET", f"http://127.0.0.1:{port}/metrics").data.decode()
    names = "requeues|gangs_bound|refusals|call_seconds"
    wanted = rf"^optimus_extender_((?:{names})_(?:total|count|sum).*) (\S+)$"
    return {name: round(float(value), 4) for name, value in re.findall(wanted, text, re.MULTILINE)}


def tree_of(pid: int) -> list[int]:
    """A process and its children, and theirs."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def rss_mb(pid: int) -> float:
    """The memory that a process has in use."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def wait(done: Any, limit_seconds: float) -> None:
    """Ask again and again; past the limit the benchmark ends."""
    deadline = time.monotonic() + limit_seconds
    while not done():
        if time.monotonic() > deadline:
            raise SystemExit(f"not done within {limit_seconds:.0f} s")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
