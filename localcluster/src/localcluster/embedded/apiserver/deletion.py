"""Deletion: what must hold before it, how it marks an object, and when the object may go.

An object goes at once unless something holds it: a finalizer, the time that a pod's containers get
to end, or the kinds of a namespace. Until then it carries the instant at which it is to be gone.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from localcluster.embedded.apiserver import pods
from localcluster.embedded.apiserver.kinds import DEFINITIONS, NAMESPACES, PODS, Json, Resource
from localcluster.embedded.apiserver.refusals import precondition_failed
from localcluster.embedded.apiserver.store import Stored

CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
"""Holds a definition until the objects of its kind are gone."""
_ANSWERED_WITH_OBJECT: Final = frozenset(
    {
        "pods",
        "services",
        "serviceaccounts",
        "persistentvolumes",
        "persistentvolumeclaims",
        "resourcequotas",
    }
)
_FINALIZER_OF: Final = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


@dataclass(frozen=True)
class Options:
    """What a write asks for besides its body. `None` leaves the choice to the kind."""

    dry_run: bool = False
    grace_seconds: int | None = None
    propagation: str | None = None
    uid: str | None = None
    resource_version: str | None = None


def check_preconditions(resource: Resource, old: Stored, options: Options) -> None:
    """Refuse to delete another object than the caller means."""
    name, version = old.name[1], old.body["metadata"]["resourceVersion"]
    if options.uid is not None and options.uid != old.uid:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({old.uid})."
        )
        raise precondition_failed(
            resource, name, f"{why} The object might have been deleted and then recreated"
        )
    if options.resource_version not in {None, version}:
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not "
            "match the"
        )
        said = f"{why} ResourceVersion in record ({version}). The object might have been modified"
        raise precondition_failed(resource, name, said)


def marked_to_go(resource: Resource, body: Json, options: Options, now: datetime) -> Json:
    """Return an object as its deletion leaves it: with the instant at which it goes and what holds
    it back."""
    metadata: dict[str, Any] = dict(body["metadata"])
    grace = pods.grace_seconds(body, options.grace_seconds) if resource is PODS else 0
    holding = _FINALIZER_OF.get(options.propagation or "")
    if metadata.get("deletionTimestamp"):
        if resource is DEFINITIONS or grace >= (metadata.get("deletionGracePeriodSeconds") or 0):
            return body
    else:
        if holding and holding not in (metadata.get("finalizers") or ()):
            metadata["finalizers"] = [*(metadata.get("finalizers") or ()), holding]
        if "generation" in metadata and resource is not DEFINITIONS:
            metadata["generation"] = int(metadata["generation"]) + 1
    metadata["deletionTimestamp"] = instant(now + timedelta(seconds=grace))
    if resource is DEFINITIONS:
        metadata["finalizers"] = [*(metadata.get("finalizers") or ()), CLEANUP]
        return {**body, "metadata": metadata}
    if resource is NAMESPACES:
        status = {**body["status"], "phase": "Terminating"}
        return {**body, "metadata": metadata, "status": status}
    metadata["deletionGracePeriodSeconds"] = grace
    return {**body, "metadata": metadata}


def may_go(body: Json) -> bool:
    """Tell whether nothing holds an object back that was deleted."""
    metadata = body["metadata"]
    held = metadata.get("finalizers") or (
        body["kind"] == NAMESPACES.kind and body["spec"].get("finalizers")
    )
    return (
        bool(metadata.get("deletionTimestamp"))
        and not held
        and not metadata.get("deletionGracePeriodSeconds")
    )


def answers_with_object(resource: Resource) -> bool:
    """Tell whether the deletion of this kind is answered with the object, as it last was."""
    return not resource.group and resource.plural in _ANSWERED_WITH_OBJECT


def deleted_status(resource: Resource, old: Stored) -> Json:
    """Return what is answered when an object is gone."""
    group = {"group": resource.group} if resource.group else {}
    details = {"name": old.name[1], **group, "kind": resource.plural, "uid": old.uid}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }


def instant(at: datetime) -> str:
    """Return a time of day as objects hold it, to the second."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
