"""Creates, changes and deletes objects of every kind.

    create   name it, fill in defaults, store it
    change   apply the caller's function (a replacement or a patch), guard, store a change
    delete   check preconditions, then mark it (grace period, finalizers) or remove it

What is special about a kind comes from `builtin`, `pods` or its schema."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Final, TypeAlias
from uuid import UUID

from localcluster.embedded.apiserver import builtin, deletion, pods, schema
from localcluster.embedded.apiserver.errors import (
    StatusError,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
)
from localcluster.embedded.apiserver.kinds import NAMESPACES, NODES, PODS, Json, Kinds, Resource
from localcluster.embedded.apiserver.metadata import (
    changed_metadata,
    is_terminating,
    metadata_errors,
    new_metadata,
    timestamp,
    with_generation,
)
from localcluster.embedded.apiserver.store import Store, Stored, encoded
from localcluster.embedded.apiserver.wire import DeleteOptions, Target

_PERMANENT: Final = frozenset({"default", "kube-system", "kube-public"})
_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_DELETE: Final = DeleteOptions()
Change: TypeAlias = Callable[[Json], Json]


@dataclass
class Objects:
    """All objects of a server. `clock` returns the time of day; `random` makes identities."""

    store: Store
    kinds: Kinds
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    random: Random = field(default_factory=Random)

    def get(self, target: Target) -> Stored:
        """Return an object. Raises StatusError where there is none."""
        found = self.find(target)
        if found is None:
            raise not_found(target.resource, target.name)
        return found

    def find(self, target: Target) -> Stored | None:
        """Return an object, None where there is none."""
        return self.store.find(target.resource.store_key, (target.namespace, target.name))

    def create(self, target: Target, body: Json) -> Stored:
        """Store a new object. Raises StatusError."""
        resource = target.resource
        body = self._named(target, body)
        name = body["metadata"]["name"]
        self._check_namespace(resource, target.namespace, name)
        body = self._with_defaults(resource, body)
        if self.store.find(resource.store_key, (target.namespace, name)) is not None:
            raise already_exists(resource, name)
        return self.store.put(resource.store_key, body)

    def change(self, target: Target, change: Change) -> Stored:
        """Replace an object by what `change` makes of it. Raises StatusError.

        An object that stays the same keeps its version."""
        resource, old = target.resource, self.get(target)
        asked = change(old.body)
        new = self._merged(target, old, asked)
        errors = list(metadata_errors(asked, old.body))
        if resource is PODS:
            errors += pods.nomination_errors(new, old.body)
        if errors:
            raise invalid(resource, target.name, errors)
        if new == old.body:
            return old
        if deletion.is_removable(new):
            self.store.remove(resource.store_key, old.name)
            return encoded(new, old.version)
        return self.store.put(resource.store_key, new)

    def delete(self, target: Target, options: DeleteOptions = _DELETE) -> Stored | Json:
        """Delete an object, or mark it as deleted. Raises StatusError.

        Returns the object where it stays for now and for some kinds, else a Status."""
        resource, old = target.resource, self.get(target)
        deletion.check_preconditions(resource, old, options)
        if resource is NAMESPACES and target.name in _PERMANENT:
            raise forbidden(NAMESPACES, target.name, "this namespace may not be deleted")
        marked = deletion.marked_deleted(resource, old.body, options, self.clock())
        if not deletion.is_removable(marked):
            return old if marked == old.body else self.store.put(resource.store_key, marked)
        if resource is PODS:
            # Watchers first see a pod marked as deleted, then removed.
            self.store.put(PODS.store_key, marked)
        return deletion.deletion_result(resource, self.store.remove(resource.store_key, old.name))

    def bind(self, target: Target, binding: Json) -> None:
        """Bind a pod to a node. Raises StatusError."""
        _check_namespace_of(target, binding.get("metadata") or {})
        if not (binding.get("target") or {}).get("name"):
            raise StatusError(500, "", "target.name: Required value")
        self.store.put(PODS.store_key, pods.bound(self.get(target).body, binding, self.now()))

    def now(self) -> str:
        """Return the time of day as objects hold it."""
        return timestamp(self.clock())

    def _suffix(self) -> str:
        return "".join(self.random.choice(_SUFFIX_LETTERS) for _ in range(5))

    def _named(self, target: Target, body: Json) -> Json:
        """Return the body with kind, namespace, name and new metadata. Raises StatusError."""
        resource, given = target.resource, body.get("metadata") or {}
        if given.get("resourceVersion"):
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        _check_namespace_of(target, given)
        name = given.get("name") or ""
        if not name and given.get("generateName"):
            name = f"{given['generateName']}{self._suffix()}"
        if not name:
            why = "name or generateName is required"
            raise invalid(resource, "", [f"metadata.name: Required value: {why}"])
        uid = str(UUID(int=self.random.getrandbits(128), version=4))
        metadata = new_metadata(given, name, target.namespace, uid, self.now())
        if resource.custom or resource.counts_generations:
            metadata["generation"] = 1
        return {**body, **_type_meta(resource), "metadata": metadata}

    def _check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        if not resource.namespaced:
            return
        found = self.store.find(NAMESPACES.store_key, ("", namespace))
        if found is None:
            raise not_found(NAMESPACES, namespace)
        if is_terminating(found.body):
            why = f"unable to create new content in namespace {namespace} because it is being "
            raise forbidden(resource, name, f"{why}terminated")

    def _with_defaults(self, resource: Resource, body: Json) -> Json:
        """Return a new object with its defaults, after admission. Raises StatusError."""
        if resource.schema is not None:
            kept = {
                k: value for k, value in body.items() if k != "status" or not resource.has_status
            }
            return _structured(resource, kept)
        filled = builtin.with_defaults(resource, body)
        if resource is not PODS:
            return filled
        namespace = filled["metadata"]["namespace"]
        account = self.store.find("serviceaccounts", (namespace, pods.account_name(filled)))
        priority_class, suffix = self._priority_class(filled), self._suffix()
        return pods.admitted(filled, account.body if account else None, priority_class, suffix)

    def _priority_class(self, pod: Json) -> Json:
        name = pod["spec"].get("priorityClassName")
        if not name:
            return {}
        found = self.store.find("priorityclasses.scheduling.k8s.io", ("", name))
        if found is None:
            why = f"no PriorityClass with name {name} was found"
            raise forbidden(PODS, pod["metadata"]["name"], why)
        return found.body

    def _merged(self, target: Target, old: Stored, asked: Json) -> Json:
        """Return what the request may make of an object. Raises StatusError."""
        resource, before, given = target.resource, old.body, asked.get("metadata") or {}
        check_identity(target, asked)
        if given.get("resourceVersion") not in {None, "", "0", str(old.version)}:
            raise conflict(resource, target.name)
        metadata = changed_metadata(before["metadata"], given)
        if target.subresource == "status":
            status = asked.get("status") or {}
            if resource.schema is None:
                return {**before, "metadata": metadata, "status": status}
            return _structured(resource, {**before, "status": status})
        new = {**asked, **_type_meta(resource), "metadata": metadata}
        if resource.schema is not None:
            new = _structured(resource, new)
        elif resource not in {NODES, NAMESPACES}:  # theirs are initial values, not defaults
            new = {**builtin.with_defaults(resource, new), "metadata": metadata}
        if resource.has_status:
            new.pop("status", None)
            new.update({"status": before["status"]} if "status" in before else {})
        return with_generation(resource, before, new)


def check_identity(target: Target, body: Json, *, named: bool = False) -> None:
    """Refuse a body that names another object than the path, or, if `named`, none.

    Raises StatusError."""
    given = body.get("metadata") or {}
    name = given.get("name")
    if named and not name:
        why = "was undeterminable: name must be provided"
        raise bad_request(f"the name of the object ({target.name} based on URL) {why}")
    if name and name != target.name:
        why = f"does not match the name on the URL ({target.name})"
        raise bad_request(f"the name of the object ({name}) {why}")
    _check_namespace_of(target, given)


def check_replaces(target: Target, body: Json) -> None:
    """Refuse a replacement of a custom resource without a version. Raises StatusError."""
    if target.resource.custom and not (body.get("metadata") or {}).get("resourceVersion"):
        why = "must be specified for an update"
        error = f"metadata.resourceVersion: Invalid value: 0: {why}"
        raise invalid(target.resource, target.name, [error])


def _check_namespace_of(target: Target, metadata: Json) -> None:
    if metadata.get("namespace") and metadata["namespace"] != target.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def _type_meta(resource: Resource) -> Json:
    return {"kind": resource.kind, "apiVersion": resource.api_version}


def _structured(resource: Resource, body: Json) -> Json:
    structured: Json = schema.structured(resource.schema or {}, body)
    return structured
