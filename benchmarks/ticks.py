"""What ticks of the autoscaler cost on a large cluster:
``python -m benchmarks.ticks [--jobs 4000] [--nodes 16000] [--pods 100000]``.

The watch caches are filled from JSON as an API server sends it, and the controller ticks on them.
Every job runs at the counts that its bounds allow, with 20 measured speeds and 200 losses in its
profile. In the first tick everything is taken up and an interval is planned, with a fit of every
job. In the ``idle`` ticks after it nothing happens; in the ``busy`` ones one pod in a thousand
changes before each tick; then an interval is due again, of which no job has news. CPU seconds of
this process, without reads of logs (see ``benchmarks.log_reading``); calls are those of the API
server, and ``megabytes`` what the process has in memory after all."""

import argparse
import itertools
import json
import queue
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final, cast

import msgspec
import numpy as np
import urllib3

from autoscaler.cluster import Caches
from autoscaler.controller import Clock, ClusterAccess, Controller, ControllerConfig, Timing
from autoscaler.controller import Process as Parts
from autoscaler.decide import DecisionConfig
from autoscaler.logs.last_words import LastWords
from autoscaler.logs.poller import LogPoller
from autoscaler.logs.rotation import WorkerRotation
from autoscaler.memory import MemoryWatch
from autoscaler.metrics import Metrics
from benchmarks.extender_throughput import pod_bodies
from benchmarks.first_list import TOLERATIONS, node_bodies, rss_mb, wait_filled
from benchmarks.fits import draw_case
from optimus.jobs import Counts
from optimus.kube.client import Client
from optimus.kube.contract import Phase
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.events import EventType, Subject
from optimus.kube.pods import Pod
from optimus.kube.profile_codec import SavedState, pack
from optimus.kube.profiles import ProfileStatus, TrainingProfile
from optimus.kube.reflector import ReflectorConfig
from optimus.kube.results import Refused, Written
from optimus.kube.stored_settings import ClusterSettings
from optimus.kube.training_jobs import TrainingJob
from optimus.lifecycle import JobRecord
from optimus.models.forecast import forecast_job
from optimus.placement.theorem1 import Theorem1
from optimus.policies import policy_named
from optimus.progress.state import LogState
from optimus.progress.stragglers import StragglerConfig
from optimus.progress.types import LogRead
from optimus.rescale.machine import RescaleConfig

AT: Final = 1_800_000_000.0
STARTED: Final = "2027-01-15T07:00:00Z"
TICK_SECONDS: Final = 2.0
_IDLE, _BUSY = 10, 10
_SAMPLES, _POINTS = 20, 200
_PAGE: Final = ReflectorConfig().page
_POLL_SECONDS: Final = 0.1
_BOOKMARK: Final = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1"}}}\n'
"""A watch that shows nothing for long would count as silent."""


def main() -> None:
    """Tick, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=4000)
    parser.add_argument("--nodes", type=int, default=16000)
    parser.add_argument("--pods", type=int, default=100000)
    given = parser.parse_args()
    print(json.dumps(figures(given.jobs, given.nodes, given.pods), indent=1))


def figures(jobs: int, nodes: int, pods: int) -> dict[str, object]:
    """The cost of each kind of tick."""
    api = StoredCluster(jobs, nodes, pods // jobs)
    before = rss_mb()
    caches = Caches(
        cast("Client", api), EligibilityConfig(), "", "", ReflectorConfig(watch_seconds=1e6)
    )
    with caches:
        wait_filled(*caches.all)
        filled = rss_mb()
        calls = Calls()
        now = [AT]
        controller = controller_of(caches, calls, lambda: now[0])

        def tick() -> dict[str, float]:
            now[0] += TICK_SECONDS
            calls.count.clear()
            began = time.process_time()
            plan = controller.tick()
            seconds = time.process_time() - began
            return {
                "seconds": round(seconds, 4),
                "planned": plan is not None,
                "calls": calls.count.total(),
            }

        first = tick()
        written = first["calls"]
        settling = 0
        while settled := tick()["calls"]:
            settling += 1
            written += settled
        idle = [tick() for _ in range(_IDLE)]
        busy = []
        for number in range(_BUSY):
            api.change_pods(pods // 1000, number)
            busy.append(tick())
        now[0] += 600
        again = tick()
        if not again["planned"]:
            raise RuntimeError("no interval was planned")
        return {
            "jobs": len(controller.managed.states),
            "pods": jobs * (pods // jobs),
            "first_tick": first,
            "profiles_written_after_it": written,
            "ticks_until_all_were_written": settling,
            "idle_tick": _summary(idle),
            "tick_with_0.1_%_of_pods_changed": _summary(busy),
            "interval_without_news": again,
            "megabytes_of_caches": round(filled - before),
            "megabytes": round(rss_mb()),
        }


def _summary(ticks: Sequence[dict[str, float]]) -> dict[str, float]:
    seconds = [each["seconds"] for each in ticks]
    return {
        "seconds": round(statistics.median(seconds), 4),
        "most_seconds": round(max(seconds), 4),
        "calls": sum(each["calls"] for each in ticks),
        "planned": sum(each["planned"] for each in ticks),
    }


class StoredCluster:
    """What an API server holds: lists in pages, and watches that show what is put into them."""

    def __init__(self, jobs: int, nodes: int, gang: int) -> None:
        self.counts = Counts(gang // 5, gang - gang // 5)
        self._nodes, self._jobs = nodes, jobs
        self._node_bodies = list(node_bodies(nodes))
        self._over = threading.Event()
        self._events: queue.Queue[bytes] = queue.Queue()

    def get(self, what: str, path: str, query: Sequence[tuple[str, str]] = ()) -> bytes:
        """One page of a list; of kinds that are not needed an empty one."""
        del path
        kind, first = what.removeprefix("list "), int(dict(query).get("continue", "0"))
        items = list(itertools.islice(self._objects(kind, first), _PAGE))
        token = b',"continue":"%d"' % (first + _PAGE) if len(items) == _PAGE else b""
        metadata = b'{"resourceVersion":"1"' + token + b"}"
        return b'{"metadata":' + metadata + b',"items":[' + b",".join(items) + b"]}"

    @contextmanager
    def stream(
        self, what: str, path: str, query: Sequence[tuple[str, str]], read_seconds: float
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """A watch; that of pods shows what is changed."""
        del path, query, read_seconds
        yield cast("urllib3.BaseHTTPResponse", _Watch(self, shows=what == "watch pods"))

    def end(self) -> None:
        """End all watches."""
        self._over.set()

    def watched(self, *, shows: bool) -> Iterator[bytes]:
        """The events of a watch, as they come."""
        for turn in itertools.count():
            if self._over.wait(_POLL_SECONDS):
                break
            if turn % 100 == 0:
                yield _BOOKMARK
            with suppress(queue.Empty):
                while shows:
                    yield self._events.get_nowait()
                    self._events.task_done()  # the reader asks for the next one
        raise urllib3.exceptions.ProtocolError("the watch is over")

    def change_pods(self, count: int, turn: int) -> None:
        """Change some pods, spread over the jobs, as a new resource version does; returns once the
        watch has taken them in."""
        size = sum(self.counts)
        for number in range(count):
            at = (number * 997 + turn) * size % (self._jobs * size)
            body = msgspec.json.decode(next(self._objects("pods", at)))
            body["metadata"]["resourceVersion"] = f"{turn + 2}"
            event = {"type": "MODIFIED", "object": body}
            self._events.put(msgspec.json.encode(event) + b"\n")
        self._events.join()

    def _objects(self, kind: str, first: int) -> Iterator[bytes]:
        if kind == "nodes":
            return iter(self._node_bodies[first:])
        if kind == "pods":
            return self._pods(first)
        if kind == "tfjobs":
            return (self._job(number) for number in range(first, self._jobs))
        if kind == "trainingprofiles":
            return (self._profile(number) for number in range(first, self._jobs))
        return iter(())

    def _pods(self, first: int) -> Iterator[bytes]:
        size = sum(self.counts)
        for at in range(first, self._jobs * size):
            if at % size == 0 or at == first:
                gang = pod_bodies(f"job-{at // size:05}", *self.counts, "1")
            pod = msgspec.json.decode(gang[at % size])
            pod["metadata"]["creationTimestamp"] = STARTED
            pod["spec"] |= {"nodeName": f"node-{at % self._nodes:05}", "tolerations": TOLERATIONS}
            running = {"name": "tensorflow", "state": {"running": {"startedAt": STARTED}}}
            status = {"phase": "Running", "startTime": STARTED, "containerStatuses": [running]}
            yield msgspec.json.encode({**pod, "status": status})

    def _job(self, number: int) -> bytes:
        counts, name = self.counts, f"job-{number:05}"
        least = {"min-ps": counts.ps, "min-workers": counts.workers}
        most = {"max-ps": counts.ps, "max-workers": counts.workers}
        wanted = {**least, **most, "target-loss": 0.01, "training-mode": "sync"}
        requests = {"cpu": "2", "memory": "4Gi"}
        container = {"name": "tensorflow", "resources": {"requests": requests}}
        template = {"spec": {"schedulerName": "optimus-scheduler", "containers": [container]}}
        metadata = {
            "name": name,
            "namespace": "ns",
            "uid": name,
            "resourceVersion": "1",
            "creationTimestamp": STARTED,
            "annotations": {f"optimus.dl/{key}": str(value) for key, value in wanted.items()},
        }
        specs = {
            "PS": {"replicas": counts.ps, "template": template},
            "Worker": {"replicas": counts.workers, "template": template},
        }
        spec = {"runPolicy": {}, "tfReplicaSpecs": specs}
        return msgspec.json.encode({"metadata": metadata, "spec": spec, "status": {}})

    def _profile(self, number: int) -> bytes:
        name = f"job-{number:05}"
        job = {"kind": "TFJob", "name": name, "uid": name}
        metadata = {"name": name, "namespace": "ns", "uid": f"p-{name}", "resourceVersion": "1"}
        stored = ProfileStatus(phase=Phase.TRAINING, state=self._state(number))
        return msgspec.json.encode(
            {"metadata": metadata, "spec": {"jobRef": job}, "status": stored}
        )

    def _state(self, number: int) -> str:
        """What an earlier process has stored of a job: its speeds, its losses and its run."""
        _, known = draw_case(number, _SAMPLES, _POINTS, np.random.default_rng(number))
        samples = [replace(each, at=AT - 1000) for each in known.samples]
        log = LogState(
            run=f"job-{number:05}-worker-0",
            ps=self.counts.ps,
            workers=self.counts.workers,
            losses=list(known.losses),
            samples=samples,
            step=known.step,
            epoch=known.epoch,
            steps_per_epoch=known.steps_per_epoch,
            node_kind="",
        )
        user, done = self.counts, (Counts(1, 1),) * 8
        record = JobRecord(user_counts=user, floor=user, profiled=done, measured_at=AT - 1000)
        return pack(SavedState(log, record))


class _Watch:
    """The response of a watch."""

    def __init__(self, cluster: StoredCluster, *, shows: bool) -> None:
        self._cluster, self._shows = cluster, shows

    def stream(self, _: int) -> Iterator[bytes]:
        """Its body."""
        return self._cluster.watched(shows=self._shows)

    def shutdown(self) -> None:
        """As a response is interrupted."""
        self._cluster.end()


class Calls:
    """Takes the calls of a controller as an API server would, and counts them."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()

    def create(self, job: TrainingJob) -> Refused:
        """No profile is missing."""
        raise AssertionError(job.key)

    def delete(self, profile: TrainingProfile) -> Written:
        """No profile is in the way."""
        raise AssertionError(profile.name)

    def stored(self, profile: TrainingProfile) -> TrainingProfile:
        """Never asked for, as no write is refused."""
        raise AssertionError(profile.name)

    def write_status(self, profile: TrainingProfile, status: ProfileStatus) -> Written:
        """One profile is written."""
        del profile, status
        self.count["profiles"] += 1
        return Written("2")

    def emit(self, job: Subject, kind: EventType, reason: str, message: str) -> Written:
        """One Event."""
        del job, kind, message
        self.count[f"Events {reason}"] += 1
        return Written()

    def __getattr__(self, name: str) -> Callable[..., Refused]:
        """Any other call would be of a rescale, and no job may be moved."""
        raise AttributeError(name)

    def read(
        self, pod: Pod, *, since: float | None = None, last_lines: int | None = None
    ) -> LogRead:
        """A log without a new line."""
        del pod, since, last_lines
        return LogRead([])


def controller_of(caches: Caches, calls: Calls, now: Callable[[], float]) -> Controller:
    """The controller of the autoscaler with its usual settings, but for the calls that it makes."""
    metrics = Metrics()
    # Logs have a benchmark of their own.
    logs = LogPoller(calls, readers=1, poll_seconds=1e9)
    every, policy = cast("Any", calls), policy_named("optimus")
    access = ClusterAccess(caches, every, every, calls, calls, every, every)
    decisions = DecisionConfig(policy, Theorem1(), forecast_job, stale_seconds=1800.0)
    rescales, timing = RescaleConfig(fresh_seconds=30.0), Timing(log_seconds=0.0)
    settings = ClusterSettings(decisions.settings)
    config = ControllerConfig(decisions, rescales, timing, settings, 30.0)
    readers = WorkerRotation(calls, StragglerConfig(), logs.pool), LastWords(calls, logs.pool)
    memory = MemoryWatch(dict, logs.pool)
    return Controller(access, config, Parts(metrics, Clock(now, now), logs, *readers, logs, memory))


if __name__ == "__main__":
    main()
