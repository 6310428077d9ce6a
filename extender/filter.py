"""POST /filter: the nodes that a pod may go to.

kube-scheduler asks about one pod at a time; the answer is always a part of a plan for the pod's
whole gang, or a refusal. ``extender.planner.gang_view`` finds out where the gang stands, in
numbered phases; here that becomes an answer.

A refusal is a constant sentence. kube-scheduler writes a changed sentence into the pod's status,
and that write requeues the pod: a text that varied would requeue it in a loop. Refused nodes are
reported as unresolvable (``extender.http.wire``): otherwise kube-scheduler would evict pods for one
replica, which does not make its gang fit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from extender.planner.gang_view import GangView, GangViews, Standing
from optimus.kube.pods import Pod


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The nodes that a pod may go to, and the reason for each other one."""

    kept: tuple[str, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    cause: str = ""
    """The refusal in one or two words, for a metric."""

    error: str = ""
    """Why kube-scheduler is to try the pod again soon, instead of an answer."""


REFUSALS: Final[Mapping[Standing, tuple[str, str]]] = {
    Standing.BOUND: ("the pod has been bound already", "bound"),
    Standing.RESCALING: (
        "job {job} is being suspended, to resume with other counts",
        "rescaling",
    ),
    Standing.PREEMPTING: (
        "waiting for the pods of preempted jobs to make room for job {job}",
        "preempting",
    ),
    Standing.PASSED: (
        "waiting for a pod of a higher priority that may take room of job {job}",
        "passed",
    ),
    Standing.PROBE: ("the plan of job {job} has changed since pods were nominated", "probe"),
    Standing.ORDERED: ("waiting for other pods of job {job} to be bound first", "order"),
    Standing.UNKNOWN: ("job {job} itself has not been seen yet", "unknown"),
    Standing.CACHE_TOO_OLD: ("job {job} is not planned: {reason}", "cache too old"),
    Standing.CHANGING: ("pods of job {job} change too often: later", "changing"),
    Standing.OFFERING: ("waiting until every pod of job {job} has been offered nodes", "asked"),
    Standing.NOT_OFFERED: (
        "job {job} does not fit as a whole on the nodes offered",
        "not offered",
    ),
    Standing.NOT_PLANNED: ("job {job} has not been planned yet", "not planned"),
    Standing.REFUSED: ("{reason}", "no room"),
    Standing.INCOMPLETE: ("waiting for all pods of job {job}", "incomplete"),
}
"""The sentence for users, and the cause in a metric."""


_TRIED_AGAIN_SOON: Final = {Standing.JUST_BOUND: "just bound", Standing.AWAITED: "passing pods"}


class BindRest(Protocol):
    """``extender.gang_binding.GangBinding.bind_rest``; see there."""

    def __call__(self, pod: Pod, names: Sequence[str]) -> None:
        """Bind the rest of the pod's gang."""
        ...


def filter_nodes(
    gangs: GangViews, pod: Pod, names: Sequence[str], bind_rest: BindRest | None = None
) -> FilterResult:
    """Exactly one of the offered nodes for a planned pod, none for a pod that has to wait."""
    gang = gangs.look(pod, names)
    if gang.standing is Standing.NOT_PLANNED:
        gangs.plan(pod)
        gang = gangs.look(pod, names)
    if gang.standing is Standing.AWAITED:
        gang = gangs.wait_for_passing(pod, names)
    if gang.standing is Standing.PLANNED:
        if bind_rest is not None:
            bind_rest(pod, names)
        # kube-scheduler reads reasons only where no node is left.
        return FilterResult(gang.nodes)
    if gang.standing in _TRIED_AGAIN_SOON:
        return FilterResult((), cause=_TRIED_AGAIN_SOON[gang.standing], error=gang.reason)
    if gang.standing is Standing.NO_GANG:
        full = {*names} - {*gang.nodes} if len(gang.nodes) < len(names) else ()
        refused = dict.fromkeys(full, "reserved for a training job")
        return FilterResult(gang.nodes, refused, "reserved" if refused else "")
    sentence, cause = REFUSALS[gang.standing]
    return FilterResult((), dict.fromkeys(names, _sentence(sentence, gang, pod)), cause)


def _sentence(text: str, gang: GangView, pod: Pod) -> str:
    if gang.standing is Standing.INCOMPLETE and gang.reason:
        return gang.reason
    job = f"{pod.namespace}/{pod.owner.name if pod.owner else ''}"
    return text.format(job=job, reason=gang.reason)
