"""A cluster without Kubernetes: pods come and go, and the extender is asked as kube-scheduler does
it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from extender.answers import FilterResult
from extender.parts import Parts
from extender.placed_gangs import PlacedGangs
from extender.prioritize import score_nodes
from extender.settings import Settings
from extender.state.cluster import ProfileRescale
from extender.state.extender_state import Callbacks
from optimus.jobs import Counts, FixedRole, Job, JobKey, NodeConstraints, ReplicaSpec, Role
from optimus.kube.pods import Owner, Pod
from optimus.nodes import Node
from optimus.placement.queue.order import Instant
from optimus.resources import NONE, Resources, total
from optimus.snapshot import ReplicaId

SETTINGS = Settings(bind_gangs=False)
"""Each pod is bound by the fake kube-scheduler, as those of a gang with rules are."""


@dataclass
class FakeCluster:
    """Nodes by CPU, pods by name. Everything one CPU large unless said otherwise."""

    nodes: dict[str, int]
    now: float = 1000.0
    pods: dict[str, Pod] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)
    settings: Settings = SETTINGS
    leads: bool = True

    def __post_init__(self) -> None:
        self.placed = PlacedGangs(lambda: self.now)
        self.parts = Parts.of(
            self.settings,
            lambda: Instant(self.now, self.now),
            Callbacks(
                observe_wait=self.waits.append,
                gang_placed=self.placed.note,
            ),
        )
        self.state, self.handlers, self.offers_check = self.parts[:3]
        self.planner, self.pending, self.leading, self.gangs = self.parts[3:]
        # Planning takes no time: on a busy machine a search that does would rest.
        self.planner._planning._clock = lambda: 0.0
        self.state.leads = self.leads
        for name, cpu in list(self.nodes.items()):
            self.node(name, cpu)

    def plan(self) -> None:
        """What the planner's thread does."""
        while self.planner.plan_slice():
            pass

    def node(self, name: str, cpu: int, **labels: str) -> None:
        self.nodes[name] = cpu
        self.handlers.set_node(name, Node(name, Resources(cpu=cpu, pods=110), labels))

    def lose_node(self, name: str) -> None:
        del self.nodes[name]
        self.handlers.set_node(name, None)

    def pod(
        self,
        job: str,
        role: Role,
        index: int,
        gang: Counts | dict[Role, int] | None,
        cpu: int = 1,
        **fields: object,
    ) -> Pod:
        name = f"{job}-{role}-{index}"
        made = Pod(
            uid=f"pod-{name}-{self.now}",
            namespace="ns",
            name=name,
            created_at=self.now,
            owner=Owner("TFJob", job, f"uid-{job}"),
            replica=ReplicaId(f"uid-{job}", role, index),
            resources=Resources(cpu=cpu, pods=1),
            constraints=NodeConstraints(),
            scheduler_name=SETTINGS.scheduler_name,
            gang={Role.PS: gang.ps, Role.WORKER: gang.workers}
            if isinstance(gang, Counts)
            else gang,
        )
        return self.change(msgspec.structs.replace(made, **fields))

    def change(self, pod: Pod, **fields: object) -> Pod:
        """A pod as the watch shows it from now on."""
        before, after = self.pods.get(pod.name), msgspec.structs.replace(pod, **fields)
        self.pods[pod.name] = after
        self.handlers.pod(before, after)
        return after

    def job(self, name: str, ps: int, workers: int, cpu: int = 1, **fields: object) -> list[str]:
        """All pods of a job, made at once; returns their names."""
        counts = Counts(ps, workers)
        roles = {Role.PS: ps, Role.WORKER: workers}
        made = [
            self.pod(name, role, index, counts, cpu, **fields)
            for role, count in roles.items()
            for index in range(count)
        ]
        return [pod.name for pod in made]

    def spec(self, name: str, ps: int, workers: int, *fixed: FixedRole) -> None:
        """The job object itself."""
        spec = ReplicaSpec(Resources(cpu=1, pods=1))
        job = Job(
            key=JobKey("ns", name),
            uid=f"uid-{name}",
            kind="TFJob",
            created_at=self.now,
            counts=Counts(ps, workers),
            ps=spec,
            worker=spec,
            fixed=fixed,
        )
        self.handlers.set_job(job.uid, job)

    def other(self, name: str, cpu: int, node: str | None = None, priority: int = 0) -> Pod:
        """A pod that no training job controls."""
        made = Pod(
            uid=f"pod-{name}",
            namespace="ns",
            name=name,
            created_at=self.now,
            node=node,
            priority=priority,
            resources=Resources(cpu=cpu, pods=1),
            constraints=NodeConstraints(),
        )
        return self.change(made)

    def ask(self, name: str, offered: Sequence[str] | None = None) -> FilterResult:
        """Filter, as kube-scheduler calls it: with every node that has room."""
        pod = self.pods[name]
        return self.filter(pod, self.fitting(pod) if offered is None else offered)

    def filter(self, pod: Pod, names: Sequence[str]) -> FilterResult:
        return self.gangs.filter(pod, names)

    def prioritize(self, pod: Pod, names: Sequence[str]) -> dict[str, int]:
        return score_nodes(self.parts, pod, names)

    def fitting(self, pod: Pod) -> list[str]:
        """The nodes with room for a pod beside those that are bound there."""
        return [node for node in sorted(self.nodes) if pod.resources["cpu"] <= self.free(node)]

    def free(self, node: str) -> int:
        return self.nodes[node] - self.used(node)["cpu"]

    def used(self, node: str) -> Resources:
        bound = (pod.bound() for pod in self.pods.values())
        return (
            total(taken.resources for taken in bound if taken is not None and taken.node == node)
            or NONE
        )

    def bind(self, name: str, node: str) -> None:
        self.change(self.pods[name], node=node)

    def place(self, name: str) -> str | None:
        """Ask, and bind to the one node that is left; ``None`` when the pod is refused."""
        result = self.ask(name)
        if not result.kept:
            return None
        (node,) = result.kept
        self.bind(name, node)
        return node

    def delete(self, *names: str) -> None:
        for name in names:
            self.handlers.pod(self.pods.pop(name), None)

    def rescale(
        self, job: str, ps: int, workers: int, *, leaving: bool, kept: Counts | None = None
    ) -> None:
        target = ProfileRescale(f"uid-{job}", "i1", Counts(ps, workers), leaving, kept)
        self.handlers.set_rescale(f"uid-{job}", target)

    def planned_nodes(self) -> dict[str, str]:
        """Planned node by pod, of the pods that wait."""
        return {each.pod.name: each.node for each in self.pending.planned()}

    def assert_not_overcommitted(self) -> None:
        """Reservations exceed no node's room."""
        assert self.state.reservations.overcommitted() == ()


def reasons(cluster: FakeCluster, name: str, *offered: str) -> set[str]:
    """Why a pod is refused, on all nodes that are offered."""
    result = cluster.ask(name, offered or None)
    assert result.kept == ()
    return set(result.refused.values())
