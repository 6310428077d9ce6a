"""Deployments and ReplicaSets: as many pods of a template as are asked for, old ones giving way to
new ones.

A ReplicaSet makes and deletes pods until it has its number. A Deployment has one ReplicaSet for
each template that it has had: the present one grows to full size, the others shrink to nothing,
first (Recreate) or as soon as the new pods are ready (RollingUpdate, in one step: no share of old
and new is kept)."""

import hashlib
from functools import partial
from typing import Final

import msgspec

from localcluster.embedded.apiserver.controllers import OfOneKind, Pending, quietly
from localcluster.embedded.apiserver.kinds import PODS, Json, Resource
from localcluster.embedded.apiserver.objects import Objects, Target
from localcluster.embedded.apiserver.pods import with_condition
from localcluster.embedded.apiserver.selectors import Selection, from_object
from localcluster.embedded.apiserver.store import Change, Name, Stored

DEPLOYMENTS: Final = "deployments.apps"
REPLICA_SETS: Final = "replicasets.apps"
HASH: Final = "pod-template-hash"
_ENDED: Final = frozenset({"Succeeded", "Failed"})


class ReplicaSets(OfOneKind):
    """Gives each ReplicaSet its pods."""

    key = REPLICA_SETS

    def saw(self, kind: str, change: Change) -> None:
        """Look at a ReplicaSet that changed, or of which a pod did."""
        if kind == REPLICA_SETS:
            self._pending.add(change.name)
        elif kind == PODS.store_key:
            note_owner(self._pending, change, "ReplicaSet")
        elif kind == "serviceaccounts" and change.before is None:
            for each in self._objects.store.items(REPLICA_SETS, change.name[0]):
                self._pending.add(
                    each.name
                )  # pods that were refused for want of it can be made now

    def look(self, found: Stored) -> None:
        """Make and delete pods."""
        if not leaves(found.body):
            self._fill(found)
            self._tell(found.name)

    def _fill(self, found: Stored) -> None:
        wanted, present = found.body["spec"]["replicas"], live_pods(self._objects, found)
        for _ in range(wanted - len(present)):
            quietly(lambda: self._objects.create(Target(PODS, found.name[0]), pod_of(found.body)))
        # Those that never started go first, then the youngest, as the real controller has it by and
        # large.
        surplus = sorted(present, key=lambda each: (is_ready(each.body), each.version))[
            : len(present) - wanted
        ]
        for each in surplus if len(present) > wanted else ():
            quietly(partial(self._objects.delete, Target(PODS, *each.name)))

    def _tell(self, name: Name) -> None:
        found = self._objects.store.find(REPLICA_SETS, name)
        assert found is not None
        present = live_pods(self._objects, found)
        ready = sum(is_ready(each.body) for each in present)
        status: Json = {"replicas": len(present), "fullyLabeledReplicas": len(present)}
        status.update({"readyReplicas": ready, "availableReplicas": ready} if ready else {})
        write_status(self._objects, found, REPLICA_SETS, status)


class Deployments(OfOneKind):
    """Gives each Deployment its ReplicaSets."""

    key = DEPLOYMENTS

    def saw(self, kind: str, change: Change) -> None:
        """Look at a Deployment that changed, or of which a ReplicaSet did, or a pod of that one
        went."""
        if kind == DEPLOYMENTS:
            self._pending.add(change.name)
        elif kind == REPLICA_SETS:
            note_owner(self._pending, change, "Deployment")
        elif kind == PODS.store_key and change.gone and owner_of(change.now.body, "ReplicaSet"):
            for each in self._objects.store.items(DEPLOYMENTS, change.name[0]):
                self._pending.add(each.name)

    def look(self, found: Stored) -> None:
        """Make, grow and shrink ReplicaSets."""
        if not leaves(found.body):
            self._roll(found)
            self._tell(found.name)

    def _roll(self, found: Stored) -> None:
        spec, fingerprint = found.body["spec"], template_hash(found.body)
        sets = self._sets(found)
        old = [each for each in sets if each.body["metadata"]["labels"].get(HASH) != fingerprint]
        new = next((each for each in sets if each not in old), None)
        recreates = (spec.get("strategy") or {}).get("type") == "Recreate"
        ready = (
            new is not None and (new.body["status"].get("readyReplicas") or 0) >= spec["replicas"]
        )
        if recreates or ready:
            for each in old:
                self._scale(each, 0)
        if recreates and any(all_pods(self._objects, each) for each in old):
            return
        if new is None:
            resource = self._resource(REPLICA_SETS)
            quietly(
                lambda: self._objects.create(
                    Target(resource, found.name[0]), replica_set_of(found.body)
                )
            )
        else:
            self._scale(new, spec["replicas"])

    def _scale(self, found: Stored, replicas: int) -> None:
        target = Target(self._resource(REPLICA_SETS), *found.name)
        quietly(
            lambda: self._objects.change(
                target, lambda old: {**old, "spec": {**old["spec"], "replicas": replicas}}
            )
        )

    def _tell(self, name: Name) -> None:
        found = self._objects.store.find(DEPLOYMENTS, name)
        assert found is not None
        fingerprint, sets = template_hash(found.body), self._sets(found)
        new = [each for each in sets if each.body["metadata"]["labels"].get(HASH) == fingerprint]
        total, updated = replicas_of(sets, "replicas"), replicas_of(new, "replicas")
        ready, wanted = replicas_of(sets, "readyReplicas"), found.body["spec"]["replicas"]
        counts = {
            "replicas": total,
            "updatedReplicas": updated,
            "readyReplicas": ready,
            "availableReplicas": ready,
        }
        counts["unavailableReplicas"] = max(0, wanted - ready)
        status: Json = {key: count for key, count in counts.items() if count}
        done = ready >= wanted and updated == total == wanted
        before = (found.body.get("status") or {}).get("conditions") or []
        status["conditions"] = self._conditions(before, available=ready >= wanted, done=done)
        write_status(self._objects, found, DEPLOYMENTS, status)

    def _conditions(self, before: list[Json], *, available: bool, done: bool) -> list[Json]:
        now = self._objects.now()
        words = {
            "Available": ("MinimumReplicasAvailable", "Deployment has minimum availability.")
            if available
            else ("MinimumReplicasUnavailable", "Deployment does not have minimum availability."),
            "Progressing": ("NewReplicaSetAvailable", "ReplicaSet has successfully progressed.")
            if done
            else ("ReplicaSetUpdated", "ReplicaSet is progressing."),
        }
        statuses = {"Available": "True" if available else "False", "Progressing": "True"}
        for kind, (reason, message) in words.items():
            known = next((each for each in before if each["type"] == kind), {})
            condition = {
                "type": kind,
                "status": statuses[kind],
                "reason": reason,
                "message": message,
            }
            changed = any(known.get(key) != value for key, value in condition.items())
            condition["lastUpdateTime"] = now if changed else known["lastUpdateTime"]
            before = with_condition(before, {**condition, "lastTransitionTime": now})
        return before

    def _sets(self, found: Stored) -> list[Stored]:
        every = self._objects.store.items(REPLICA_SETS, found.name[0])
        return [each for each in every if owns(found, each.body)]

    def _resource(self, key: str) -> Resource:
        resource = self._objects.kinds.stored_as(key)
        assert resource is not None
        return resource


def template_hash(deployment: Json) -> str:
    """Return a short word that stands for a Deployment's template."""
    text = msgspec.json.encode(deployment["spec"]["template"], order="deterministic")
    return hashlib.sha256(text).hexdigest()[:10]


def replica_set_of(deployment: Json) -> Json:
    """Return the ReplicaSet for a Deployment's present template."""
    fingerprint, metadata, spec = (
        template_hash(deployment),
        deployment["metadata"],
        deployment["spec"],
    )
    template, selector = spec["template"], spec["selector"]
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH: fingerprint}
    matching = {**(selector.get("matchLabels") or {}), HASH: fingerprint}
    return {
        "metadata": {
            "name": f"{metadata['name']}-{fingerprint}",
            "labels": labels,
            "annotations": {"deployment.kubernetes.io/desired-replicas": str(spec["replicas"])},
            "ownerReferences": [controller_of(deployment)],
        },
        "spec": {
            "replicas": spec["replicas"],
            "selector": {**selector, "matchLabels": matching},
            "template": {
                **template,
                "metadata": {**(template.get("metadata") or {}), "labels": labels},
            },
        },
    }


def pod_of(replica_set: Json) -> Json:
    """Return a new pod of a ReplicaSet."""
    template = replica_set["spec"]["template"]
    given = template.get("metadata") or {}
    metadata = {
        key: given[key] for key in ("labels", "annotations", "finalizers") if given.get(key)
    }
    metadata["generateName"] = f"{replica_set['metadata']['name']}-"
    metadata["ownerReferences"] = [controller_of(replica_set)]
    return {"metadata": metadata, "spec": template["spec"]}


def controller_of(body: Json) -> Json:
    """Return the reference by which an object controls what it makes."""
    head = {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "name": body["metadata"]["name"],
    }
    return {**head, "uid": body["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True}


def owner_of(body: Json, kind: str) -> Json | None:
    """Return the reference to the controller of an object, if it is of this kind."""
    owners = body["metadata"].get("ownerReferences") or ()
    return next((each for each in owners if each.get("controller") and each["kind"] == kind), None)


def note_owner(pending: Pending, change: Change, kind: str) -> None:
    """Note to look at the controller of an object that changed."""
    owner = owner_of(change.now.body, kind)
    if owner is not None:
        pending.add((change.name[0], owner["name"]))


def owns(owner: Stored, body: Json) -> bool:
    """Tell whether an object is controlled by another."""
    reference = owner_of(body, owner.body["kind"])
    return reference is not None and reference["uid"] == owner.uid


def all_pods(objects: Objects, replica_set: Stored) -> list[Stored]:
    """Return the pods of a ReplicaSet, also those that are going."""
    chosen = Selection(from_object(replica_set.body["spec"]["selector"]))
    every = objects.store.items(PODS.store_key, replica_set.name[0])
    return [each for each in every if chosen.matches(each.body) and owns(replica_set, each.body)]


def live_pods(objects: Objects, replica_set: Stored) -> list[Stored]:
    """Return the pods that count: neither ended nor going."""
    return [
        each
        for each in all_pods(objects, replica_set)
        if not leaves(each.body) and each.body["status"].get("phase") not in _ENDED
    ]


def is_ready(pod: Json) -> bool:
    """Tell whether a pod says that it is ready."""
    conditions = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def leaves(body: Json) -> bool:
    """Tell whether an object is being deleted."""
    return bool(body["metadata"].get("deletionTimestamp"))


def replicas_of(sets: list[Stored], field: str) -> int:
    """Return the sum of a count in the statuses of ReplicaSets."""
    return sum((each.body.get("status") or {}).get(field) or 0 for each in sets)


def write_status(objects: Objects, found: Stored, key: str, status: Json) -> None:
    """Store a status where it differs, with the generation that it is about."""
    whole = {"observedGeneration": found.body["metadata"]["generation"], **status}
    if whole != found.body.get("status"):
        objects.store.put(key, {**found.body, "status": whole})
