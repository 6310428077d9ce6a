"""Deletion: its preconditions, how it marks an object, and when the object may go.

An object goes at once unless something holds it: a finalizer, the grace period of a pod, or what
is left in a namespace. Until then it carries the instant at which it is to be gone."""

from datetime import datetime, timedelta
from typing import Any, Final

from localcluster.embedded.apiserver import pods
from localcluster.embedded.apiserver.errors import conflict
from localcluster.embedded.apiserver.kinds import NAMESPACES, PODS, Json, Resource
from localcluster.embedded.apiserver.metadata import timestamp
from localcluster.embedded.apiserver.store import Stored
from localcluster.embedded.apiserver.wire import DeleteOptions

_RETURNED_WHOLE: Final = (
    *("pods", "services", "serviceaccounts", "persistentvolumes", "persistentvolumeclaims"),
)


def check_preconditions(resource: Resource, old: Stored, options: DeleteOptions) -> None:
    """Refuse to delete another object than the caller means. Raises StatusError."""
    version = old.body["metadata"]["resourceVersion"]
    uid, asked = options.preconditions.uid, options.preconditions.resource_version
    if uid not in {None, old.uid} or asked not in {None, version}:
        why = f"the precondition ({uid}, {asked}) does not match ({old.uid}, {version})"
        raise conflict(resource, old.name[1], why)


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
