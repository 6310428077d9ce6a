"""Jobs and nodes of a running cluster for ``optimus simulate --from-cluster``.

Everything is read with the user's own rights. Where the nodes may not be read, ``--nodes`` says
what they are."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from optimus.cli.assumptions import Assumed, known_job
from optimus.cli.command import BadInput
from optimus.cli.job_view import ClusterJob
from optimus.cli.top import views_of
from optimus.errors import NotReady
from optimus.jobs import Job
from optimus.kube.job_list import list_jobs
from optimus.kube.snapshot_reader import cluster_or_reason
from optimus.kube.stored_settings import ClusterSettings
from optimus.nodes import Node
from optimus.placement.theorem1 import Theorem1
from optimus.resources import NONE, Resources
from optimus.simulator.cluster_jobs import ClusterWorkload, simulated
from optimus.simulator.speeds import EmptyCluster

if TYPE_CHECKING:
    from optimus.kube.job_facts import JobSource


@dataclass(frozen=True, slots=True)
class FoundWorkload:
    """What can be simulated of a cluster; ``left_out``: sentences on all other jobs."""

    maker: ClusterWorkload
    left_out: tuple[str, ...]


def read_workload(
    client: "JobSource",
    namespace: str | None,
    nodes: Sequence[Node] | None = None,
    node_selector: str | None = None,
) -> FoundWorkload:
    """The jobs of a namespace (``None``: of all) that have shown training, and the nodes: those
    that the autoscaler uses where no labels are given.

    Raises:
        KubeError: the jobs may not be read.
        BadInput: nothing can be simulated."""
    listed = list_jobs(client, namespace)
    views = views_of(listed)
    settings = Assumed.of(views, namespace or "default", node_selector).settings
    known, left_out = dict[str, tuple[Job, ClusterJob]](), list(listed.not_readable)
    for view in views:
        why = view.training_job.left_alone or "its replicas cannot be read"
        if view.job is not None and view.learned is not None:
            known[view.job.uid] = settings.planned(view.job), view
            continue
        if view.job is not None:
            why = "it has no TrainingProfile that shows its training"
        left_out.append(f"job {view.training_job.key}: {why}")
    began_at = min((job.created_at for job, _ in known.values()), default=0.0)
    servers = tuple(nodes or ())
    if nodes is None:
        servers = _nodes(client, known.keys(), settings, namespace)
    jobs, empty = [], EmptyCluster(servers, Theorem1())
    for job, view in known.values():
        what = known_job(view)
        price_seconds = settings.decision.interval.price_seconds(what.history)
        made = simulated(job, what, price_seconds, began_at, has_ended=view.is_over)
        if isinstance(made, NotReady):
            left_out.append(f"job {job.key}: {made.reason}")
        elif empty.servers(made.job, made.job.bounds.minimum) is None:
            said = f"its minimum, {made.job.bounds.minimum}, does not fit on the empty nodes"
            left_out.append(f"job {job.key}: {said}")
        else:
            jobs.append(made)
    if not jobs:
        said = "; ".join(left_out) or "there is no TFJob or MXJob"
        raise BadInput("--from-cluster", f"no job has shown enough to be simulated: {said}")
    return FoundWorkload(ClusterWorkload(tuple(jobs), servers), tuple(left_out))


def _nodes(
    client: "JobSource", uids: Collection[str], settings: ClusterSettings, namespace: str | None
) -> tuple[Node, ...]:
    """The nodes, less what pods take that are not of these jobs."""
    found = cluster_or_reason(client, settings, namespace or "default")
    if isinstance(found, str):
        raise BadInput("--from-cluster", f"{found}; --nodes says what nodes there are instead")
    taken = dict[str, Resources]()
    for pod in found.snapshot.pods:
        own = pod.replica is not None and pod.replica.job_uid in uids
        if not own:
            taken[pod.node] = taken.get(pod.node, NONE) + pod.resources
    nodes = (
        replace(node, allocatable=_positive(node.allocatable - taken.get(node.name, NONE)))
        for node in found.snapshot.nodes
        if not node.cordoned
    )
    return tuple(nodes)


def _positive(amounts: Resources) -> Resources:
    return Resources({name: max(amount, 0) for name, amount in amounts.items()})
