"""A cluster without Kubernetes: pods come and go, and a scheduler asks the placer as kube-scheduler
does."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from extender.placer import Placer
from extender.planner import Now, Rules
from extender.results import FilterResult
from extender.state.cluster import Rescale
from optimus.jobs import Counts, FixedRole, Job, JobKey, NodeConstraints, ReplicaSpec, Role
from optimus.kube.pods import Owner, Pod
from optimus.nodes import Node
from optimus.resources import NONE, Resources, total
from optimus.snapshot import ReplicaId

SCHEDULER = "optimus-scheduler"


@dataclass
class World:
    """Nodes by CPU, pods by name. Everything one CPU large unless said otherwise."""

    nodes: dict[str, int]
    now: float = 1000.0
    pods: dict[str, Pod] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.placer = Placer(
            Rules(scheduler_name=SCHEDULER),
            clock=lambda: Now(self.now, self.now),
            planned=self.waits.append,
        )
        for name, cpu in list(self.nodes.items()):
            self.node(name, cpu)

    def node(self, name: str, cpu: int, **labels: str) -> None:
        self.nodes[name] = cpu
        self.placer.node_changed(name, Node(name, Resources(cpu=cpu, pods=110), labels))

    def lose_node(self, name: str) -> None:
        del self.nodes[name]
        self.placer.node_changed(name, None)

    def pod(
        self, job: str, role: Role, index: int, gang: Counts | None, cpu: int = 1, **fields: object
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
            scheduler_name=SCHEDULER,
            gang=None if gang is None else {Role.PS: gang.ps, Role.WORKER: gang.workers},
        )
        return self.change(msgspec.structs.replace(made, **fields))

    def change(self, pod: Pod, **fields: object) -> Pod:
        """A pod as the watch shows it from now on."""
        before, after = self.pods.get(pod.name), msgspec.structs.replace(pod, **fields)
        self.pods[pod.name] = after
        self.placer.pod_changed(before, after)
        return after

    def job(self, name: str, ps: int, workers: int, cpu: int = 1) -> list[str]:
        """All pods of a job, made at once; returns their names."""
        counts = Counts(ps, workers)
        made = [self.pod(name, Role.PS, index, counts, cpu) for index in range(ps)]
        made += [self.pod(name, Role.WORKER, index, counts, cpu) for index in range(workers)]
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
        self.placer.job_changed(job.uid, job)

    def other(self, name: str, cpu: int, node: str | None = None) -> Pod:
        """A pod that no training job controls."""
        made = Pod(
            uid=f"pod-{name}",
            namespace="ns",
            name=name,
            created_at=self.now,
            node=node,
            resources=Resources(cpu=cpu, pods=1),
            constraints=NodeConstraints(),
        )
        return self.change(made)

    def ask(self, name: str, offered: Sequence[str] | None = None) -> FilterResult:
        """Filter, as kube-scheduler calls it: with the nominated node first, else with every node
        that has room."""
        pod = self.pods[name]
        return self.placer.filter(pod, self.fitting(pod) if offered is None else offered)

    def fitting(self, pod: Pod) -> list[str]:
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
        self.change(self.pods[name], node=node, nominated_node=None)

    def place(self, name: str) -> str | None:
        """Ask, and bind to the one node that is left; ``None`` when the pod is refused."""
        verdict = self.ask(name)
        if not verdict.kept:
            return None
        (node,) = verdict.kept
        self.bind(name, node)
        return node

    def delete(self, *names: str) -> None:
        for name in names:
            self.placer.pod_changed(self.pods.pop(name), None)

    def rescale(self, job: str, ps: int, workers: int, *, leaving: bool) -> None:
        target = Rescale(f"uid-{job}", "i1", Counts(ps, workers), leaving)
        self.placer.rescale_changed(f"uid-{job}", target)

    def wishes(self) -> dict[str, str]:
        """Planned node by pod, of the pods that wait."""
        return {wish.pod.name: wish.node for wish in self.placer.wishes()}

    def assert_sound(self) -> None:
        """No node is promised more than it has."""
        assert self.placer._promises.overdrawn() == ()


def reasons(world: World, name: str, *offered: str) -> set[str]:
    """Why a pod is refused, on all nodes that are offered."""
    verdict = world.ask(name, offered or None)
    assert verdict.kept == ()
    return set(verdict.refused.values())
