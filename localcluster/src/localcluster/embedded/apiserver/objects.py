"""What may be done to objects: create, change, delete. One function for each, the same for every
kind.

    create   name it, give it defaults, check it, stamp it, store it
    change   read, apply the caller's function (a replacement or a patch), guard, prepare, check,
    store if it differs delete   check preconditions, then mark it (grace, finalizers) or take it
    out

Whatever a kind has of its own comes from `builtin`, `pods` or its schema. Nothing here waits or
speaks HTTP."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Final, TypeAlias
from uuid import UUID

import msgspec

from localcluster.embedded.apiserver import builtin, pods, schema
from localcluster.embedded.apiserver.deletion import (
    Options,
    answers_with_object,
    check_preconditions,
    deleted_status,
    instant,
    marked_to_go,
    may_go,
)
from localcluster.embedded.apiserver.kinds import NAMESPACES, NODES, PODS, Json, Kinds, Resource
from localcluster.embedded.apiserver.metadata import (
    changed_metadata,
    metadata_problems,
    new_metadata,
    with_generation,
)
from localcluster.embedded.apiserver.refusals import (
    Problem,
    Refusal,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    invalid_value,
    not_found,
)
from localcluster.embedded.apiserver.shapes import check_shape
from localcluster.embedded.apiserver.store import Store, Stored, encoded

_LASTING: Final = frozenset({"default", "kube-system", "kube-public"})
_SUFFIX: Final = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True)
class Target:
    """What a request is about: a kind, and perhaps one object of it, and a part of that."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


DEFAULT_OPTIONS: Final = Options()
Change: TypeAlias = Callable[[Json], Json]


@dataclass
class Objects:
    """All objects of a server. `clock` tells the time of day; `random` gives identities and
    suffixes."""

    store: Store
    kinds: Kinds
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    random: Random = field(default_factory=Random)

    def get(self, target: Target) -> Stored:
        """Return an object. Raises Refusal where there is none."""
        found = self.store.find(target.resource.store_key, (target.namespace, target.name))
        if found is None:
            raise not_found(target.resource, target.name)
        return found

    def create(self, target: Target, body: Json, options: Options = DEFAULT_OPTIONS) -> Stored:
        """Store a new object. Raises Refusal."""
        resource = target.resource
        check_shape(resource, body)
        body = self._named(target, body)
        name = body["metadata"]["name"]
        self._check_namespace(resource, target.namespace, name)
        body = self._prepared(resource, body)
        problems = [
            *metadata_problems(body),
            *builtin.problems(resource, body, None),
            *_schema_problems(resource, body),
        ]
        if problems:
            raise invalid(resource, name, problems)
        if self.store.find(resource.store_key, (target.namespace, name)) is not None:
            raise already_exists(resource, name)
        if options.dry_run:
            return _dry(body)
        return self.store.put(resource.store_key, body)

    def change(self, target: Target, change: Change, options: Options = DEFAULT_OPTIONS) -> Stored:
        """Replace an object by what `change` makes of it. One that stays the same keeps its
        version. Raises Refusal.

        What a caller sent has to have the shape of its kind already.
        """
        resource, old = target.resource, self.get(target)
        asked = change(old.body)
        new = self._merged(target, old, asked)
        problems = [
            *metadata_problems(asked, old.body),
            *builtin.problems(resource, new, old.body),
            *_schema_problems(resource, new, old.body),
        ]
        if problems:
            raise invalid(resource, target.name, problems)
        if new == old.body:
            return old
        if options.dry_run:
            return encoded(new, old.version)
        if may_go(new):
            self.store.remove(resource.store_key, old.name)
            return encoded(new, old.version)
        return self.store.put(resource.store_key, new)

    def delete(self, target: Target, options: Options = DEFAULT_OPTIONS) -> Stored | Json:
        """Delete an object, or mark it as about to go. Raises Refusal.

        Returns the object where it stays for now and for pods, else a Status.
        """
        old = self.get(target)
        check_preconditions(target.resource, old, options)
        if target.resource is NAMESPACES and target.name in _LASTING:
            raise forbidden(NAMESPACES, target.name, "this namespace may not be deleted")
        marked = marked_to_go(target.resource, old.body, options, self.clock())
        if options.dry_run:
            whole = not may_go(marked) or answers_with_object(target.resource)
            return _dry(marked) if whole else deleted_status(target.resource, old)
        if not may_go(marked):
            return old if marked == old.body else self.store.put(target.resource.store_key, marked)
        if target.resource is PODS:
            self.store.put(
                PODS.store_key, marked
            )  # those who watch hear first that it goes, and then that it is gone
        gone = self.store.remove(target.resource.store_key, old.name)
        return (
            gone if answers_with_object(target.resource) else deleted_status(target.resource, old)
        )

    def bind(self, target: Target, binding: Json, options: Options = DEFAULT_OPTIONS) -> None:
        """Bind a pod to a node. Raises Refusal."""
        _must_be_of_namespace(target, binding.get("metadata") or {})
        node = binding.get("target") or {}
        if not node.get("name"):
            raise Refusal(500, "", "target.name: Required value")
        if node.get("kind") not in {None, "", "Node"}:
            kind = node["kind"]
            raise Refusal(
                500,
                "",
                f'target.kind: Unsupported value: "{kind}": supported values: "Node", "<empty>"',
            )
        bound = pods.bound(self.get(target).body, binding, self.now())
        if not options.dry_run:
            self.store.put(PODS.store_key, bound)

    def now(self) -> str:
        """Return the time of day as objects hold it."""
        return instant(self.clock())

    def suffix(self) -> str:
        """Return five letters that make a name unique."""
        return "".join(self.random.choice(_SUFFIX) for _ in range(5))

    def _named(self, target: Target, body: Json) -> Json:
        """Return the body with kind, namespace, name and a new object's metadata. Raises
        Refusal."""
        resource = target.resource
        given = body.get("metadata") or {}
        if given.get("resourceVersion"):
            raise Refusal(500, "", "resourceVersion should not be set on objects to be created")
        _must_be_of_namespace(target, given)
        name = given.get("name") or (
            f"{given['generateName']}{self.suffix()}" if given.get("generateName") else ""
        )
        if not name:
            missing = Problem(
                "FieldValueRequired",
                "metadata.name",
                "Required value: name or generateName is required",
            )
            raise invalid(resource, "", [missing])
        uid = str(UUID(int=self.random.getrandbits(128), version=4))
        metadata = new_metadata(given, name, target.namespace, uid, self.now())
        if resource.custom or resource.counts_generations:
            metadata["generation"] = 1
        return {
            **body,
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": metadata,
        }

    def _check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        if not resource.namespaced:
            return
        found = self.store.find(NAMESPACES.store_key, ("", namespace))
        if found is None:
            raise not_found(NAMESPACES, namespace)
        if found.body["metadata"].get("deletionTimestamp"):
            why = (
                f"unable to create new content in namespace {namespace} because it is being "
                "terminated"
            )
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise forbidden(resource, name, why, [cause])

    def _prepared(self, resource: Resource, body: Json) -> Json:
        """Return a new object with the defaults of its kind, after admission."""
        if resource.schema is not None:
            kept = {
                key: value
                for key, value in body.items()
                if key != "status" or not resource.has_status
            }
            return _fitted(resource, kept)
        filled = builtin.with_defaults(resource, body)
        if resource is not PODS:
            return filled
        namespace = filled["metadata"]["namespace"]
        account = self.store.find("serviceaccounts", (namespace, pods.account_name(filled)))
        return pods.admitted(
            filled, account.body if account else None, self._priority(filled), self.suffix()
        )

    def _priority(self, pod: Json) -> int:
        name = pod["spec"].get("priorityClassName")
        found = self.store.find("priorityclasses.scheduling.k8s.io", ("", name)) if name else None
        if name and found is None:
            raise forbidden(
                PODS, pod["metadata"]["name"], f"no PriorityClass with name {name} was found"
            )
        return pods.agreed_priority(pod, int((found.body if found else {}).get("value") or 0))

    def _merged(self, target: Target, old: Stored, asked: Json) -> Json:
        """Return what the request may make of the object: the rest stays as it is. Raises
        Refusal."""
        resource, before = target.resource, old.body
        given = asked.get("metadata") or {}
        must_be_meant(target, asked, named=False)
        version = given.get("resourceVersion") or "0"
        if not (version.isascii() and version.isdecimal()):
            raise Refusal(500, "", f'strconv.ParseUint: parsing "{version}": invalid syntax')
        if version not in {"0", before["metadata"]["resourceVersion"]}:
            raise conflict(resource, target.name)
        if resource.custom and target.subresource == "status":
            return _fitted(resource, {**before, "status": asked.get("status")})
        metadata = changed_metadata(before["metadata"], given)
        if target.subresource == "status":
            return {**before, "metadata": metadata, "status": asked.get("status") or {}}
        new = {
            **asked,
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": metadata,
        }
        if resource.schema is not None:
            new = _fitted(resource, new)
        elif resource not in {
            NODES,
            NAMESPACES,
        }:  # theirs are not defaults, but what a new one begins with
            new = {**builtin.with_defaults(resource, new), "metadata": metadata}
        if resource.has_status:
            new.pop("status", None)
            new.update({"status": before["status"]} if "status" in before else {})
        return with_generation(resource, before, new)


def must_be_meant(target: Target, body: Json, *, named: bool = True) -> None:
    """Refuse an object that says it is another one than the path means, and, where it has to be
    `named`, none."""
    given = body.get("metadata") or {}
    if named and not given.get("name"):
        said = "was undeterminable: name must be provided"
        raise bad_request(f"the name of the object ({target.name} based on URL) {said}")
    if given.get("name") and given["name"] != target.name:
        raise bad_request(
            f"the name of the object ({given['name']}) does not match the name on the URL "
            f"({target.name})"
        )
    _must_be_of_namespace(target, given)


def _must_be_of_namespace(target: Target, metadata: Json) -> None:
    if metadata.get("namespace") and metadata["namespace"] != target.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def must_name_version(resource: Resource, body: Json, name: str) -> None:
    """Refuse a replacement that does not say which version it replaces, for the kinds that insist
    on it."""
    version = (body.get("metadata") or {}).get("resourceVersion")
    if version or not (resource.custom or resource.guarded_put):
        return
    refusal = invalid(
        resource,
        name,
        [invalid_value("metadata.resourceVersion", 0, "must be specified for an update")],
    )
    said = refusal.message.replace(resource.qualified_kind, resource.store_key, 1)
    details = {**(refusal.details or {}), "kind": resource.plural}
    raise Refusal(refusal.code, refusal.reason, said, details)


def _fitted(resource: Resource, body: Json) -> Json:
    assert resource.schema is not None
    fitted: Json = schema.with_defaults(resource.schema, schema.prune(resource.schema, body))
    return fitted


def _schema_problems(resource: Resource, body: Json, old: Json | None = None) -> Iterator[Problem]:
    if resource.schema is not None:
        yield from schema.problems(resource.schema, body, old)


def _dry(body: Json) -> Stored:
    dry = encoded(body, 0)
    metadata = {
        key: value for key, value in dry.body["metadata"].items() if key != "resourceVersion"
    }
    return encoded_without_version({**dry.body, "metadata": metadata})


def encoded_without_version(body: Json) -> Stored:
    """Return an object that is not stored, with its bytes."""
    return Stored(body, msgspec.json.encode(body), 0)
