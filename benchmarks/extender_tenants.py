"""What one tenant's objects cost the calls of everybody:
``python -m benchmarks.extender_tenants [--nodes 1000] [--gangs 100] [--seconds 10]``.

Gangs wait that do not fit, and a client asks about their pods, as kube-scheduler does. Beside them
another namespace changes what it may change, each by what the watch would show:

* ``lists``: pods whose TF_CONFIG lists five roles of 10,000 replicas change a label;
* ``pods``: one job of very many pods, which all exist, changes a label of one;
* ``claims``: a claim that no gang mounts changes, while the gangs that wait mount their own;
* ``searches``: gangs with rules of which a search takes long change a label.

For each, before, meanwhile and after the objects are deleted: milliseconds of filter, and how long
a gang waits that is submitted then and fits. Everything runs in one process, without HTTP."""

import argparse
import json
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Final

import msgspec

from benchmarks.extender_under_load import NODE, REQUEST, percentiles
from extender.parts import Parts
from extender.settings import Settings
from extender.step_thread import StepThread
from optimus.jobs import NodeConstraints, Role
from optimus.kube.pods import Owner, Pod, decode_pod
from optimus.kube.volumes import StorageClass, VolumeClaim
from optimus.nodes import Node
from optimus.placement.rules import AffinityTerm, PodRules, PodSelector, SpreadConstraint
from optimus.resources import Resources
from optimus.snapshot import ReplicaId

CALLS_PER_SECOND: Final = 100.0
SETTLED_SECONDS: Final = 5.0
"""After the tenant's objects are deleted, before the last figures."""

Change = Callable[[int], None]
"""The watch shows the tenant's next change, by its number."""


class Cluster:
    """A cluster with gangs that wait, and what a client sees of it."""

    def __init__(self, nodes: int, gangs: int, *, with_claims: bool) -> None:
        self.parts = Parts.of(Settings())
        self.planner, self.handlers = self.parts.planner, self.parts.handlers
        self.names = [f"node-{at:05}" for at in range(nodes)]
        for name in self.names:
            self.handlers.set_node(name, Node(name, NODE, {"kubernetes.io/hostname": name}))
        if with_claims:
            self.handlers.storage_class(None, StorageClass(name="local", waits_for_pod=True))
        self.waiting = [
            pod for at in range(gangs) for pod in self.gang(f"job-{at:04}", 64, with_claims)
        ]
        for pod in self.waiting:
            self.handlers.pod(None, pod)
        self.parts.leading.begin()
        while self.planner.plan_slice():
            pass
        changes = self.parts.state.changes
        self.thread = StepThread("planner", self.planner.step, changes=changes)
        self.thread.start()
        self._probes = count()

    def gang(self, job: str, cpus: int, with_claims: bool = False) -> list[Pod]:
        """The pods of a gang of 12 that mount a claim each, if they do."""
        made = []
        for index in range(12):
            name = f"{job}-worker-{index}"
            rules = PodRules(claims=(name,)) if with_claims else None
            if with_claims:
                self.handlers.claim(
                    None, VolumeClaim(namespace="ns", name=name, storage_class="local")
                )
            request = Resources(cpu=cpus * 1000, memory=REQUEST["memory"], pods=1)
            replica = ReplicaId(job, Role.WORKER, index)
            made.append(pod_of("ns", job, replica, {Role.WORKER: 12}, request, rules=rules))
        return made

    def asked_for(self, seconds: float) -> dict[str, object]:
        """Milliseconds of filter over some seconds, and until a gang that fits is planned."""
        calls: list[float] = []
        probe = self.gang(f"probe-{next(self._probes)}", 1)
        begin = time.perf_counter()
        for pod in probe:
            self.handlers.pod(None, pod)
        planned = None
        for at in count():
            now = time.perf_counter()
            if now - begin >= seconds:
                break
            self.parts.gangs.filter(self.waiting[at * 7 % len(self.waiting)], self.names)
            calls.append(time.perf_counter() - now)
            if planned is None and self.parts.state.reservations.ledger.holds(probe[0].owner.uid):  # type: ignore[union-attr]
                planned = now - begin
            time.sleep(max(begin + (at + 1) / CALLS_PER_SECOND - time.perf_counter(), 0.0))
        for pod in probe:
            self.handlers.pod(pod, None)
        return {
            "filter": percentiles(calls),
            "planned_after_seconds": planned and round(planned, 3),
        }


def pod_of(
    namespace: str,
    job: str,
    replica: ReplicaId,
    roles: dict[Role, int],
    request: Resources,
    **fields: object,
) -> Pod:
    """A pod that waits for the scheduler."""
    name = f"{job}-{replica.role}-{replica.index}"
    made = Pod(
        uid=name,
        namespace=namespace,
        name=name,
        created_at=time.time(),
        owner=Owner("TFJob", job, job),
        replica=replica,
        resources=request,
        constraints=NodeConstraints(),
        scheduler_name=Settings().scheduler_name,
        gang=roles,
    )
    return msgspec.structs.replace(made, **fields)


def figures(nodes: int, gangs: int, seconds: float, rate: float, kind: str) -> dict[str, object]:
    """Before, meanwhile and after."""
    cluster = Cluster(nodes, gangs, with_claims=kind == "claims")
    before = cluster.asked_for(seconds)
    change, remove = TENANTS[kind](cluster)
    over = threading.Event()
    tenant = threading.Thread(target=_repeat, args=(change, rate, over))
    tenant.start()
    meanwhile = cluster.asked_for(seconds)
    over.set()
    tenant.join()
    remove()
    time.sleep(SETTLED_SECONDS)
    after = cluster.asked_for(seconds)
    cluster.thread.stop()
    return {"before": before, "meanwhile": meanwhile, "after": after}


def _repeat(change: Change, rate: float, over: threading.Event) -> None:
    begin = time.perf_counter()
    for number in count():
        if over.wait(max(begin + number / rate - time.perf_counter(), 0.0)):
            return
        change(number)


# --- what a tenant does


def _lists(cluster: Cluster) -> tuple[Change, Callable[[], None]]:
    roles = ("ps", "worker", "chief", "master", "evaluator")
    config = json.dumps({"cluster": {role: ["a"] * 10_000 for role in roles}})
    made = [_decoded(f"large-{at}", config, 0) for at in range(3)]
    for pod in made:
        cluster.handlers.pod(None, pod)

    def change(number: int) -> None:
        for at, pod in enumerate(made):
            made[at] = _decoded(pod.name, config, number)
            cluster.handlers.pod(pod, made[at])

    return change, lambda: _remove(cluster, made)


def _decoded(name: str, config: str, number: int) -> Pod:
    """As the watch decodes it."""
    labels = {
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": "0",
        "changed": str(number),
    }
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "controller": True}
    container = {"name": "tensorflow", "env": [{"name": "TF_CONFIG", "value": config}]}
    return decode_pod(
        json.dumps(
            {
                "metadata": {
                    "name": name,
                    "uid": name,
                    "namespace": "tenant",
                    "labels": labels,
                    "ownerReferences": [owner | {"name": name, "uid": f"uid-{name}"}],
                },
                "spec": {"schedulerName": "optimus-scheduler", "containers": [container]},
            }
        ).encode()
    )


def _pods(cluster: Cluster) -> tuple[Change, Callable[[], None]]:
    made = [
        pod_of("tenant", "many", ReplicaId("many", Role.WORKER, at), {Role.WORKER: 4000}, REQUEST)
        for at in range(4000)
    ]
    for pod in made:
        cluster.handlers.pod(None, pod)
    return _relabelled(cluster, made), lambda: _remove(cluster, made)


def _claims(cluster: Cluster) -> tuple[Change, Callable[[], None]]:
    claim = VolumeClaim(namespace="tenant", name="other", storage_class="local")

    def change(number: int) -> None:
        for at in range(3):
            changed = msgspec.structs.replace(claim, bytes=number * 3 + at)
            cluster.handlers.claim(claim, changed)

    return change, lambda: cluster.handlers.claim(claim, None)


def _searches(cluster: Cluster) -> tuple[Change, Callable[[], None]]:
    selector = PodSelector((), namespaces=("tenant",))
    rules = PodRules(
        anti_affinity=(AffinityTerm("kubernetes.io/hostname", selector),),
        spread=(SpreadConstraint("kubernetes.io/hostname", 1, selector),),
    )
    size = len(cluster.names) + 1
    made = [
        pod_of(
            "tenant",
            f"search-{at}",
            ReplicaId(f"search-{at}", Role.WORKER, index),
            {Role.WORKER: size},
            Resources(cpu=1, pods=1),
            rules=rules,
        )
        for at in range(3)
        for index in range(size)
    ]
    for pod in made:
        cluster.handlers.pod(None, pod)
    return _relabelled(cluster, made), lambda: _remove(cluster, made)


def _relabelled(cluster: Cluster, made: list[Pod]) -> Change:
    def change(number: int) -> None:
        for at in range(0, len(made), max(len(made) // 3, 1)):
            changed = msgspec.structs.replace(made[at], labels=(("changed", str(number)),))
            cluster.handlers.pod(made[at], changed)
            made[at] = changed

    return change


def _remove(cluster: Cluster, made: list[Pod]) -> None:
    for pod in made:
        cluster.handlers.pod(pod, None)


TENANTS: Final[dict[str, Callable[[Cluster], tuple[Change, Callable[[], None]]]]] = {
    "lists": _lists,
    "pods": _pods,
    "claims": _claims,
    "searches": _searches,
}


def main() -> None:
    """Run once and print the figures as JSON, one line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--gangs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=10.0, help="changes of each object a second")
    parser.add_argument("kinds", nargs="*", default=list(TENANTS))
    given = parser.parse_args()
    for kind in given.kinds:
        found = figures(given.nodes, given.gangs, given.seconds, given.rate, kind)
        print(json.dumps({kind: found}), flush=True)


if __name__ == "__main__":
    main()
