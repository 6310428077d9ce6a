"""What is decided about a pod, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from optimus.kube.pods import Pod


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The nodes a pod may go to, and why not to each of the others; ``cause`` sums the refusal up
    for counting."""

    kept: tuple[str, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    cause: str = ""


@dataclass(frozen=True, slots=True)
class PendingNomination:
    """A pod that is planned on a node and waits; kube-scheduler was last told so at ``answered_at``
    (monotonic)."""

    pod: Pod
    node: str
    answered_at: float


def refuse(names: Sequence[str], reason: str, cause: str) -> FilterResult:
    """No node at all, for one reason that does not vary: a changed text makes kube-scheduler try
    again."""
    return FilterResult((), dict.fromkeys(names, reason), cause)
