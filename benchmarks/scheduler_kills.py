"""Two schedulers of which the leader is killed again and again:
``python -m benchmarks.scheduler_kills [--kills 40] [--seed 1]``.

A real etcd and kube-apiserver run on loopback, and two kube-schedulers with the shipped
configuration, each with an extender of its own. Nodes are API objects without a kubelet. Gangs of
several sizes, requests and priorities, and single pods of no job, arrive all the time and end once
they are bound. At a random instant the leader's kube-scheduler, its extender or both get SIGKILL,
and are started again shortly after, as a kubelet does. As its liveness probe demands, a
kube-scheduler whose extender does not answer for 12 s is ended, too. Checked at every binding: no
node holds more than it has. Checked at the end: every gang was bound whole, none was bound in part
for longer than a reservation lasts, and no extender logged an error. The take-over is the time from
the kill to the first binding that is not of the killed processes. The result is one JSON object;
the exit status is 1 where anything was found.
"""

import argparse
import json
import math
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import urllib3
import yaml

from benchmarks.extender_throughput import pod_bodies
from benchmarks.scheduler_throughput import (
    LEASE,
    PODS,
    REPOSITORY,
    Api,
    cluster_of,
    tree_of,
    wait,
)
from extender.settings import Settings
from localcluster.ports import pick_ports
from optimus.kube.client import connect
from optimus.kube.pods import Pod, watched_pods
from optimus.kube.reflector import Reflector

NODES: Final = 12
REPLICAS: Final = ("replica-a", "replica-b")
VICTIMS: Final = (("kube-scheduler",), ("extender",), ("kube-scheduler", "extender"))
TAKE_OVER_SECONDS: Final = 20.0
RESERVATION_SECONDS: Final = Settings().reservation_seconds
IN_FLIGHT_SECONDS: Final = 1.0
"""A binding within this time after the kill may have been sent before it, and does not count."""

FULL: Final = 0.5
"""Gangs end while more of the CPUs than this is bound: there is always room for those that wait."""

DRAIN_SECONDS: Final = 120.0
_CPU: Final = "cpu"
_PRIORITY: Final = {"metadata": {"name": "urgent"}, "value": 1000}
_PRIORITIES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"


def main() -> None:
    """Run, print the figures, and fail where anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--gangs", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=420.0, help="no kill begins later")
    parser.add_argument("--bind", action="store_true", help="bind-gangs of the extenders")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--logs", type=Path, default=None, help="a folder to keep the logs in")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    print(f"seed {seed}", file=sys.stderr, flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # with its processes
    with tempfile.TemporaryDirectory() as temporary, cluster_of(NODES) as api:
        folder = options.logs or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        length = Length(options.kills, options.gangs, options.seconds, binds=options.bind)
        found = run(api, folder, seed, length)
    print(json.dumps(found, indent=1))
    sys.exit(1 if found["faults"] else 0)


class Length(NamedTuple):
    """How long a run is."""

    kills: int
    gangs: int
    """They arrive evenly between the kills."""

    seconds: float = math.inf
    """No kill begins later; then fewer gangs arrive, too."""

    take_over_seconds: float = TAKE_OVER_SECONDS
    """A take-over that lasts longer is a fault."""

    binds: bool = False
    """Whether the extenders bind the rest of gangs."""


def run(
    api: Api,
    folder: Path,
    seed: int,
    length: Length,
    lease: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Kills while gangs arrive, on a cluster of ``NODES`` empty nodes.

    ``lease`` replaces durations of the shipped ``leaderElection``. The result's ``faults`` are
    sentences; there must be none."""
    generator = random.Random(seed)
    api.send("POST", _PRIORITIES, msgspec.json.encode(_PRIORITY))
    ledger = Bindings({f"node-{number:05}": 16_000 for number in range(NODES)})
    client = connect(api.cluster.kubeconfig, user_agent="benchmark")
    reflector = Reflector(client, watched_pods(), observer=ledger.see)
    reflector.start()
    try:
        config = {"check-invariants": True, "bind-gangs": length.binds}
        with replicas(api, folder, lease or {}, config) as processes, Ending(api, ledger):
            found = Kills(api, ledger, processes, generator).run(length)
        found["faults"] += [f"{name}: {line}" for name, line in errors(folder)]
        return {"seed": seed, **found}
    finally:
        reflector.stop()
        client.close()


# --- the pods


def gang(number: int, generator: random.Random) -> list[bytes]:
    """The pods of one gang; of a tenth of them a single pod that no job controls."""
    job = f"job-{number}"
    ps, workers = generator.randint(0, 4), generator.randint(1, 8)
    if generator.random() < 0.1:
        ps, workers = 0, 1
    cpus = {"ps": str(generator.choice((1, 2))), "worker": str(generator.choice((1, 2, 4)))}
    is_urgent, has_job = generator.random() < 0.2, ps + workers > 1 or generator.random() < 0.5
    bodies = []
    for raw in pod_bodies(job, ps, workers):
        pod = msgspec.json.decode(raw)
        (container,) = pod["spec"]["containers"]
        role = "ps" if "-ps-" in pod["metadata"]["name"] else "worker"
        container |= {
            "image": "busybox",
            "resources": {"requests": {"cpu": cpus[role], "memory": "1Gi"}},
        }
        if is_urgent:
            pod["spec"]["priorityClassName"] = "urgent"
        if not has_job:
            del pod["metadata"]["ownerReferences"], container["env"]
        del pod["metadata"]["uid"], pod["metadata"]["resourceVersion"], pod["status"]
        bodies.append(msgspec.json.encode(pod))
    return bodies


@dataclass
class Gang:
    """What the watch has shown of one gang."""

    size: int
    nodes: dict[str, str] = field(default_factory=dict)
    first_bound_at: float = 0.0
    whole_at: float | None = None


class Bindings:
    """What is bound where, corrected at every event of the watch. Safe to use from threads."""

    def __init__(self, millicores: Mapping[str, int]) -> None:
        self._millicores, self._used = millicores, Counter[str]()
        self._lock = threading.Lock()
        self.bindings: list[float] = []
        """When each binding was seen (monotonic)."""
        self.gangs: dict[str, Gang] = {}
        self.faults: list[str] = []

    def expect(self, job: str, size: int) -> None:
        """A gang is about to be made."""
        with self._lock:
            self.gangs[job] = Gang(size)

    def see(self, before: Pod | None, after: Pod | None) -> None:
        """One pod's change."""
        was = None if before is None else before.node
        now = None if after is None else after.node
        pod = after or before
        assert pod is not None
        if was == now:
            return
        with self._lock:
            at, cpu = time.monotonic(), pod.resources[_CPU]
            if was is not None:
                self._used[was] -= cpu
            if now is not None:
                self._bind(pod, now, cpu, at)

    def _bind(self, pod: Pod, node: str, cpu: int, at: float) -> None:
        self._used[node] += cpu
        self.bindings.append(at)
        if self._used[node] > self._millicores[node]:
            self.faults.append(
                f"{node} holds {self._used[node]}m of {self._millicores[node]}m CPU with {pod.name}"
            )
        of_job = self.gangs[job_of(pod.name)]
        of_job.first_bound_at = of_job.first_bound_at or at
        of_job.nodes[pod.name] = node
        if len(of_job.nodes) == of_job.size:
            of_job.whole_at = at

    def bound_share(self) -> float:
        """Which part of all CPUs is bound."""
        with self._lock:
            return sum(self._used.values()) / sum(self._millicores.values())

    def whole(self) -> list[str]:
        """The gangs of which all is bound, the oldest first."""
        with self._lock:
            return [job for job, each in self.gangs.items() if each.whole_at is not None]

    def waiting(self) -> dict[str, str]:
        """How much of each gang that is not whole is bound."""
        with self._lock:
            return {
                job: f"{len(each.nodes)} of {each.size}"
                for job, each in self.gangs.items()
                if each.whole_at is None
            }

    def waiting_pods(self) -> int:
        """How many pods are not bound."""
        with self._lock:
            return sum(each.size - len(each.nodes) for each in self.gangs.values())

    def count_in_part(self) -> int:
        """How many gangs are bound in part."""
        with self._lock:
            return sum(0 < len(each.nodes) < each.size for each in self.gangs.values())

    def count(self) -> int:
        """How many bindings there have been."""
        with self._lock:
            return len(self.bindings)

    def bound_after(self, at: float) -> float | None:
        """When the first binding was seen that is later."""
        with self._lock:
            return next((each for each in self.bindings if each > at), None)

    def longest_in_part(self) -> float:
        """The longest time, in seconds, for which a gang was bound in part."""
        with self._lock:
            now = time.monotonic()
            return max(
                (
                    (each.whole_at or now) - each.first_bound_at
                    for each in self.gangs.values()
                    if each.nodes
                ),
                default=0.0,
            )


def job_of(pod: str) -> str:
    """The job of a pod, from its name."""
    return pod.rsplit("-", 2)[0]


class Ending:
    """Deletes the oldest gangs that are bound whole while the cluster is fuller than ``FULL``."""

    def __init__(self, api: Api, ledger: Bindings) -> None:
        self._api, self._ledger = api, ledger
        self._ended: set[str] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ending")

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        body = msgspec.json.encode({"gracePeriodSeconds": 0})
        while not self._stopping.wait(0.02):
            ready = [job for job in self._ledger.whole() if job not in self._ended]
            if not ready or self._ledger.bound_share() <= FULL:
                continue
            self._ended.add(ready[0])
            for pod in self._ledger.gangs[ready[0]].nodes:
                self._api.send("DELETE", f"{PODS}/{pod}", body)


# --- the processes


class Replica:
    """One kube-scheduler with its extender, in a host of its own name."""

    def __init__(
        self,
        api: Api,
        folder: Path,
        name: str,
        lease: Mapping[str, str],
        config: Mapping[str, object],
    ) -> None:
        """``config`` is the extender's section of its file."""
        self._config_values = config
        self._api, self._folder, self.name, self._lease = api, folder, name, lease
        self.port, self._secure_port = pick_ports(2, random.Random())
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        probe = manifest_probe()
        self._period: float = probe["periodSeconds"]
        self._timeout: float = probe["timeoutSeconds"]
        self._most_failures: int = probe["failureThreshold"]
        self.ended_by_probe = 0
        """How often kube-scheduler was ended since its extender did not answer."""
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._prober = threading.Thread(target=self._probe, name=f"probe-{name}")

    def start_probing(self) -> None:
        """Begin to probe kube-scheduler's liveness, as a kubelet does by the manifest."""
        self._prober.start()

    def stop(self) -> None:
        """End everything."""
        self._stopping.set()
        if self._prober.is_alive():
            self._prober.join()
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(30)

    def _probe(self) -> None:
        failures = 0
        while not self._stopping.wait(self._period):
            failures = 0 if self._answers("/healthz") else failures + 1
            if failures >= self._most_failures:
                failures = 0
                with self._lock:
                    self.ended_by_probe += 1
                    self.processes["kube-scheduler"].terminate()
                    self.processes["kube-scheduler"].wait(30)
                    self.start("kube-scheduler")

    def start(self, program: str) -> None:
        """Start one of the two programs, unless it runs: its probe may have been quicker."""
        with self._lock:
            if program not in self.processes or self.processes[program].poll() is not None:
                self._start(program)

    def _start(self, program: str) -> None:
        command = self._extender() if program == "extender" else self._scheduler()
        with (self._folder / f"{self.name}-{program}.log").open("ab") as log:
            self.processes[program] = subprocess.Popen(
                in_host(self.name, command), stdout=log, stderr=log, cwd=REPOSITORY
            )

    def kill(self, *programs: str) -> None:
        """End programs with SIGKILL, with all their processes, as the end of a container does."""
        with self._lock:
            pids = [pid for name in programs for pid in tree_of(self.processes[name].pid)]
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            for name in programs:
                self.processes[name].wait(120)

    def is_ready(self) -> bool:
        """Whether the extender says so, and kube-scheduler serves."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._secure_port), 1.0):
            return self._answers("/readyz")
        return False

    def _answers(self, path: str) -> bool:
        url = f"http://127.0.0.1:{self.port}{path}"
        try:
            return urllib3.request("GET", url, retries=False, timeout=self._timeout).status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def _extender(self) -> list[str]:
        return [
            *(sys.executable, "-m", "extender", f"--config={self._config()}"),
            f"--listen=127.0.0.1:{self.port}",
            f"--kubeconfig={self._api.cluster.kubeconfig}",
        ]

    def _config(self) -> Path:
        path = self._folder / "optimus.yaml"
        path.write_text(yaml.safe_dump({"extender": dict(self._config_values)}))
        return path

    def _scheduler(self) -> list[str]:
        shipped = REPOSITORY / "scheduler-config" / "kube-scheduler-config.yaml"
        configuration = yaml.safe_load(shipped.read_text())
        configuration["clientConnection"] = {"kubeconfig": str(self._api.cluster.kubeconfig)}
        configuration["extenders"][0]["urlPrefix"] = f"http://127.0.0.1:{self.port}"
        configuration["leaderElection"] |= self._lease
        path = self._folder / f"{self.name}.yaml"
        path.write_text(yaml.safe_dump(configuration))
        return [
            str(self._api.cluster.binaries["kube-scheduler"]),
            f"--config={path}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._secure_port}",
        ]


def manifest_probe() -> dict[str, Any]:
    """The liveness probe of kube-scheduler's container, which asks its extender."""
    manifest = yaml.safe_load((REPOSITORY / "manifests" / "scheduler.yaml").read_text())
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    probe: dict[str, Any] = container["livenessProbe"]
    return probe


def in_host(name: str, command: list[str]) -> list[str]:
    """The command with a host name of its own, which is the identity in kube-scheduler's Lease."""
    return [sys.executable, str(REPOSITORY / "benchmarks" / "host_name.py"), name, *command]


@contextmanager
def replicas(
    api: Api, folder: Path, lease: Mapping[str, str], config: Mapping[str, object]
) -> Iterator[dict[str, Replica]]:
    """Both replicas, ready; they end with the block."""
    made = {name: Replica(api, folder, name, lease, config) for name in REPLICAS}
    try:
        for program in ("extender", "kube-scheduler"):
            for each in made.values():
                each.start(program)
        wait(lambda: all(each.is_ready() for each in made.values()), 600.0)
        for each in made.values():
            each.start_probing()
        yield made
    finally:
        for each in made.values():
            each.stop()


def errors(folder: Path) -> Iterator[tuple[str, str]]:
    """The lines with which an extender reported an error of its own."""
    for path in sorted(folder.glob("*-extender.log")):
        for line in path.read_text().splitlines():
            if " ERROR " in line or line.startswith("Traceback"):
                yield path.stem, line


# --- the kills


class Kills:
    """The rounds: gangs arrive, the leader is killed among their bindings, another takes over."""

    def __init__(
        self,
        api: Api,
        ledger: Bindings,
        processes: Mapping[str, Replica],
        generator: random.Random,
    ) -> None:
        self._api, self._ledger, self._random = api, ledger, generator
        self._replicas = processes
        self._made = self._in_part = 0
        self._seconds: dict[str, list[float]] = {}
        self._faults = ledger.faults
        self._take_over_seconds = TAKE_OVER_SECONDS

    def run(self, length: Length) -> dict[str, Any]:
        """All rounds, then the end of everything that still waits."""
        began, self._take_over_seconds = time.monotonic(), length.take_over_seconds
        for number in range(1, length.kills + 1):
            if time.monotonic() - began > length.seconds:
                break
            made = [
                gang(self._made + each, self._random)
                for each in range(1, length.gangs * number // length.kills - self._made + 1)
            ]
            pods = self._ledger.waiting_pods() + sum(len(bodies) for bodies in made)
            until = self._ledger.count() + self._random.randint(0, pods)
            # The other replica, which was killed before, is to be there again.
            wait(lambda: all(each.is_ready() for each in self._replicas.values()), 180.0)
            with ThreadPoolExecutor(1) as thread:
                arriving = thread.submit(self._arrive, made)
                self._wait_bindings(until, arriving.done)
                self._kill(number, arriving.done)
                arriving.result()
        wait_or_say(
            lambda: not self._ledger.waiting(),
            DRAIN_SECONDS,
            lambda: self._faults.append(f"never bound whole: {self._ledger.waiting()}"),
        )
        in_part = self._ledger.longest_in_part()
        if in_part > RESERVATION_SECONDS:
            self._faults.append(f"a gang was bound in part for {in_part:.0f} s")
        every = [each for found in self._seconds.values() for each in found]
        return {
            "kills": {name: len(found) for name, found in sorted(self._seconds.items())},
            "kube_scheduler_ended_by_its_probe": sum(
                each.ended_by_probe for each in self._replicas.values()
            ),
            "load_average_at_the_end": round(os.getloadavg()[0], 1),
            "kills_while_a_gang_was_bound_in_part": self._in_part,
            "gangs": self._made,
            "bindings": self._ledger.count(),
            "seconds": round(time.monotonic() - began),
            "take_over_seconds": {
                name: figures(found) for name, found in sorted(self._seconds.items())
            }
            | {"all": figures(every)},
            "longest_bound_in_part_seconds": round(in_part, 1),
            "faults": self._faults,
        }

    def _arrive(self, gangs: list[list[bytes]]) -> None:
        """Make these gangs, one after the other."""
        for bodies in gangs:
            self._made += 1
            self._ledger.expect(f"job-{self._made}", len(bodies))
            for body in bodies:
                self._api.send("POST", PODS, body)

    def _wait_bindings(self, until: int, arrived: Callable[[], bool]) -> None:
        """Until there have been so many bindings, or nothing is left to bind."""
        wait_or_say(
            lambda: self._ledger.count() >= until or (arrived() and not self._ledger.waiting()),
            self._take_over_seconds,
            lambda: self._faults.append(
                f"no more bindings before a kill; bound: {self._ledger.waiting()}"
            ),
        )

    def _kill(self, number: int, arrived: Callable[[], bool]) -> None:
        victims = self._random.choice(VICTIMS)
        leader = self._replicas[self._leader()]
        killed_at = time.monotonic()
        self._in_part += self._ledger.count_in_part() > 0
        leader.kill(*victims)
        time.sleep(self._random.uniform(0.2, 1.0))  # a kubelet notices, and starts them again
        for program in victims:
            leader.start(program)
        time.sleep(max(killed_at + IN_FLIGHT_SECONDS - time.monotonic(), 0.0))
        if arrived() and not self._ledger.waiting():
            self._arrive([gang(self._made + 1, self._random)])
        name = " and ".join(victims)
        wait_or_say(
            lambda: self._ledger.bound_after(killed_at + IN_FLIGHT_SECONDS) is not None,
            3 * self._take_over_seconds,
            lambda: self._faults.append(f"kill {number} of {name}: nothing is bound any more"),
        )
        at = self._ledger.bound_after(killed_at + IN_FLIGHT_SECONDS) or time.monotonic()
        taken = at - killed_at
        if taken > self._take_over_seconds:
            self._faults.append(f"kill {number} of {name}: taken over after {taken:.1f} s")
        self._seconds.setdefault(name, []).append(taken)
        print(
            f"kill {number}: {name} of {leader.name}, taken over after {taken:.1f} s by"
            f" {self._leader()}; {self._made} gangs, {len(self._ledger.waiting())} waiting",
            file=sys.stderr,
            flush=True,
        )

    def _leader(self) -> str:
        """The replica that holds the Lease."""
        found = ""

        def is_held() -> bool:
            nonlocal found
            lease = msgspec.json.decode(self._api.send("GET", f"{LEASE}/optimus-scheduler"))
            found = (lease["spec"].get("holderIdentity") or "").rpartition("_")[0]
            return found in self._replicas

        wait(is_held, 180.0)
        return found


def figures(seconds: list[float]) -> dict[str, float]:
    """Median, 95th percentile and largest."""
    if not seconds:
        return {}
    ordered = sorted(seconds)
    return {
        "median": round(statistics.median(ordered), 1),
        "p95": round(ordered[math.ceil(0.95 * len(ordered)) - 1], 1),
        "max": round(ordered[-1], 1),
    }


def wait_or_say(done: Callable[[], bool], seconds: float, say: Callable[[], None]) -> None:
    """Ask again and again; past the limit, say so and go on."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            say()
            return
        time.sleep(0.02)


if __name__ == "__main__":
    main()
