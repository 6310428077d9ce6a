"""PodDisruptionBudgets: how many pods of which labels may go now."""

from dataclasses import dataclass

import msgspec

from optimus.jobs import Requirement
from optimus.kube.client import Client, path_of
from optimus.kube.errors import ErrorKind
from optimus.kube.metadata import ApiObject, decoder_of
from optimus.kube.podspec import LabelSelector, label_requirements
from optimus.kube.results import Refused, answer_of
from optimus.placement.rules import Labels, all_hold


@dataclass(frozen=True, slots=True)
class Budget:
    """One PodDisruptionBudget."""

    namespace: str
    name: str
    requirements: tuple[Requirement, ...] | None
    """What the labels of its pods fulfil; ``None``: it has no pods."""

    allowed: int
    """How many of them may go now."""

    def protects(self, namespace: str, labels: Labels) -> bool:
        """Whether a pod with these labels is one of its pods."""
        return (
            namespace == self.namespace
            and self.requirements is not None
            and all_hold(self.requirements, labels)
        )


class _BudgetSpec(msgspec.Struct):
    selector: LabelSelector | None = None


class _BudgetStatus(msgspec.Struct, rename="camel"):
    disruptions_allowed: int = 0


class _List(msgspec.Struct):
    items: list[ApiObject[_BudgetSpec, _BudgetStatus]] | None = None


_list = decoder_of(_List, "a list of PodDisruptionBudgets")


class BudgetReader:
    """Reads all budgets of the cluster; uncached."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def read(self) -> tuple[Budget, ...] | Refused:
        """Every budget as it is now; none where the API server has no such resource."""
        found = answer_of(self._read)
        if isinstance(found, Refused) and found.kind is ErrorKind.NOT_FOUND:
            return ()
        return found

    def _read(self) -> tuple[Budget, ...]:
        what = "list PodDisruptionBudgets"
        body = self._client.get(what, path_of("policy", "v1", "poddisruptionbudgets"))
        return tuple(
            Budget(
                item.metadata.namespace,
                item.metadata.name,
                label_requirements(item.spec.selector if item.spec else None),
                item.status.disruptions_allowed if item.status else 0,
            )
            for item in _list(body).items or ()
        )
