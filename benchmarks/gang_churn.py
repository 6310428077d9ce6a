"""Gangs that come and go while the extender binds them, and what could go wrong with that:
``python -m benchmarks.gang_churn [--gangs 1000] [--kills 20] [--second-scheduler] [--no-bind]``.

A real etcd, kube-apiserver and kube-scheduler run on loopback with one extender. Nodes are API
objects without a kubelet. Gangs of several sizes, requests and priorities, and single pods of no
job, arrive all the time and end once they are bound; a few always wait. Kills: the extender gets
SIGKILL when a random number of further bindings has been seen, so mostly among the bindings of a
gang, at the earliest when it binds gangs again after the last kill, and is started again. A second
scheduler, a stock kube-scheduler, places single pods of its own on the same nodes. Checked at every
binding: no node holds more than it has. Checked at the end: every gang was bound whole. The result
is one JSON object; the exit status is 1 where anything was found. ``--no-bind`` leaves all binding
to kube-scheduler, for comparison.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import urllib3
import yaml

from benchmarks.scheduler_kills import (
    DRAIN_SECONDS,
    NODES,
    Bindings,
    Ending,
    Replica,
    errors,
    gang,
    job_of,
    wait_or_say,
)
from benchmarks.scheduler_throughput import PODS, Api, cluster_of, wait
from extender.state.unseen_bindings import OTHERS_SECONDS
from localcluster.ports import pick_ports
from optimus.kube.client import connect
from optimus.kube.pods import watched_pods
from optimus.kube.reflector import Reflector

WAITING_GANGS: Final = 6
"""Gangs are made while fewer than this wait."""

SECOND: Final = "second"
"""The name of the second scheduler; a fifth of all arrivals are its single pods."""

STALL_SECONDS: Final = 60.0

SETTLE_SECONDS: Final = OTHERS_SECONDS + 1.0
"""An extender that has begun beside bound pods binds no gang sooner."""

_PRIORITY: Final = {"metadata": {"name": "urgent"}, "value": 1000}


def main() -> None:
    """Run, print the figures, and fail where anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gangs", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600.0, help="no gang is made later")
    parser.add_argument("--second-scheduler", action="store_true")
    parser.add_argument("--no-bind", dest="binds", action="store_false")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--logs", type=Path, default=None, help="a folder to keep the logs in")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # with its processes
    with tempfile.TemporaryDirectory() as temporary, cluster_of(NODES) as api:
        folder = options.logs or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = run(api, folder, seed, options)
    print(json.dumps(found, indent=1))
    sys.exit(1 if found["faults"] else 0)


def run(api: Api, folder: Path, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Gangs come and go on a cluster of ``NODES`` empty nodes."""
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    api.send("POST", path, msgspec.json.encode(_PRIORITY))
    ledger = Bindings({f"node-{number:05}": 16_000 for number in range(NODES)})
    client = connect(api.cluster.kubeconfig, user_agent="benchmark")
    reflector = Reflector(client, watched_pods(), observer=ledger.see)
    reflector.start()
    config = {"check-invariants": True, "bind-gangs": options.binds}
    replica = Replica(api, folder, "replica-a", {}, config)
    try:
        replica.start("extender")
        replica.start("kube-scheduler")
        wait(replica.is_ready, 600.0)
        with second_scheduler(api, folder, wanted=options.second_scheduler), Ending(api, ledger):
            churn = Churn(api, ledger, replica, random.Random(seed))
            found = churn.run(options)
        found["outcomes"] = outcomes(replica.port)
        found["faults"] += [f"{name}: {line}" for name, line in errors(folder)]
        return {"seed": seed, "binds": options.binds, **found}
    finally:
        replica.stop()
        reflector.stop()
        client.close()


@contextmanager
def second_scheduler(api: Api, folder: Path, *, wanted: bool) -> Iterator[None]:
    """A stock kube-scheduler that asks no extender."""
    if not wanted:
        yield
        return
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(api.cluster.kubeconfig)},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": SECOND}],
    }
    path = folder / "second.yaml"
    path.write_text(yaml.safe_dump(configuration))
    with running_program(api, "kube-scheduler", folder / "second.log", f"--config={path}"):
        yield


@contextmanager
def running_program(api: Api, program: str, log_file: Path, *flags: str) -> Iterator[None]:
    """A program of the control plane that serves on loopback, beside those of the cluster."""
    (port,) = pick_ports(1, random.Random())
    served = ("--bind-address=127.0.0.1", f"--secure-port={port}")
    with log_file.open("wb") as log:
        command = [str(api.cluster.binaries[program]), *flags, *served]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


class Churn:
    """Makes gangs while few wait, and kills the extender among bindings."""

    def __init__(
        self, api: Api, ledger: Bindings, replica: Replica, generator: random.Random
    ) -> None:
        self._api, self._ledger, self._replica, self._random = api, ledger, replica, generator
        self._made = self._kills = self._in_part = self._others = 0
        self._stopping = threading.Event()

    def run(self, options: argparse.Namespace) -> dict[str, Any]:
        """Make so many gangs, then wait until the last is bound."""
        began = time.monotonic()
        killing = threading.Thread(target=self._kill, args=(options.kills,))
        killing.start()
        with ThreadPoolExecutor(8) as threads:
            while self._made < options.gangs and time.monotonic() - began < options.seconds:
                if not self._wait_for_few(began):
                    break
                threads.map(lambda body: self._api.send("POST", PODS, body), self._gang(options))
        self._stopping.set()
        killing.join()
        wait_or_say(
            lambda: not self._ledger.waiting(),
            DRAIN_SECONDS,
            lambda: self._ledger.faults.append(f"never bound whole: {self._ledger.waiting()}"),
        )
        seconds = time.monotonic() - began
        return {
            "gangs": self._made,
            "single_pods_of_the_second_scheduler": self._others,
            "kills": self._kills,
            "kills_while_a_gang_was_bound_in_part": self._in_part,
            "bindings": self._ledger.count(),
            "seconds": round(seconds),
            "bindings_per_second": round(self._ledger.count() / seconds, 1),
            "longest_bound_in_part_seconds": round(self._ledger.longest_in_part(), 1),
            "load_average_at_the_end": round(os.getloadavg()[0], 1),
            "faults": self._ledger.faults,
        }

    def _wait_for_few(self, began: float) -> bool:
        """Wait until few gangs wait; whether that came."""
        since = time.monotonic()
        while len(self._ledger.waiting()) >= WAITING_GANGS:
            if time.monotonic() - since > STALL_SECONDS:
                self._ledger.faults.append(
                    f"nothing is bound after {since - began:.0f} s: {self._ledger.waiting()}"
                )
                return False
            time.sleep(0.005)
        return True

    def _gang(self, options: argparse.Namespace) -> list[bytes]:
        self._made += 1
        bodies = gang(self._made, self._random)
        if options.second_scheduler and self._random.random() < 0.2:
            pod = msgspec.json.decode(bodies[0])
            pod["metadata"].pop("ownerReferences", None)
            pod["spec"]["schedulerName"] = SECOND
            pod["spec"].pop("priorityClassName", None)
            bodies = [msgspec.json.encode(pod)]
            self._others += 1
        name = msgspec.json.decode(bodies[0])["metadata"]["name"]
        self._ledger.expect(job_of(name), len(bodies))
        return bodies

    def _kill(self, kills: int) -> None:
        while self._kills < kills and not self._stopping.is_set():
            self._stopping.wait(SETTLE_SECONDS)
            until = self._ledger.count() + self._random.randint(1, 60)
            while self._ledger.count() < until and not self._stopping.is_set():
                time.sleep(0.001)
            if self._stopping.is_set():
                return
            self._replica.kill("extender")
            self._kills += 1
            self._in_part += self._ledger.count_in_part() > 0
            self._replica.start("extender")
            wait(self._replica.is_ready, 180.0)


def outcomes(port: int) -> dict[str, float]:
    """What became of each gang, as the last process of the extender counts."""
    text = urllib3.request("GET", f"http://127.0.0.1:{port}/metrics").data.decode()
    wanted = r'^optimus_extender_gangs_bound_total\{outcome="(.*)"\} (\S+)$'
    return {name: float(count) for name, count in re.findall(wanted, text, re.MULTILINE)}


if __name__ == "__main__":
    main()
