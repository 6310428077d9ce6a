"""What a control plane does on its own after a change: one controller for each concern.

A controller hears of every change (`saw`) and notes what to look at; later, in a step of its own,
it looks at the objects as they are then and writes what is missing (`act`). So it may act late, but
never on what is out of date."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final, Protocol

from localcluster.embedded.apiserver import definitions
from localcluster.embedded.apiserver.deletion import CLEANUP
from localcluster.embedded.apiserver.kinds import DEFINITIONS, NAMESPACES, NODES, Json
from localcluster.embedded.apiserver.objects import Objects, Target
from localcluster.embedded.apiserver.refusals import Refusal
from localcluster.embedded.apiserver.store import Change, Name, Stored

_ROUNDS: Final = 100
_ABOUT_CA: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal "
    "endpoints such as the"
    " internal service IP or kubernetes.default.svc. No other usage is guaranteed across "
    "distributions of Kubernetes"
    " clusters."
)
_FURNITURE: Final[Mapping[str, Json]] = {
    "configmaps": {
        "metadata": {
            "name": "kube-root-ca.crt",
            "annotations": {"kubernetes.io/description": _ABOUT_CA},
        },
        "data": {"ca.crt": ""},
    },
    "serviceaccounts": {"metadata": {"name": "default"}},
}
_TAINTS: Final = {
    "node.kubernetes.io/not-ready": "NoSchedule",
    "node.kubernetes.io/unschedulable": "NoSchedule",
}


class Controller(Protocol):
    """One concern."""

    def saw(self, kind: str, change: Change) -> None:
        """Note what a change asks for. Writes nothing."""
        ...

    def act(self) -> bool:
        """Do what is to be done now; tell whether anything was."""
        ...


class Controllers:
    """All controllers, in two groups: what a caller would wait for, and what may take its time."""

    def __init__(
        self, objects: Objects, prompt: Sequence[Controller], late: Sequence[Controller]
    ) -> None:
        self._prompt = tuple(prompt)
        self._late = tuple(late)
        self._quiet = True
        objects.store.listen(self._saw)

    @property
    def quiet(self) -> bool:
        """Whether nothing changed since the last `settle`."""
        return self._quiet

    def settle(self) -> None:
        """Let the prompt ones act until they have nothing to do."""
        _until_done(self._prompt)
        self._quiet = True

    def settle_all(self) -> None:
        """Let all of them act until they have nothing to do."""
        _until_done((*self._prompt, *self._late))
        self._quiet = True

    def _saw(self, kind: str, change: Change) -> None:
        self._quiet = False
        for each in (*self._prompt, *self._late):
            each.saw(kind, change)


def _until_done(controllers: Sequence[Controller]) -> None:
    for _ in range(_ROUNDS):
        # Each gets its turn in every round: one that is never done must not hold up the others.
        if not sum(each.act() for each in controllers):
            return


class Pending:
    """Names to look at, each once, in the order in which they came up."""

    def __init__(self) -> None:
        self._names: dict[Name, None] = {}

    def add(self, name: Name) -> None:
        """Look at an object soon."""
        self._names[name] = None

    def take(self) -> list[Name]:
        """Return what is to be looked at, and forget it."""
        names, self._names = list(self._names), {}
        return names


def quietly(work: Callable[[], object]) -> None:
    """Do what may have become needless meanwhile: a refusal then is no trouble."""
    try:
        work()
    except Refusal:
        return


class OfOneKind:
    """A controller of the objects of one kind: notes their names, and looks at each that is still
    there."""

    key: ClassVar[str]
    """What the kind is stored under."""

    def __init__(self, objects: Objects) -> None:
        """Act on these objects."""
        self._objects = objects
        self._pending = Pending()

    def act(self) -> bool:
        """Look at each object that was noted; tell whether any was."""
        names = self._pending.take()
        for name in names:
            found = self._objects.store.find(self.key, name)
            if found is not None:
                self.look(found)
        return bool(names)

    def look(self, found: Stored) -> None:
        """Do what one object asks for."""
        raise NotImplementedError


class Furnishing(OfOneKind):
    """Gives each namespace its ServiceAccount and its root certificate."""

    key = NAMESPACES.store_key

    def saw(self, kind: str, change: Change) -> None:
        """Look at a namespace that is there, and at one that lost something."""
        if kind == NAMESPACES.store_key:
            self._pending.add(change.name)
        elif change.gone and kind in _FURNITURE:
            self._pending.add(("", change.name[0]))

    def look(self, found: Stored) -> None:
        """Furnish a namespace."""
        if not _leaves(found):
            self._furnish(found.name[1])

    def _furnish(self, namespace: str) -> None:
        for plural, body in _FURNITURE.items():
            resource = self._objects.kinds.find("", "v1", plural)
            assert resource is not None
            if self._objects.store.find(plural, (namespace, body["metadata"]["name"])) is None:
                self._objects.create(Target(resource, namespace), body)


class Emptying(OfOneKind):
    """Empties a namespace that was deleted, and lets it go when nothing is left in it."""

    key = NAMESPACES.store_key

    def saw(self, kind: str, change: Change) -> None:
        """Look at a namespace that goes, and at the one of anything that went."""
        if kind == NAMESPACES.store_key:
            self._pending.add(change.name)
        elif change.gone:
            self._pending.add(("", change.name[0]))

    def look(self, found: Stored) -> None:
        """Empty a namespace that goes."""
        if _leaves(found):
            self._empty(found.name[1], found.body)

    def _empty(self, namespace: str, body: Json) -> None:
        left = False
        for resource in self._objects.kinds.namespaced():
            for each in self._objects.store.items(resource.store_key, namespace):
                left = True
                if not _leaves(each):
                    quietly(partial(self._objects.delete, Target(resource, *each.name)))
        if not left:
            self._objects.store.put(NAMESPACES.store_key, {**body, "spec": {}})
            self._objects.store.remove(NAMESPACES.store_key, ("", namespace))


def _leaves(found: Stored) -> bool:
    return bool(found.body["metadata"].get("deletionTimestamp"))


class Definitions(OfOneKind):
    """Serves the kinds that CustomResourceDefinitions define, and removes their objects with
    them."""

    key = DEFINITIONS.store_key

    def saw(self, kind: str, change: Change) -> None:
        """Look at a definition that changed, or at that of an object that went."""
        if kind == DEFINITIONS.store_key:
            self._pending.add(change.name)
        elif change.gone:
            self._pending.add(("", kind))

    def look(self, found: Stored) -> None:
        """Serve, or stop to serve, what is defined."""
        if _leaves(found):
            self._clean(found.name[1], found.body)
        else:
            self._serve(found.name[1], found.body)

    def _serve(self, name: str, body: Json) -> None:
        self._objects.kinds.define(name, definitions.resources_of(body))
        ready = definitions.established(body, self._objects.now())
        if ready != body:
            self._objects.store.put(DEFINITIONS.store_key, ready)

    def _clean(self, name: str, body: Json) -> None:
        resource = self._objects.kinds.stored_as(name)
        left = self._objects.store.items(name)
        for each in left:
            if resource is not None and not each.body["metadata"].get("deletionTimestamp"):
                quietly(partial(self._objects.delete, Target(resource, *each.name)))
        if left or CLEANUP not in (body["metadata"].get("finalizers") or ()):
            return
        self._objects.kinds.define(name, ())
        kept = [each for each in body["metadata"]["finalizers"] if each != CLEANUP]
        self._objects.change(
            Target(DEFINITIONS, "", name),
            lambda old: {**old, "metadata": {**old["metadata"], "finalizers": kept}},
        )


class Nodes(OfOneKind):
    """Keeps the taints of nodes equal to what they say of themselves: not ready, or cordoned."""

    key = NODES.store_key

    def saw(self, kind: str, change: Change) -> None:
        """Look at a node that changed."""
        if kind == NODES.store_key and not change.gone:
            self._pending.add(change.name)

    def look(self, found: Stored) -> None:
        """Set and remove taints."""
        wanted = tainted(found.body)
        if wanted != found.body:
            self._objects.store.put(NODES.store_key, wanted)


def tainted(node: Json) -> Json:
    """Return a node with the taints that its conditions and its cordon ask for."""
    spec: dict[str, Any] = dict(node.get("spec") or {})
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    wanted = {
        key
        for key, holds in zip(_TAINTS, (not ready, bool(spec.get("unschedulable"))), strict=True)
        if holds
    }
    present = spec.get("taints") or []
    kept = [each for each in present if each["key"] not in _TAINTS or each["key"] in wanted]
    keys = {each["key"] for each in kept}
    taints = kept + [{"key": key, "effect": _TAINTS[key]} for key in sorted(wanted - keys)]
    if taints == present:
        return node
    spec.pop("taints", None)
    return {**node, "spec": {**spec, **({"taints": taints} if taints else {})}}
