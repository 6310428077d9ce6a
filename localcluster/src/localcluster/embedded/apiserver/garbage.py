"""Garbage collection in the background: objects go when the last of their owners is gone.

An owner is identified by its UID. An object that names an owner which never existed, is gone, or is
in another namespace goes too."""

from typing import TypeAlias

from localcluster.embedded.apiserver.controllers import ignore_errors
from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.metadata import is_terminating
from localcluster.embedded.apiserver.objects import Objects
from localcluster.embedded.apiserver.store import Change, Name, Stored
from localcluster.embedded.apiserver.wire import DeleteOptions, Preconditions, Target

Place: TypeAlias = tuple[str, Name]
"""A kind's key in the store, and a name."""


class GarbageCollector:
    """Keeps a graph of owners and dependents up to date from changes."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._existing: dict[str, Place] = {}
        self._dependents: dict[str, dict[Place, None]] = {}
        self._pending: dict[Place, None] = {}

    def observe(self, kind: str, change: Change) -> None:
        """Update the graph, and note which objects may have to go."""
        place, uid = (kind, change.name), change.now.uid
        before = set() if change.before is None else _owner_uids(change.before.body)
        after = set() if change.gone else _owner_uids(change.now.body)
        for owner in before - after:
            self._dependents.get(owner, {}).pop(place, None)
        for owner in after - before:
            self._dependents.setdefault(owner, {})[place] = None
        if change.gone:
            self._existing.pop(uid, None)
            self._pending.update(self._dependents.pop(uid, {}))
        else:
            self._existing[uid] = place
            if after - before:
                self._pending[place] = None

    def reconcile(self) -> bool:
        """Look at each object that was noted; return whether any was."""
        places, self._pending = self._pending, {}
        for kind, name in places:
            found, resource = (
                self._objects.store.find(kind, name),
                self._objects.kinds.stored_as(kind),
            )
            if found is not None and resource is not None:
                self._examine(Target(resource, *name), found)
        return bool(places)

    def _examine(self, target: Target, found: Stored) -> None:
        """Delete an object without an existing owner; else drop its references to others."""
        owners = found.body["metadata"].get("ownerReferences") or []
        existing = [each for each in owners if self._exists(each["uid"], found.name[0])]

        def change(body: Json) -> Json:
            return {**body, "metadata": {**body["metadata"], "ownerReferences": existing}}

        if len(existing) == len(owners):
            return
        if existing:
            ignore_errors(lambda: self._objects.change(target, change))
        elif not is_terminating(found.body):
            options = DeleteOptions(preconditions=Preconditions(uid=found.uid))
            ignore_errors(lambda: self._objects.delete(target, options))

    def _exists(self, owner: str, namespace: str) -> bool:
        """Tell whether an owner is in this namespace, or outside of all namespaces."""
        place = self._existing.get(owner)
        return place is not None and place[1][0] in {"", namespace}


def _owner_uids(body: Json) -> set[str]:
    return {each["uid"] for each in body["metadata"].get("ownerReferences") or ()}
