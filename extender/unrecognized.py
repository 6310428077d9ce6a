"""Jobs whose pods are placed one by one, since their labels do not say which replicas they are.

Training operators before 1.6 label pods otherwise. Such pods pass, as those of no training job do:
their users get an Event that says so.
"""

from collections.abc import Iterator
from typing import Final

from extender.job_events import Notice
from extender.planner import Planner
from optimus.kube.events import EventType
from optimus.kube.job_kinds import REPLICA_INDEX, REPLICA_TYPE
from optimus.kube.pods import Pod

_MESSAGE: Final = (
    f"its pods are placed one by one, not as a gang: the labels {REPLICA_TYPE} and {REPLICA_INDEX}"
    " of pod {name} name no replica. The training operator sets them from version 1.6 on"
)


def unrecognized_jobs(planner: Planner) -> Iterator[Notice]:
    """A notice for each job of which a pod names our scheduler and no replica."""
    with planner.lock:
        schedulers = frozenset(planner.queue.schedulers)
        every = tuple(next(iter(pods.values())) for pods in planner.cluster.unrecognized.values())
    return (_notice(pod) for pod in every if pod.scheduler_name in schedulers)


def _notice(pod: Pod) -> Notice:
    assert pod.owner is not None
    owner = pod.owner
    return Notice(
        owner.kind,
        pod.namespace,
        owner.name,
        owner.uid,
        EventType.WARNING,
        "GangNotRecognized",
        _MESSAGE.format(name=pod.name),
        cause="",
        after_seconds=0.0,
    )
