"""What a control plane does on its own after a change: one controller for each concern.

A controller sees every change (`observe`) and notes which objects to look at. Later it looks
at them as they are then and writes what is missing (`reconcile`). So it may act late, but never on
outdated objects."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Final, Protocol

from localcluster.embedded.apiserver.builtin import NOT_READY, established, resources_of
from localcluster.embedded.apiserver.errors import StatusError
from localcluster.embedded.apiserver.kinds import DEFINITIONS, NAMESPACES, NODES, Json
from localcluster.embedded.apiserver.metadata import is_terminating
from localcluster.embedded.apiserver.objects import Objects
from localcluster.embedded.apiserver.pods import is_ready
from localcluster.embedded.apiserver.store import Change, Name, Store, Stored
from localcluster.embedded.apiserver.wire import Target

_MAX_ROUNDS: Final = 100
_IN_EVERY_NAMESPACE: Final[dict[str, Json]] = {
    "configmaps": {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": ""}},
    "serviceaccounts": {"metadata": {"name": "default"}},
}
_CORDONED: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


class Controller(Protocol):
    """One concern."""

    def observe(self, kind: str, change: Change) -> None:
        """Note what a change asks for. Writes nothing."""

    def reconcile(self) -> bool:
        """Write what is to be written now; return whether any object was due."""


class Controllers:
    """All controllers: those that act right after a request, and those that act a little later."""

    def __init__(
        self, store: Store, immediate: Sequence[Controller], delayed: Sequence[Controller]
    ) -> None:
        self._immediate = tuple(immediate)
        self._all = (*immediate, *delayed)
        self.idle = True
        """Whether nothing has changed since they last ran."""
        store.subscribe(self._observe)

    def run_immediate(self) -> None:
        """Run the immediate ones until they have nothing to do."""
        self._run(self._immediate)

    def run_all(self) -> None:
        """Run all of them until they have nothing to do."""
        self._run(self._all)

    def _run(self, controllers: Sequence[Controller]) -> None:
        for _ in range(_MAX_ROUNDS):
            # All run in every round: one that never ends must not hold up the others.
            if not sum(each.reconcile() for each in controllers):
                break
        self.idle = True

    def _observe(self, kind: str, change: Change) -> None:
        self.idle = False
        for each in self._all:
            each.observe(kind, change)


def ignore_errors(work: Callable[[], object]) -> None:
    """Do a write that may not be needed any more; a refusal of the server is ignored."""
    try:
        work()
    except StatusError:
        return


class KindController:
    """A controller of one kind: notes names, and looks at each object that is still there."""

    key: ClassVar[str]
    """What the kind is stored under."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._pending: dict[Name, None] = {}

    def enqueue(self, name: Name) -> None:
        """Look at an object soon."""
        self._pending[name] = None

    def reconcile(self) -> bool:
        """Look at each object that was noted; return whether any was."""
        names, self._pending = self._pending, {}
        for name in names:
            found = self._objects.store.find(self.key, name)
            if found is not None:
                self.reconcile_object(found)
        return bool(names)

    def reconcile_object(self, found: Stored) -> None:
        """Write what one object asks for."""
        raise NotImplementedError


class NamespaceDefaults(KindController):
    """Gives each namespace its default ServiceAccount and its root certificate."""

    key = NAMESPACES.store_key

    def observe(self, kind: str, change: Change) -> None:
        """Look at a changed namespace, and at one that lost a default."""
        if kind == self.key:
            self.enqueue(change.name)
        elif change.gone and kind in _IN_EVERY_NAMESPACE:
            self.enqueue(("", change.name[0]))

    def reconcile_object(self, found: Stored) -> None:
        """Create what is missing."""
        if is_terminating(found.body):
            return
        for plural, body in _IN_EVERY_NAMESPACE.items():
            resource = self._objects.kinds.find("", "v1", plural)
            assert resource is not None
            target = Target(resource, found.name[1], body["metadata"]["name"])
            if self._objects.find(target) is None:
                self._objects.create(target, body)


class NamespaceDeletion(KindController):
    """Empties a deleted namespace, and removes it when nothing is left in it."""

    key = NAMESPACES.store_key

    def observe(self, kind: str, change: Change) -> None:
        """Look at a changed namespace, and at that of a removed object."""
        if kind == self.key:
            self.enqueue(change.name)
        elif change.gone:
            self.enqueue(("", change.name[0]))

    def reconcile_object(self, found: Stored) -> None:
        """Delete what is in the namespace, or the namespace itself."""
        if not is_terminating(found.body):
            return
        left = False
        for resource in self._objects.kinds.all():
            if resource.namespaced:
                for each in self._objects.store.items(resource.store_key, found.name[1]):
                    left = True
                    if not is_terminating(each.body):
                        target = Target(resource, *each.name)
                        ignore_errors(partial(self._objects.delete, target))
        if not left:
            self._objects.store.put(self.key, {**found.body, "spec": {}})
            self._objects.store.remove(self.key, found.name)


class Definitions(KindController):
    """Serves the kinds that CustomResourceDefinitions define; removes objects with their kind."""

    key = DEFINITIONS.store_key

    def observe(self, kind: str, change: Change) -> None:
        """Look at a changed definition; stop to serve one that is gone."""
        if kind == self.key and change.gone:
            defined = change.name[1]
            self._objects.kinds.define(defined, ())
            for each in self._objects.store.items(defined):
                self._objects.store.remove(defined, each.name)
        elif kind == self.key:
            self.enqueue(change.name)

    def reconcile_object(self, found: Stored) -> None:
        """Serve what is defined."""
        self._objects.kinds.define(found.name[1], resources_of(found.body))
        ready = established(found.body, self._objects.now())
        if ready != found.body:
            self._objects.store.put(self.key, ready)


class NodeTaints(KindController):
    """Keeps the taints of nodes equal to their conditions and their cordons."""

    key = NODES.store_key

    def observe(self, kind: str, change: Change) -> None:
        """Look at a node that changed."""
        if kind == self.key and not change.gone:
            self.enqueue(change.name)

    def reconcile_object(self, found: Stored) -> None:
        """Set and remove taints."""
        wanted = tainted(found.body)
        if wanted != found.body:
            self._objects.store.put(self.key, wanted)


def tainted(node: Json) -> Json:
    """Return a node with the taints that its conditions and its cordon ask for."""
    spec: dict[str, Any] = dict(node.get("spec") or {})
    taints = list(spec.pop("taints", None) or ())
    cordoned = bool(spec.get("unschedulable"))
    for taint, holds in ((NOT_READY, not is_ready(node)), (_CORDONED, cordoned)):
        present = any(each["key"] == taint["key"] for each in taints)
        if holds and not present:
            taints.append(dict(taint))
        elif present and not holds:
            taints = [each for each in taints if each["key"] != taint["key"]]
    return {**node, "spec": {**spec, **({"taints": taints} if taints else {})}}
