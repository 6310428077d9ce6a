"""Every gang of a recorded namespace held against the oracle, wherever nothing else moved while it
was placed.

The record says when a job's pods appear and when each gets its node. Where another job's pods came
or went in between, or it was itself on the way to its pods, the room that the placement was made in
is not known; such gangs are passed over.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.harness.api import Json
from tests.harness.brute_force import Observed, fewest_servers, violations
from tests.harness.free_resources import free_resources
from tests.harness.job_recorder import Counts
from tests.harness.light_jobs import LightJob
from tests.harness.small_jobs import at
from tests.harness.watch_recorder import Change

_LABELS = "training.kubeflow.org"
_ROLES = {"server": "ps"}


@dataclass(frozen=True)
class PlacedGang:
    """One gang, the room that it found, and where its pods went."""

    job: LightJob
    free: Mapping[str, Mapping[str, int]]
    observed: Observed

    @property
    def violations(self) -> list[str]:
        """What is wrong with it; nothing either where no number of servers holds it evenly."""
        demand = self.job.demand()
        return (
            violations(demand, self.free, self.observed)
            if fewest_servers(demand, self.free)
            else []
        )


@dataclass
class _Gang:
    """What is alive of one job."""

    pods: dict[str, Json] = field(default_factory=dict)
    undisturbed: bool = False
    placed: bool = False

    @property
    def is_whole(self) -> bool:
        pods = list(self.pods.values())
        return (
            bool(pods)
            and len(pods) == _size(pods[0])
            and all(_node(pod) and not _leaves(pod) for pod in pods)
        )


def placed_gangs(
    changes: Sequence[Change], nodes: Sequence[Json], jobs: Sequence[LightJob]
) -> list[PlacedGang]:
    """Return the gangs of these jobs of which the room is known, in the order in which they were
    placed."""
    replay = _Replay(changes, nodes, {job.name: job for job in jobs})
    for index in range(len(changes)):
        replay.take(index)
    return replay.found


class _Replay:
    def __init__(
        self, changes: Sequence[Change], nodes: Sequence[Json], jobs: Mapping[str, LightJob]
    ) -> None:
        self._changes, self._nodes, self._jobs = changes, nodes, jobs
        self._gangs = {name: _Gang() for name in jobs}
        names = [_job_of(change.object) for change in changes]
        self._life = {
            name: (names.index(name), len(names) - names[::-1].index(name))
            for name in jobs
            if name in names
        }
        self.found: list[PlacedGang] = []

    def take(self, index: int) -> None:
        """Take one change in; note a gang that is whole by it."""
        change = self._changes[index]
        name, uid = _job_of(change.object), change.object["metadata"]["uid"]
        gang = self._gangs[name]
        before = gang.pods.get(uid)
        if change.type == "DELETED":
            gang.pods.pop(uid, None)
        else:
            if not gang.pods:
                gang.undisturbed, gang.placed = self._others_settled(name, index), False
            gang.pods[uid] = change.object
        if change.type == "DELETED" or before is None or _state(before) != _state(change.object):
            self._disturb_others(name)
        if gang.is_whole and not gang.placed:
            gang.placed = True
            if gang.undisturbed and self._others_settled(name, index):
                self.found.append(self._seen(name))

    def _others_settled(self, name: str, index: int) -> bool:
        def settled(other: str) -> bool:
            first, last = self._life.get(other, (len(self._changes), 0))
            return not first <= index < last or self._gangs[other].is_whole

        return all(settled(other) for other in self._gangs if other != name)

    def _disturb_others(self, name: str) -> None:
        for other, gang in self._gangs.items():
            if other != name:
                gang.undisturbed = False

    def _seen(self, name: str) -> PlacedGang:
        pods = list(self._gangs[name].pods.values())
        others = [
            pod
            for other, gang in self._gangs.items()
            if other != name
            for pod in gang.pods.values()
        ]
        observed: dict[str, Counter[str]] = {}
        for pod in pods:
            observed.setdefault(_node(pod), Counter())[_role(pod)] += 1
        roles = Counter(_role(pod) for pod in pods)
        counts: Counts = (roles["ps"], roles["worker"])
        job = at(self._jobs[name], counts)
        return PlacedGang(
            job, free_resources(self._nodes, others, job.templates()["Worker"]), observed
        )


def _job_of(pod: Json) -> str:
    return str(pod["metadata"]["labels"][f"{_LABELS}/job-name"])


def _role(pod: Json) -> str:
    role = str(pod["metadata"]["labels"][f"{_LABELS}/replica-type"])
    return _ROLES.get(role, role)


def _node(pod: Json) -> str:
    return str(pod["spec"].get("nodeName") or "")


def _leaves(pod: Json) -> bool:
    """Whether its room is about to be free: kube-scheduler counts an ended pod as gone before it
    is."""
    return bool(pod["metadata"].get("deletionTimestamp")) or pod["status"].get("phase") in (
        "Succeeded",
        "Failed",
    )


def _state(pod: Json) -> tuple[str, bool]:
    return _node(pod), _leaves(pod)


def _size(pod: Json) -> int:
    """How many pods the gang has, as the pod itself lists them."""
    environment = {
        each["name"]: each.get("value", "") for each in pod["spec"]["containers"][0]["env"]
    }
    config: Json = json.loads(environment.get("TF_CONFIG") or environment["MX_CONFIG"])
    return sum(len(tasks) for tasks in config["cluster"].values())
