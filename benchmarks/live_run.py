"""One side of ``benchmarks.live_worth``: six jobs on a cluster of their own, and what they did."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

from autoscaler.settings import Settings
from benchmarks.live_jobs import FASTER, NODES, PlannedJob
from localcluster.specs import Backend
from tests.harness.api import CORE, KUBEFLOW, OPTIMUS, Json, in_namespace
from tests.harness.optimus_cluster import (
    QUICK_TUNING,
    OptimusCluster,
    Tuning,
    optimus_cluster,
    training_nodes,
)
from tests.harness.scenario import Scenario, scenario_namespace
from tests.harness.training_runs import TrainingLogs
from tests.harness.watch_recorder import WatchRecorder

MANAGED: Final = "managed"
UNTOUCHED: Final = "untouched"
_KEPT: Final = ("lease_seconds", "cache_age_limit_seconds")
"""What a busy machine needs in full."""

_LEAST_TICK_SECONDS: Final = 0.5
_STEP: Final = re.compile(r"^(\S+Z) epoch=\d+ step=(\d+) loss=")
_WATCH_SECONDS: Final = 3600


def faster_tuning(recommends: bool) -> Tuning:
    """The product's own settings, so many times faster."""
    defaults = Settings()
    seconds: dict[str, float] = {
        each.name: getattr(defaults, each.name) / FASTER
        for each in fields(Settings)
        if each.name.endswith("_seconds") and each.name not in _KEPT
    }
    seconds["tick_seconds"] = max(seconds["tick_seconds"], _LEAST_TICK_SECONDS)
    moves = round(defaults.moves_per_hour * FASTER)
    return Tuning(
        {
            **{name: f"{value:g}" for name, value in seconds.items()},
            "moves_per_hour": str(moves),
            "node_selector": QUICK_TUNING.autoscaler["node_selector"],
            "recommend": "true" if recommends else "false",
        },
        {
            "node_selector": QUICK_TUNING.extender["node_selector"],
            "reservation_seconds": "30",  # longer than kube-scheduler's back-off
            "rescale_hold_seconds": f"{seconds['start_timeout_seconds']:g}",
            "age_limit_seconds": f"{600 / FASTER:g}",
        },
    )


@dataclass
class JobRecord:
    """What was seen of a job; instants are seconds after the beginning."""

    job: str
    user_counts: tuple[int, int]
    training_seconds_at_user_counts: float
    deadline: float | None = None
    submitted: float = 0.0
    ended: float | None = None
    runs: list[list[tuple[float, int]]] = field(default_factory=list)
    """For each life of its trainer 0 the instants of its steps."""
    counts: list[tuple[float, int, int]] = field(default_factory=list)
    """From when on the job has had which PSs and workers."""
    statuses: list[tuple[float, Json]] = field(default_factory=list)
    """Its profile after each change of what is decided."""
    events: list[tuple[str, str]] = field(default_factory=list)


class Side:
    """A cluster with its jobs, from the first to the end of the last."""

    def __init__(self, name: str, optimus: OptimusCluster, scenario: Scenario) -> None:
        self.name, self._optimus, self._scenario = name, optimus, scenario
        self.records: dict[str, JobRecord] = {}
        api, namespace = scenario.api, scenario.namespace
        self._logs = TrainingLogs(api, namespace)
        watched: list[tuple[str, str, Callable[[Json], None]]]
        watched = [(OPTIMUS, "trainingprofiles", self._note_profile)]
        watched += [(KUBEFLOW, each, self._note_job) for each in optimus.plurals.values()]
        watched += [(CORE, "pods", self._logs.update)]
        self._watches = [
            WatchRecorder(api, in_namespace(root, namespace, plural), note, _WATCH_SECONDS)
            for root, plural, note in watched
        ]
        self._stack = ExitStack()
        self._began = time.time()

    def __enter__(self) -> Self:
        for each in self._watches:
            self._stack.enter_context(each)
        return self

    def __exit__(self, *exc: object) -> None:
        self._logs.finish()
        self._stack.close()

    def begin(self, began: float) -> None:
        """Count seconds from this instant on."""
        self._began = began

    def submit(self, planned: PlannedJob) -> None:
        """Create a job."""
        job, now = planned.job, self._now()
        self.records[job.name] = JobRecord(
            job.name,
            (job.ps, job.workers),
            round(planned.training_seconds(job.ps, job.workers), 1),
            now + planned.slack_seconds if planned.slack_seconds else None,
            now,
        )
        self._scenario.submit(planned.created(time.time()))

    @property
    def have_ended(self) -> bool:
        """Whether all jobs that were submitted have ended."""
        return all(each.ended is not None for each in self.records.values())

    def finish(self) -> None:
        """Take in what is read at the end."""
        for name, record in self.records.items():
            record.runs = [self._steps(run.lines) for run in self._logs.runs(name)]
            told = sorted(self._scenario.events(name), key=_told_at)
            record.events = [(each["reason"], each["message"]) for each in told]

    def cpu_seconds(self) -> float:
        """The CPU time of the cluster's processes, those included that have ended."""
        supervisor = self._optimus.cluster.status.supervisor
        return 0.0 if supervisor is None else tree_cpu_seconds(supervisor.pid)

    def autoscaler_log(self) -> str:
        """The last lines of the autoscaler."""
        return self._optimus.log("optimus-autoscaler", "autoscaler", 5000)

    def _now(self) -> float:
        return round(time.time() - self._began, 2)

    def _steps(self, lines: Sequence[str]) -> list[tuple[float, int]]:
        found = [match for line in lines if (match := _STEP.match(line))]
        return [
            (round(datetime.fromisoformat(at).timestamp() - self._began, 2), int(step))
            for at, step in (match.groups() for match in found)
        ]

    def _note_job(self, body: Json) -> None:
        record = self.records.get(body["metadata"]["name"])
        if record is None:
            return
        (specs,) = (each for key, each in body["spec"].items() if key.endswith("ReplicaSpecs"))
        first = next(specs[role] for role in ("PS", "Server", "Master") if role in specs)
        counts = (first["replicas"], specs["Worker"]["replicas"])
        if not record.counts or record.counts[-1][1:] != counts:
            record.counts.append((self._now(), *counts))
        conditions = (body.get("status") or {}).get("conditions") or ()
        over = {each["type"] for each in conditions if each["status"] == "True"}
        if record.ended is None and over & {"Succeeded", "Failed"}:
            record.ended = self._now()

    def _note_profile(self, profile: Json) -> None:
        record = self.records.get(profile["metadata"]["name"])
        status = profile.get("status") or {}
        if record is not None and (
            not record.statuses or _decided(record.statuses[-1][1]) != _decided(status)
        ):
            record.statuses.append((self._now(), status))


def _told_at(event: Json) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")


def _decided(status: Mapping[str, Any]) -> tuple[object, ...]:
    rescale = status.get("rescale") or {}
    shown = (status.get(key) for key in ("phase", "ps", "workers", "reason"))
    return (*shown, rescale.get("id"))


@contextmanager
def side(name: str, backend: Backend, folder: Path, recommends: bool) -> Iterator[Side]:
    """Run a cluster with Optimus, and record what its jobs do."""
    nodes, tuning = training_nodes(*NODES), faster_tuning(recommends)
    with optimus_cluster(f"worth-{name}", nodes, tuning, backend=backend) as optimus:
        optimus.deploy()
        with (
            scenario_namespace(optimus, "worth", folder / name) as scenario,
            Side(name, optimus, scenario) as made,
        ):
            yield made


def tree_cpu_seconds(pid: int) -> float:
    """The CPU time of a process, of its descendants, and of those of them that have ended."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        own = int(path.parent.name)
        children.setdefault(int(after_name[1]), []).append(own)
        ticks[own] = sum(int(each) for each in after_name[11:15])
    total, waiting = 0, [pid]
    while waiting:
        each = waiting.pop()
        total += ticks.get(each, 0)
        waiting += children.get(each, ())
    return total / 100
