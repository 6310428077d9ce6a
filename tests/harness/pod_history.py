"""What happened to the pods of a namespace, in order, and what follows from it."""

from collections.abc import Callable

from tests.harness.api import CORE, Api, Json, in_namespace
from tests.harness.watch_recorder import WatchRecorder

_JOB = "training.kubeflow.org/job-name"


class PodHistory(WatchRecorder):
    """Records every change of a namespace's pods."""

    def __init__(
        self, api: Api, namespace: str, on_change: Callable[[Json], None] = lambda _: None
    ) -> None:
        super().__init__(api, in_namespace(CORE, namespace, "pods"), on_change)

    def bound_at_each_instant(self) -> list[dict[str, frozenset[str]]]:
        """Return, after each change, which pods of each job lay on a node then (job name to pod
        names)."""
        bound: dict[str, dict[str, str]] = {}
        instants: list[dict[str, frozenset[str]]] = []
        for change in list(self.changes):
            meta = change.object["metadata"]
            job = (meta.get("labels") or {}).get(_JOB, "")
            pods = bound.setdefault(job, {})
            if change.type == "DELETED" or not change.object["spec"].get("nodeName"):
                pods.pop(meta["uid"], None)
            else:
                pods[meta["uid"]] = meta["name"]
            instants.append(
                {name: frozenset(found.values()) for name, found in bound.items() if found}
            )
        return instants

    def refusals(self) -> dict[str, set[str]]:
        """Return, for each pod, every sentence with which kube-scheduler left it without a node, at
        any instant."""
        messages: dict[str, set[str]] = {}
        for change in list(self.changes):
            for each in change.object["status"].get("conditions") or ():
                if each["type"] == "PodScheduled" and each["status"] == "False":
                    messages.setdefault(change.object["metadata"]["name"], set()).add(
                        each["message"]
                    )
        return messages

    def ever(self, true: Callable[[dict[str, frozenset[str]]], bool]) -> bool:
        """Tell whether something was true of the bound pods at any instant."""
        return any(true(instant) for instant in self.bound_at_each_instant())
