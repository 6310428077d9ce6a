"""Deployments and ReplicaSets: keeps as many pods of a template as are wanted.

A ReplicaSet creates and deletes pods until it has its number. A Deployment has one ReplicaSet for
each template that it has had: the present one grows to full size, the others shrink to nothing,
before it (Recreate) or once its pods are ready (RollingUpdate, in one step)."""

import hashlib
from functools import partial
from typing import Final

import msgspec

from localcluster.embedded.apiserver.controllers import KindController, ignore_errors
from localcluster.embedded.apiserver.kinds import PODS, Json, Resource
from localcluster.embedded.apiserver.metadata import controller_of, is_terminating
from localcluster.embedded.apiserver.objects import Objects
from localcluster.embedded.apiserver.pods import ENDED, is_ready, with_condition
from localcluster.embedded.apiserver.store import Change, Stored
from localcluster.embedded.apiserver.wire import Target

DEPLOYMENTS: Final = "deployments.apps"
REPLICA_SETS: Final = "replicasets.apps"
HASH: Final = "pod-template-hash"


class ReplicaSets(KindController):
    """Gives each ReplicaSet its pods."""

    key = REPLICA_SETS

    def observe(self, kind: str, change: Change) -> None:
        """Look at a changed ReplicaSet, at that of a changed pod, at all for a new account."""
        owner = controller_of(change.now.body) if kind == PODS.store_key else None
        if kind == self.key:
            self.enqueue(change.name)
        elif owner is not None and owner["kind"] == "ReplicaSet":
            self.enqueue((change.name[0], owner["name"]))
        elif kind == "serviceaccounts" and change.before is None:
            # Pods that were refused for want of the account can be created now.
            for each in self._objects.store.items(self.key, change.name[0]):
                self.enqueue(each.name)

    def reconcile_object(self, found: Stored) -> None:
        """Create and delete pods, and count them."""
        if is_terminating(found.body):
            return
        wanted, present = found.body["spec"]["replicas"], self._live_pods(found)
        for _ in range(wanted - len(present)):
            target = Target(PODS, found.name[0])
            ignore_errors(partial(self._objects.create, target, pod_of(found.body)))
        # The unready go first, then the oldest.
        by_age = sorted(present, key=lambda each: (is_ready(each.body), each.version))
        for each in by_age[: max(0, len(present) - wanted)]:
            target = Target(PODS, *each.name)
            ignore_errors(partial(self._objects.delete, target))
        present = self._live_pods(found)
        ready = sum(is_ready(each.body) for each in present)
        status: Json = {"replicas": len(present), "fullyLabeledReplicas": len(present)}
        status.update({"readyReplicas": ready, "availableReplicas": ready} if ready else {})
        _write_status(self._objects, found, self.key, status)

    def _live_pods(self, found: Stored) -> list[Stored]:
        return [
            each
            for each in _pods_of(self._objects, found)
            if not is_terminating(each.body) and each.body["status"].get("phase") not in ENDED
        ]


class Deployments(KindController):
    """Gives each Deployment its ReplicaSets."""

    key = DEPLOYMENTS

    def observe(self, kind: str, change: Change) -> None:
        """Look at a changed Deployment, at that of a ReplicaSet, at all when a pod is gone."""
        owner = controller_of(change.now.body)
        if kind == self.key:
            self.enqueue(change.name)
        elif kind == REPLICA_SETS and owner is not None:
            self.enqueue((change.name[0], owner["name"]))
        elif kind == PODS.store_key and change.gone and owner is not None:
            for each in self._objects.store.items(self.key, change.name[0]):
                self.enqueue(each.name)

    def reconcile_object(self, found: Stored) -> None:
        """Create, grow and shrink ReplicaSets, and count their pods."""
        if not is_terminating(found.body):
            self._roll(found)
            self._update_status(found)

    def _roll(self, found: Stored) -> None:
        spec = found.body["spec"]
        new, old = self._replica_sets(found)
        recreates = spec["strategy"].get("type") == "Recreate"
        ready = sum(each.body["status"].get("readyReplicas") or 0 for each in new)
        if recreates or (new and ready >= spec["replicas"]):
            for each in old:
                self._scale(each, 0)
        if recreates and any(_pods_of(self._objects, each) for each in old):
            return
        for each in new:
            self._scale(each, spec["replicas"])
        if not new:
            target = Target(self._resource(), found.name[0])
            ignore_errors(lambda: self._objects.create(target, replica_set_of(found.body)))

    def _scale(self, found: Stored, replicas: int) -> None:
        def change(old: Json) -> Json:
            return {**old, "spec": {**old["spec"], "replicas": replicas}}

        target = Target(self._resource(), *found.name)
        ignore_errors(lambda: self._objects.change(target, change))

    def _update_status(self, found: Stored) -> None:
        new, old = self._replica_sets(found)
        wanted = found.body["spec"]["replicas"]
        total, updated = _total([*new, *old], "replicas"), _total(new, "replicas")
        ready = _total([*new, *old], "readyReplicas")
        counts = {"replicas": total, "updatedReplicas": updated, "readyReplicas": ready}
        counts.update(availableReplicas=ready, unavailableReplicas=max(0, wanted - ready))
        status: Json = {key: count for key, count in counts.items() if count}
        done = ready >= wanted and updated == total == wanted
        conditions = (found.body.get("status") or {}).get("conditions") or []
        available = f"MinimumReplicas{'Available' if ready >= wanted else 'Unavailable'}"
        for kind, holds, reason in (
            ("Available", ready >= wanted, available),
            ("Progressing", True, "NewReplicaSetAvailable" if done else "ReplicaSetUpdated"),
        ):
            moment = {"lastTransitionTime": self._objects.now()}
            condition = {"type": kind, "status": str(holds), "reason": reason, **moment}
            conditions = with_condition(conditions, condition)
        _write_status(self._objects, found, self.key, {**status, "conditions": conditions})

    def _replica_sets(self, found: Stored) -> tuple[list[Stored], list[Stored]]:
        """Return the ReplicaSets of the present template, at most one, and of earlier ones."""
        fingerprint = template_hash(found.body)
        every = self._objects.store.items(REPLICA_SETS, found.name[0])
        own = [each for each in every if _owns(found, each.body)]
        new = [each for each in own if each.body["metadata"]["labels"].get(HASH) == fingerprint]
        return new, [each for each in own if each not in new]

    def _resource(self) -> Resource:
        resource = self._objects.kinds.stored_as(REPLICA_SETS)
        assert resource is not None
        return resource


def template_hash(deployment: Json) -> str:
    """Return a short hash of a Deployment's template."""
    text = msgspec.json.encode(deployment["spec"]["template"], order="deterministic")
    return hashlib.sha256(text).hexdigest()[:10]


def replica_set_of(deployment: Json) -> Json:
    """Return the ReplicaSet for a Deployment's present template."""
    spec, hashed = deployment["spec"], {HASH: template_hash(deployment)}
    template, selector = spec["template"], spec["selector"]
    given = template.get("metadata") or {}
    labels = {**(given.get("labels") or {}), **hashed}
    matching = {**selector["matchLabels"], **hashed}
    return {
        "metadata": {
            "name": f"{deployment['metadata']['name']}-{hashed[HASH]}",
            "labels": labels,
            "ownerReferences": [_reference(deployment)],
        },
        "spec": {
            "replicas": spec["replicas"],
            "selector": {**selector, "matchLabels": matching},
            "template": {**template, "metadata": {**given, "labels": labels}},
        },
    }


def pod_of(replica_set: Json) -> Json:
    """Return a new pod of a ReplicaSet."""
    template = replica_set["spec"]["template"]
    given = template.get("metadata") or {}
    metadata = {key: given[key] for key in ("labels", "annotations") if given.get(key)}
    metadata["generateName"] = f"{replica_set['metadata']['name']}-"
    metadata["ownerReferences"] = [_reference(replica_set)]
    return {"metadata": metadata, "spec": template["spec"]}


def _reference(body: Json) -> Json:
    metadata = {key: body["metadata"][key] for key in ("name", "uid")}
    head = {"apiVersion": body["apiVersion"], "kind": body["kind"], **metadata}
    return {**head, "controller": True, "blockOwnerDeletion": True}


def _owns(owner: Stored, body: Json) -> bool:
    return (controller_of(body) or {}).get("uid") == owner.uid


def _pods_of(objects: Objects, replica_set: Stored) -> list[Stored]:
    every = objects.store.items(PODS.store_key, replica_set.name[0])
    return [each for each in every if _owns(replica_set, each.body)]


def _total(sets: list[Stored], field: str) -> int:
    return sum((each.body.get("status") or {}).get(field) or 0 for each in sets)


def _write_status(objects: Objects, found: Stored, key: str, status: Json) -> None:
    whole = {"observedGeneration": found.body["metadata"]["generation"], **status}
    if whole != found.body.get("status"):
        objects.store.put(key, {**found.body, "status": whole})
