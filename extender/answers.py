"""What a call of filter is answered: nodes, or why there is none.

A refusal is a constant sentence. kube-scheduler writes a changed sentence into the pod's status,
and that write requeues the pod: a text that varied would requeue it in a loop. Refused nodes are
reported as unresolvable (``extender.http.wire``): otherwise kube-scheduler would evict pods for one
replica, which does not make its gang fit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from extender.gang_states import WaitReason, sentence_of
from optimus.kube.pods import Pod


class Wait(NamedTuple):
    """A pod gets no node now."""

    reason: WaitReason
    detail: str = ""
    """The reason in a sentence, where that differs from gang to gang."""


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
"""Reasons answered by an error: kube-scheduler tries the pod again by itself."""


def refusal_of(pod: Pod, names: Sequence[str], wait: Wait) -> FilterResult:
    """Return the answer that refuses a pod every offered node."""
    job = f"{pod.namespace}/{pod.owner.name if pod.owner else ''}"
    sentence = sentence_of(wait.reason, job, wait.detail)
    if wait.reason in _TRIED_AGAIN_SOON:
        return FilterResult((), cause=wait.reason, error=sentence)
    return FilterResult((), dict.fromkeys(names, sentence), wait.reason)
