"""The kinds of objects that are served."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

Json: TypeAlias = dict[str, Any]
"""An object of a request. What is in the store is never changed in place."""

_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class Resource:
    """One kind in one version of its group. The core group is ""."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    counts_generations: bool = False
    schema: Mapping[str, Any] | None = field(default=None, hash=False)
    """The OpenAPI schema of a custom resource; None for a built-in kind."""
    list_kind: str = ""
    columns: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    """The printed columns of a custom resource, as its definition has them."""
    selectable: tuple[str, ...] = ()
    """Paths that a field selector may name, besides the name and the namespace."""

    @property
    def custom(self) -> bool:
        """Whether a CustomResourceDefinition defines it."""
        return self.schema is not None

    @property
    def has_status(self) -> bool:
        """Whether the status is written apart from the spec."""
        return "status" in self.subresources

    @property
    def store_key(self) -> str:
        """What all versions of the kind are stored under: `tfjobs.kubeflow.org`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        """As in the objects' field."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified_kind(self) -> str:
        """The kind as messages about an invalid object name it: `TFJob.kubeflow.org`."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def discovery_entries(self) -> Iterator[Json]:
        """Yield the entries of the discovery document, subresources included."""
        common: Json = {"namespaced": self.namespaced, "kind": self.kind}
        short: Json = {"shortNames": list(self.short_names)} if self.short_names else {}
        own = {"name": self.plural, "singularName": self.kind.lower(), "verbs": list(_VERBS)}
        yield {**own, **common, **short}
        for name in self.subresources:
            verbs = ["get", "patch", "update"] if name == "status" else ["create", "get"]
            own = {"name": f"{self.plural}/{name}", "singularName": "", **common, "verbs": verbs}
            yield {**own, **_EVICTION} if name == "eviction" else own


_EVICTION: Final = {"group": "policy", "version": "v1", "kind": "Eviction"}
_POD_FIELDS: Final = (
    *("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
    *("status.phase", "status.podIP", "status.nominatedNodeName"),
)
_EVENT_FIELDS: Final = (
    *("involvedObject.kind", "involvedObject.namespace", "involvedObject.name"),
    *("involvedObject.uid", "involvedObject.apiVersion", "involvedObject.fieldPath"),
    *("reason", "reportingComponent", "source", "type"),
)
_STATUS: Final = ("status",)
PODS: Final = Resource(
    "", "v1", "pods", "Pod", True, ("po",), ("binding", "eviction", "log", "status"), True,
    selectable=_POD_FIELDS,
)  # fmt: skip
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", False, ("ns",), _STATUS)
NODES: Final = Resource("", "v1", "nodes", "Node", False, ("no",), _STATUS)
_CRD: Final = ("customresourcedefinitions", "CustomResourceDefinition", False, ("crd", "crds"))
DEFINITIONS: Final = Resource("apiextensions.k8s.io", "v1", *_CRD, _STATUS, True)
_CLAIMS: Final = ("persistentvolumeclaims", "PersistentVolumeClaim", True, ("pvc",))
_BUDGETS: Final = ("poddisruptionbudgets", "PodDisruptionBudget", True, ("pdb",))
_RBAC: Final = ("rbac.authorization.k8s.io", "v1")
_ADMISSION: Final = "admissionregistration.k8s.io"
_POLICIES: Final = ("validatingadmissionpolicies", "ValidatingAdmissionPolicy", False)
_BINDINGS: Final = ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False)
BUILT_IN: Final = (
    PODS,
    NAMESPACES,
    NODES,
    DEFINITIONS,
    Resource("", "v1", "configmaps", "ConfigMap", True, ("cm",)),
    Resource("", "v1", "secrets", "Secret"),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", True, ("sa",), ("token",)),
    Resource("", "v1", "services", "Service", True, ("svc",), _STATUS),
    Resource("", "v1", "events", "Event", True, ("ev",), selectable=_EVENT_FIELDS),
    Resource("", "v1", "persistentvolumes", "PersistentVolume", False, ("pv",), _STATUS),
    Resource("", "v1", *_CLAIMS, _STATUS),
    # Policies are stored, and not obeyed: their expressions are not evaluated.
    Resource(_ADMISSION, "v1", *_POLICIES, (), _STATUS, True),
    Resource(_ADMISSION, "v1", *_BINDINGS, (), (), True),
    # Quotas are stored, and not obeyed.
    Resource("", "v1", "resourcequotas", "ResourceQuota", True, ("quota",), _STATUS),
    Resource("policy", "v1", *_BUDGETS, _STATUS),
    Resource("apps", "v1", "deployments", "Deployment", True, ("deploy",), _STATUS, True),
    Resource("coordination.k8s.io", "v1", "leases", "Lease"),
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, ("pc",)),
    Resource(*_RBAC, "roles", "Role"),
    Resource(*_RBAC, "rolebindings", "RoleBinding"),
    Resource(*_RBAC, "clusterroles", "ClusterRole", False),
    Resource(*_RBAC, "clusterrolebindings", "ClusterRoleBinding", False),
)


class Kinds:
    """All kinds that are served now: the built-in ones and those that definitions add."""

    def __init__(self, built_in: Iterable[Resource] = BUILT_IN) -> None:
        self._by_path = {(each.group, each.version, each.plural): each for each in built_in}

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return the kind at a path."""
        return self._by_path.get((group, version, plural))

    def stored_as(self, store_key: str) -> Resource | None:
        """Return a kind by what it is stored under."""
        return next((each for each in self.all() if each.store_key == store_key), None)

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """Return a kind as an owner reference names it."""
        named = (
            each for each in self.all() if (each.api_version, each.kind) == (api_version, kind)
        )
        return next(named, None)

    def all(self) -> tuple[Resource, ...]:
        """Return every kind."""
        return tuple(self._by_path.values())

    def versions(self, group: str) -> tuple[str, ...]:
        """Return the versions of a group, none where it is not served."""
        return tuple(dict.fromkeys(each.version for each in self.all() if each.group == group))

    def groups(self) -> tuple[str, ...]:
        """Return the named groups."""
        return tuple(dict.fromkeys(each.group for each in self.all() if each.group))

    def define(self, store_key: str, resources: Iterable[Resource]) -> None:
        """Serve a custom resource in these versions, in place of those it had."""
        kept = (each for each in self.all() if each.store_key != store_key)
        every = (*kept, *resources)
        self._by_path = {(each.group, each.version, each.plural): each for each in every}
