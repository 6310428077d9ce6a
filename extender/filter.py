"""POST /filter: the nodes that a pod may go to.

kube-scheduler asks about one pod at a time; the answer is always a part of a plan for the pod's
whole gang, or a refusal. ``extender.planner.gang_view`` finds out where the gang stands, in
numbered steps; here that becomes an answer.

A refusal is a constant sentence. kube-scheduler writes a changed sentence into the pod's status,
and that write requeues the pod: a text that varied would requeue it in a loop. Refused nodes are
reported as unresolvable (``extender.http.wire``): otherwise kube-scheduler would evict pods for one
replica, which does not make its gang fit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from extender.gang_states import WaitReason, sentence_of
from extender.planner.gang_view import GangViews
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


_TRIED_AGAIN_SOON: Final = (WaitReason.JUST_BOUND, WaitReason.PASSING_PODS)
"""Why kube-scheduler is answered with an error: it tries the pod again by itself."""


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
    if gang.wait is WaitReason.NOT_PLANNED:
        gangs.plan(pod)
        gang = gangs.look(pod, names)
    if gang.wait is WaitReason.PASSING_PODS:
        gang = gangs.wait_for_passing(pod, names)
    if gang.wait is None:
        if gang.is_gang:
            if bind_rest is not None:
                bind_rest(pod, names)
            # kube-scheduler reads reasons only where no node is left.
            return FilterResult(gang.nodes)
        full = {*names} - {*gang.nodes} if len(gang.nodes) < len(names) else ()
        refused = dict.fromkeys(full, "reserved for a training job")
        return FilterResult(gang.nodes, refused, "reserved" if refused else "")
    job = f"{pod.namespace}/{pod.owner.name if pod.owner else ''}"
    sentence = sentence_of(gang.wait, job, gang.detail)
    if gang.wait in _TRIED_AGAIN_SOON:
        return FilterResult((), cause=gang.wait, error=sentence)
    return FilterResult((), dict.fromkeys(names, sentence), gang.wait)
