"""Deployments: keeps as many pods of a template as are wanted.

No ReplicaSets stand between: a pod is the Deployment's own, and a label has the hash of its
template. Pods of earlier templates go before those of the present one come (Recreate), or once
these are ready (RollingUpdate, in one step)."""

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from localcluster.embedded.apiserver.controllers import KindController, ignore_errors
from localcluster.embedded.apiserver.kinds import PODS, Json
from localcluster.embedded.apiserver.metadata import controller_of, is_terminating
from localcluster.embedded.apiserver.pods import ENDED, is_ready, with_condition
from localcluster.embedded.apiserver.store import Change, Stored
from localcluster.embedded.apiserver.wire import Target

DEPLOYMENTS: Final = "deployments.apps"
HASH: Final = "pod-template-hash"


class Deployments(KindController):
    """Gives each Deployment its pods."""

    key = DEPLOYMENTS

    def observe(self, kind: str, change: Change) -> None:
        """Look at a changed Deployment, at that of a changed pod, at all for a new account."""
        owner = controller_of(change.now.body) if kind == PODS.store_key else None
        if kind == self.key:
            self.enqueue(change.name)
        elif owner is not None and owner["kind"] == "Deployment":
            self.enqueue((change.name[0], owner["name"]))
        elif kind == "serviceaccounts" and change.before is None:
            # Pods that were refused for want of the account can be created now.
            for each in self._objects.store.items(self.key, change.name[0]):
                self.enqueue(each.name)

    def reconcile_object(self, found: Stored) -> None:
        """Create and delete pods, and count them."""
        if is_terminating(found.body):
            return
        spec, (new, old) = found.body["spec"], self._pods(found)
        recreates = spec["strategy"].get("type") == "Recreate"
        present, ready = _live(new), _ready(new)
        if recreates or ready >= spec["replicas"]:
            self._delete(_live(old))
        if not (recreates and old):
            for _ in range(spec["replicas"] - len(present)):
                target = Target(PODS, found.name[0])
                ignore_errors(partial(self._objects.create, target, pod_of(found.body)))
            # The unready go first, then the oldest.
            by_age = sorted(present, key=lambda each: (is_ready(each.body), each.version))
            self._delete(by_age[: max(0, len(present) - spec["replicas"])])
        self._update_status(found)

    def _delete(self, pods: Sequence[Stored]) -> None:
        for each in pods:
            ignore_errors(partial(self._objects.delete, Target(PODS, *each.name)))

    def _update_status(self, found: Stored) -> None:
        new, old = self._pods(found)
        wanted, updated = found.body["spec"]["replicas"], len(_live(new))
        total, ready = updated + len(_live(old)), _ready([*new, *old])
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
        status["observedGeneration"] = found.body["metadata"]["generation"]
        status["conditions"] = conditions
        if status != found.body.get("status"):
            self._objects.store.put(self.key, {**found.body, "status": status})

    def _pods(self, found: Stored) -> tuple[list[Stored], list[Stored]]:
        """Its pods that have not ended, of the present template and of earlier ones."""
        fingerprint = template_hash(found.body)
        own = [
            each
            for each in self._objects.store.items(PODS.store_key, found.name[0])
            if (controller_of(each.body) or {}).get("uid") == found.uid
            and each.body["status"].get("phase") not in ENDED
        ]
        new = [each for each in own if each.body["metadata"]["labels"].get(HASH) == fingerprint]
        return new, [each for each in own if each not in new]


def template_hash(deployment: Json) -> str:
    """Return a short hash of a Deployment's template."""
    text = msgspec.json.encode(deployment["spec"]["template"], order="deterministic")
    return hashlib.sha256(text).hexdigest()[:10]


def pod_of(deployment: Json) -> Json:
    """Return a new pod of a Deployment's present template."""
    template, metadata = deployment["spec"]["template"], deployment["metadata"]
    given, fingerprint = template.get("metadata") or {}, template_hash(deployment)
    made = {key: given[key] for key in ("labels", "annotations") if given.get(key)}
    made["labels"] = {**(made.get("labels") or {}), HASH: fingerprint}
    made["generateName"] = f"{metadata['name']}-{fingerprint}-"
    owner = {key: metadata[key] for key in ("name", "uid")}
    owner |= {"apiVersion": deployment["apiVersion"], "kind": deployment["kind"]}
    made["ownerReferences"] = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    return {"metadata": made, "spec": template["spec"]}


def _live(pods: Sequence[Stored]) -> list[Stored]:
    return [each for each in pods if not is_terminating(each.body)]


def _ready(pods: Sequence[Stored]) -> int:
    return sum(is_ready(each.body) for each in _live(pods))
