"""Deletion: its preconditions, how it marks an object, and when the object may go.

An object goes at once unless something holds it: a finalizer, the grace period of a pod, or what
is left in a namespace. Until then it carries the instant at which it is to be gone."""

import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from localcluster.embedded.apiserver import pods
from localcluster.embedded.apiserver.errors import StatusError, precondition_failed
from localcluster.embedded.apiserver.kinds import NAMESPACES, PODS, Json, Resource
from localcluster.embedded.apiserver.metadata import timestamp
from localcluster.embedded.apiserver.selectors import Selection, selector_of
from localcluster.embedded.apiserver.store import Stored
from localcluster.embedded.apiserver.wire import DeleteOptions

_RETURNED_WHOLE: Final = (
    *("pods", "services", "serviceaccounts", "persistentvolumes", "persistentvolumeclaims"),
)


def check_preconditions(resource: Resource, old: Stored, options: DeleteOptions) -> None:
    """Refuse to delete another object than the caller means. Raises StatusError."""
    name, version = old.name[1], old.body["metadata"]["resourceVersion"]
    uid, asked = options.preconditions.uid, options.preconditions.resource_version
    if uid is not None and uid != old.uid:
        why = f"the UID in the precondition ({uid}) does not match the UID in record ({old.uid})."
        end = "The object might have been deleted and then recreated"
        raise precondition_failed(resource, name, f"{why} {end}")
    if asked not in {None, version}:
        why = f"the ResourceVersion in the precondition ({asked}) does not match the"
        end = f"ResourceVersion in record ({version}). The object might have been modified"
        raise precondition_failed(resource, name, f"{why} {end}")


def check_budgets(pod: Json, budgets: Iterable[Stored], pods_there: Sequence[Stored]) -> None:
    """Refuse an eviction that a PodDisruptionBudget rules out. Raises StatusError."""
    for budget in (each.body["spec"] for each in budgets):
        selection = Selection(selector_of(budget.get("selector") or {}))
        bodies = [each.body for each in pods_there if selection.matches(each.body)]
        healthy = sum(pods.is_ready(each) for each in bodies) - 1
        wanted = _part(budget.get("minAvailable", 0), len(bodies))
        if "maxUnavailable" in budget:
            wanted = len(bodies) - _part(budget["maxUnavailable"], len(bodies))
        if selection.matches(pod) and pods.is_ready(pod) and healthy < wanted:
            why = "Cannot evict pod as it would violate the pod's disruption budget."
            raise StatusError(429, "TooManyRequests", why)


def _part(amount: int | str, whole: int) -> int:
    """Return a number of pods that is given as such or in percent."""
    text = str(amount)
    return math.ceil(int(text[:-1]) * whole / 100) if text.endswith("%") else int(text)


def marked_deleted(resource: Resource, body: Json, options: DeleteOptions, now: datetime) -> Json:
    """Return an object with the instant at which it is to be gone."""
    metadata: dict[str, Any] = dict(body["metadata"])
    grace = pods.grace_seconds(body, options.grace_period_seconds) if resource is PODS else 0
    if metadata.get("deletionTimestamp"):
        if grace >= (metadata.get("deletionGracePeriodSeconds") or 0):
            return body  # a later deletion may shorten the grace period, never lengthen it
    elif "generation" in metadata:
        metadata["generation"] = int(metadata["generation"]) + 1
    metadata["deletionTimestamp"] = timestamp(now + timedelta(seconds=grace))
    if resource is NAMESPACES:
        status = {**body["status"], "phase": "Terminating"}
        return {**body, "metadata": metadata, "status": status}
    metadata["deletionGracePeriodSeconds"] = grace
    return {**body, "metadata": metadata}


def is_removable(body: Json) -> bool:
    """Tell whether an object was deleted and nothing holds it."""
    metadata = body["metadata"]
    content = body["kind"] == NAMESPACES.kind and body["spec"].get("finalizers")
    held = content or metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    return bool(metadata.get("deletionTimestamp")) and not held


def deletion_result(resource: Resource, gone: Stored) -> Stored | Json:
    """Return what the deletion answers: the object for some kinds, a Status for the others."""
    if not resource.group and resource.plural in _RETURNED_WHOLE:
        return gone
    group = {"group": resource.group} if resource.group else {}
    details = {"name": gone.name[1], **group, "kind": resource.plural, "uid": gone.uid}
    head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return {**head, "details": details}
