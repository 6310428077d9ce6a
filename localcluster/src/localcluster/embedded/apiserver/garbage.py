"""Garbage collection: objects go when the last of their owners is gone.

background   the owner goes at once, and what it owned after it
foreground   the owner stays, marked, until those that it owned and that block it are gone
orphan       those that it owned forget it before it goes

An owner is known by its UID: an object that names one which never was, or which is gone, goes too.
So does one that names an owner in another namespace: there it counts for nothing.
"""

from typing import Final, TypeAlias

from localcluster.embedded.apiserver.controllers import quietly
from localcluster.embedded.apiserver.deletion import Options
from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.objects import Objects, Target
from localcluster.embedded.apiserver.store import Change, Name, Stored

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"

Place: TypeAlias = tuple[str, Name]
"""A kind's key in the store, and a name."""


class Garbage:
    """The collector: a graph of who owns whom, kept up to date from changes."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._living: dict[str, Place] = {}
        self._owned: dict[str, dict[Place, None]] = {}
        self._pending: dict[Place, None] = {}

    def saw(self, kind: str, change: Change) -> None:
        """Keep the graph, and note what may have to go."""
        place, uid = (kind, change.name), change.now.uid
        before = set() if change.before is None else owner_uids(change.before.body)
        after = set() if change.gone else owner_uids(change.now.body)
        for owner in before - after:
            self._owned.get(owner, {}).pop(place, None)
            self._note_owner(owner)
        for owner in after - before:
            self._owned.setdefault(owner, {})[place] = None
        if change.gone:
            self._living.pop(uid, None)
            self._pending.update(self._owned.get(uid, {}))
            return
        self._living[uid] = place
        if after - before or _waits(change.now.body):
            self._pending[place] = None

    def act(self) -> bool:
        """Look at each object that was noted, and delete or change it as its owners ask for."""
        places, self._pending = list(self._pending), {}
        for kind, name in places:
            found = self._objects.store.find(kind, name)
            resource = self._objects.kinds.stored_as(kind)
            if found is None or resource is None:
                continue
            target = Target(resource, *name)
            if _waits(found.body):
                self._finish(target, found)
            else:
                self._examine(target, found)
        return bool(places)

    def _note_owner(self, uid: str) -> None:
        place = self._living.get(uid)
        if place is not None:
            self._pending[place] = None

    def _examine(self, target: Target, found: Stored) -> None:
        """Delete an object without a living owner; else let it forget those that are gone."""
        owners = found.body["metadata"].get("ownerReferences") or []
        living = [each for each in owners if self._lives(each["uid"], found.name[0])]
        if len(living) == len(owners):
            return
        if living:
            quietly(lambda: self._objects.change(target, lambda body: _with_owners(body, living)))
        elif not found.body["metadata"].get("deletionTimestamp"):
            quietly(lambda: self._objects.delete(target, Options(uid=found.uid)))

    def _lives(self, owner: str, namespace: str) -> bool:
        """Tell whether an owner is where it can own something of a namespace: there, or outside of
        all namespaces."""
        place = self._living.get(owner)
        return place is not None and place[1][0] in {"", namespace}

    def _finish(self, target: Target, found: Stored) -> None:
        """Bring the deletion of an owner further that waits for what it owns."""
        finalizers = found.body["metadata"].get("finalizers") or ()
        owned = list(self._owned.get(found.uid, {}))
        if ORPHAN in finalizers:
            for place in owned:
                self._forget(place, found.uid)
            self._release(target, ORPHAN)
        elif not any(self._delete_owned(place, found.uid) for place in owned):
            self._release(target, FOREGROUND)

    def _forget(self, place: Place, uid: str) -> None:
        resource = self._objects.kinds.stored_as(place[0])
        found = self._objects.store.find(*place)
        if resource is not None and found is not None:
            others = [
                each for each in found.body["metadata"]["ownerReferences"] if each["uid"] != uid
            ]
            quietly(
                lambda: self._objects.change(
                    Target(resource, *place[1]), lambda body: _with_owners(body, others)
                )
            )

    def _delete_owned(self, place: Place, uid: str) -> bool:
        """Delete what an owner has that goes in the foreground; tell whether it holds the owner
        back."""
        resource = self._objects.kinds.stored_as(place[0])
        found = self._objects.store.find(*place)
        if resource is None or found is None:
            return False
        blocks = any(
            each["uid"] == uid and each.get("blockOwnerDeletion")
            for each in found.body["metadata"].get("ownerReferences") or ()
        )
        if not found.body["metadata"].get("deletionTimestamp"):
            policy = "Foreground" if self._owned.get(found.uid) else "Background"
            target = Target(resource, *place[1])
            quietly(
                lambda: self._objects.delete(target, Options(uid=found.uid, propagation=policy))
            )
        return blocks and self._objects.store.find(*place) is not None

    def _release(self, target: Target, finalizer: str) -> None:
        def without(body: Json) -> Json:
            kept = [each for each in body["metadata"].get("finalizers") or () if each != finalizer]
            return {**body, "metadata": {**body["metadata"], "finalizers": kept}}

        quietly(lambda: self._objects.change(target, without))


def owner_uids(body: Json) -> set[str]:
    """Return the UIDs of an object's owners."""
    return {each["uid"] for each in body["metadata"].get("ownerReferences") or ()}


def _waits(body: Json) -> bool:
    metadata = body["metadata"]
    held = metadata.get("finalizers") or ()
    return bool(metadata.get("deletionTimestamp")) and (FOREGROUND in held or ORPHAN in held)


def _with_owners(body: Json, owners: list[Json]) -> Json:
    return {**body, "metadata": {**body["metadata"], "ownerReferences": owners}}
