"""The cluster as the extender sees it: nodes, pods, jobs and rescales, kept up to date event by
event.

What a node has left is a sum that is corrected when a pod comes or goes, so that a call of
kube-scheduler never walks over all pods. The placer's lock guards it together with the ledger.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from optimus.jobs import Counts, Job
from optimus.kube.pods import Pod
from optimus.nodes import Node
from optimus.resources import NONE, Resources


@dataclass(frozen=True, slots=True)
class Rescale:
    """A rescale under way: room is held for ``target``. ``id`` tells one rescale of a job from the
    next.

    ``leaving`` means that the pods the job has now are about to go (phase Suspending).
    """

    job_uid: str
    id: str
    target: Counts
    leaving: bool


class Cluster:
    """Nodes and pods by identity, room by node. Not thread-safe."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.jobs: dict[str, Job] = {}
        self._unreadable: set[str] = set()
        self.rescales: dict[str, Rescale] = {}
        self.have_run: set[str] = set()
        self._pods: dict[str, dict[str, Pod]] = {}
        self._unbound: dict[str, int] = {}
        self._used: dict[str, Resources] = {}
        self.node_generation = 0
        self.touched: set[str] = set()

    def set_node(self, name: str, node: Node | None) -> bool:
        """Take over a node's state; ``None``: it is gone. Returns whether anything that matters has
        changed."""
        if self.nodes.get(name) == node:
            return False
        if node is None:
            del self.nodes[name]
        else:
            self.nodes[name] = node
        self.node_generation += 1
        return True

    def set_pod(self, before: Pod | None, after: Pod | None) -> None:
        """Take over a pod's state; ``before`` is what was taken over last, ``None`` on either side:
        not there."""
        if before is not None:
            self._count(before, -1)
        if after is not None:
            self._count(after, 1)

    def _count(self, pod: Pod, sign: int) -> None:
        taken = pod.bound()
        if taken is not None:
            self._used[taken.node] = self._used.get(taken.node, NONE) + taken.resources * sign
            self.touched.add(taken.node)
        if pod.replica is None:
            return
        job_uid = pod.replica.job_uid
        of_job = self._pods.setdefault(job_uid, {})
        if sign > 0:
            of_job[pod.uid] = pod
        else:
            of_job.pop(pod.uid, None)
        if not of_job:
            del self._pods[job_uid]
            if job_uid not in self.jobs:
                self.have_run.discard(job_uid)
        if is_waiting(pod):
            self._unbound[job_uid] = self._unbound.get(job_uid, 0) + sign
            if not self._unbound[job_uid]:
                del self._unbound[job_uid]
        if pod.node is not None and sign > 0:
            self.have_run.add(job_uid)

    def set_job(self, uid: str, job: Job | None, *, is_there: bool = False) -> None:
        """Take over a job's spec; ``None``: it is gone or has ended, or ``is_there`` and cannot be
        read."""
        self._unreadable.discard(uid)
        if job is not None:
            self.jobs[uid] = job
            return
        if is_there:
            self._unreadable.add(uid)
        self.jobs.pop(uid, None)
        if uid not in self._pods:
            self.have_run.discard(uid)

    def set_rescale(self, job_uid: str, rescale: Rescale | None) -> None:
        """Take over where a job's rescale stands; ``None``: none is under way."""
        if rescale is None:
            self.rescales.pop(job_uid, None)
        else:
            self.rescales[job_uid] = rescale
            self.have_run.add(job_uid)

    def knows_gang_of(self, pod: Pod) -> bool:
        """Whether it can be told who belongs to the pod's gang: by its own list, or else by its
        job.

        A pod without a list may be seen before its job is. A job that cannot be read has a gang of
        what there is."""
        job_uid = pod.replica.job_uid if pod.replica else ""
        return bool(pod.gang) or job_uid in self.jobs or job_uid in self._unreadable

    def pods_of(self, job_uid: str) -> Mapping[str, Pod]:
        """The pods that a job controls, by UID."""
        return self._pods.get(job_uid, {})

    def unplaced_jobs(self) -> Iterable[str]:
        """The UIDs of the jobs that have pods without a node."""
        return tuple(self._unbound)

    def training_room(self) -> dict[str, Resources]:
        """What each node's training pods take."""
        taken: dict[str, Resources] = {}
        for pods in self._pods.values():
            for pod in pods.values():
                bound = pod.bound()
                if bound is not None:
                    taken[bound.node] = taken.get(bound.node, NONE) + bound.resources
        return taken

    def free(self, node: str) -> Resources:
        """What bound pods leave of a node; below zero where others have overcommitted it."""
        return self.nodes[node].allocatable - self._used.get(node, NONE)


def is_waiting(pod: Pod) -> bool:
    """Whether the pod still needs a node."""
    return pod.node is None and not pod.leaving and not pod.finished
