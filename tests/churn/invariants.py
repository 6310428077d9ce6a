"""What must hold at every instant, read from the API server and from the processes.

1. No node holds more than it has.
2. No job is Failed that did not fail by itself and of which nobody deleted a pod.
3. No job is Succeeded that trains without an end.
4. The counts of a job are within its bounds, those of a job that is not managed never change.
5. A job that its user has suspended stays suspended.
6. A gang is bound in part, and a job is suspended for a rescale, for a limited time only.
7. No job that has trained is without all its pods for longer than 60 s beyond its own start time
   (``outages``).
8. Neither process reports an error of its own, and what each holds in memory, threads and open
   files does not grow.
"""

import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.churn.outages import Outages, Pods
from tests.churn.users import PS_KEYS, UserJob, Users
from tests.harness.api import CORE, KUBEFLOW, Json, in_namespace
from tests.harness.containers import container_members, container_process
from tests.harness.free_resources import amount, requests_of
from tests.harness.process_killer import PROCESSES
from tests.harness.scenario import Scenario

IN_PART_SECONDS: Final = 180.0
SUSPENDED_SECONDS: Final = 120.0
REACTION_SECONDS: Final = 60.0
"""So long after a user's change a job may have the counts from before it."""
_NOTICED_SECONDS: Final = 10.0
"""So long after a change of nodes or pods the autoscaler may decide on what was before."""
_MARK: Final = "optimus.dl/suspended-by"
_GROWTH: Final = {"memory, MB": (1.15, 8.0), "threads": (1.0, 3.0), "open files": (1.0, 6.0)}
"""Of the second third's median, the last third's may be at most this factor and so much more."""


class Usage(NamedTuple):
    """What the processes of one container hold."""

    memory_mb: float
    threads: int
    open_files: int


class Invariants:
    """Checks once a second; ``faults`` are sentences, each once."""

    def __init__(self, scenario: Scenario, users: Users) -> None:
        self._scenario, self._users = scenario, users
        self.faults: dict[str, float] = {}
        """Each fault, and after how many seconds it was seen."""
        self.checks = 0
        self.rescales: set[str] = set()
        self.outages = Outages()
        self._since: dict[str, float] = {}
        self._usage: defaultdict[str, list[Usage]] = defaultdict(list)
        self._began = time.monotonic()

    def check(self) -> None:
        """Read everything, and note what does not hold."""
        scenario = self._scenario
        # Jobs before pods: pods that are made in between belong to counts that are known.
        jobs = [
            (kind, each)
            for kind, plural in scenario.optimus.plurals.items()
            for each in scenario.api.items(in_namespace(KUBEFLOW, scenario.namespace, plural))
        ]
        pods = scenario.api.items(f"{CORE}/pods")
        nodes = scenario.api.items(f"{CORE}/nodes")
        known = dict(self._users.jobs)
        waiting: set[str] = set()
        self.outages.begin(time.monotonic())
        faults = list(overcommitted(nodes, pods))
        for kind, job in jobs:
            mine = known.get(job["metadata"]["name"])
            if mine is None or job["metadata"].get("deletionTimestamp"):
                continue
            faults += faults_of(kind, job, mine)
            waiting |= self._waiting(job, pods)
            if mine.managed and mine.fate != "fails" and not _has_ended(job):
                excuse = self._excuse(job, mine)
                fault = self.outages.observe(mine.job.name, pods_of(kind, job, pods), excuse)
                faults += [fault] if fault else []
        faults += self._too_long(waiting)
        for fault in faults:
            self.faults.setdefault(fault, round(time.monotonic() - self._began))
        self.checks += 1

    def measure(self) -> None:
        """Note what both processes hold."""
        optimus = self._scenario.optimus
        for name, (deployment, part) in PROCESSES.items():
            pod = optimus.pod_of(deployment)
            first = container_process(optimus.cluster, pod, part)
            members = [_usage(pid) for pid in container_members(first)]
            self._usage[name].append(Usage(*(sum(each) for each in zip(*members, strict=True))))

    def growth(self) -> Iterator[str]:
        """Yield what grew from the second third of the run to the last; pools fill in the first."""
        for name, usages in self._usage.items():
            third = len(usages) // 3
            if third < 3:
                continue
            for what, values in zip(_GROWTH, zip(*usages, strict=True), strict=True):
                factor, more = _GROWTH[what]
                before, after = (
                    statistics.median(each) for each in (values[third:-third], values[-third:])
                )
                if after > before * factor + more:
                    yield f"{what} of the {name} grew from {before:g} to {after:g}"

    @property
    def unfinished(self) -> list[str]:
        """What jobs were in the midst of at the last check."""
        return sorted(self._since)

    def usage(self) -> dict[str, dict[str, list[float]]]:
        """By process, the first, the median and the last value of each."""
        return {
            name: {
                what: [values[0], statistics.median(values), values[-1]]
                for what, values in zip(_GROWTH, zip(*usages, strict=True), strict=True)
            }
            for name, usages in self._usage.items()
        }

    def _waiting(self, job: Json, pods: list[Json]) -> set[str]:
        """Return what this job is in the midst of, which must end."""
        name, found = job["metadata"]["name"], set()
        annotations = job["metadata"].get("annotations") or {}
        own = [each for each in pods if _is_of(each, job)]
        unbound = [each for each in own if not each["spec"].get("nodeName")]
        if unbound and len(unbound) < len(own):
            found.add(f"{name} is bound in part")
        mark = annotations.get(_MARK)
        if mark:
            self.rescales.add(f"{name} {mark}")
            if annotations.get("optimus.dl/at-target") != "suspend":
                found.add(f"{name} is suspended by {mark}")
        return found

    def _excuse(self, job: Json, mine: UserJob) -> str:
        """Return why a job may be without some of its pods now."""
        annotations, now = job["metadata"].get("annotations") or {}, time.monotonic()
        if mine.suspended:
            return "suspended by its user"
        if annotations.get(_MARK) and annotations.get("optimus.dl/at-target") == "suspend":
            return "it may be suspended at its goal"
        if now - mine.disturbed_at < _NOTICED_SECONDS:
            return "its pods were drained, or its manifest applied"
        if now - self._users.cordoned_at < _NOTICED_SECONDS:
            return "a node was cordoned"
        return ""

    def _too_long(self, waiting: set[str]) -> Iterator[str]:
        now = time.monotonic()
        self._since = {each: self._since.get(each, now) for each in waiting}
        for each, since in self._since.items():
            limit = IN_PART_SECONDS if each.endswith("in part") else SUSPENDED_SECONDS
            if now - since > limit:
                yield f"{each} for more than {limit:.0f} s"


def overcommitted(nodes: list[Json], pods: list[Json]) -> Iterator[str]:
    used: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node and pod["status"].get("phase") not in ("Succeeded", "Failed"):
            used[node].update(requests_of(pod["spec"]))
    for node in nodes:
        name = node["metadata"]["name"]
        for resource, quantity in node["status"]["allocatable"].items():
            has, takes = amount(resource, quantity), used[name][resource]
            if takes > has:
                yield f"{name} holds {takes} of {has} {resource}"


def faults_of(kind: str, job: Json, mine: UserJob) -> Iterator[str]:
    name = job["metadata"]["name"]
    conditions = (job.get("status") or {}).get("conditions") or ()
    true = {each["type"]: each for each in conditions if each["status"] == "True"}
    if "Failed" in true and mine.fate != "fails" and not mine.excused:
        yield f"{name} has failed: {true['Failed'].get('message')}"
    if "Succeeded" in true and mine.fate == "endless":
        yield f"{name} has succeeded, although it has no end"
    is_suspended = bool((job["spec"].get("runPolicy") or {}).get("suspend"))
    if mine.suspended and not is_suspended:
        yield f"{name} was resumed, although its user has suspended it"
    specs, ps = PS_KEYS[kind]
    replicas = job["spec"][specs]
    counts = replicas[ps]["replicas"], replicas["Worker"]["replicas"]
    if not mine.managed:
        if counts != (mine.job.ps, mine.job.workers):
            yield f"{name} has {counts}, although it is not managed"
        if is_suspended and not mine.suspended:
            yield f"{name} was suspended, although it is not managed"
    elif time.monotonic() - mine.changed_at > REACTION_SECONDS:
        yield from _off_bounds(job, counts)


def _off_bounds(job: Json, counts: tuple[int, int]) -> Iterator[str]:
    """Counts that a rescale gave; bounds that the job's own counts break are not forced on it."""
    name, annotations = job["metadata"]["name"], job["metadata"].get("annotations") or {}
    for role, count in zip(("ps", "workers"), counts, strict=True):
        low = int(annotations.get(f"optimus.dl/min-{role}", 1))
        if count < low and annotations.get(_MARK):
            yield f"{name} is resized to {count} {role}, at least {low} are allowed"


def pods_of(kind: str, job: Json, pods: list[Json]) -> Pods:
    """Return how many pods a job is to have and has."""
    replicas = job["spec"][PS_KEYS[kind][0]].values()
    own = [
        each for each in pods if _is_of(each, job) and not each["metadata"].get("deletionTimestamp")
    ]
    running = [each for each in own if each["status"].get("phase") in ("Running", "Succeeded")]
    placed = [each for each in own if each["spec"].get("nodeName")]
    return Pods(sum(each.get("replicas", 1) for each in replicas), len(placed), len(running))


def _has_ended(job: Json) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(
        each["status"] == "True" and each["type"] in ("Succeeded", "Failed") for each in conditions
    )


def _is_of(pod: Json, job: Json) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(each.get("uid") == job["metadata"]["uid"] for each in owners)


def _usage(pid: int) -> Usage:
    status = Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    memory = int(fields["VmRSS"].split()[0]) / 1024
    return Usage(
        round(memory, 1), int(fields["Threads"]), len(list(Path(f"/proc/{pid}/fd").iterdir()))
    )
