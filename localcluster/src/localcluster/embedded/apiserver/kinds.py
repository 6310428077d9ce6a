"""The kinds of objects that are served, and where their paths are."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
"""An object as it stands in a request. What is in the store is never changed in place."""

_CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_OF_ALL = frozenset({"pods", "services", "deployments", "replicasets"})
"""What `kubectl get all` shows."""
_SUBRESOURCES: Mapping[str, tuple[Json, list[str]]] = {
    "binding": ({"kind": "Binding"}, ["create"]),
    "eviction": ({"group": "policy", "version": "v1", "kind": "Eviction"}, ["create"]),
    "log": ({}, ["get"]),
    "scale": (
        {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        ["get", "patch", "update"],
    ),
    "token": (
        {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"},
        ["create"],
    ),
}
"""What the discovery document says of subresources that are not of the kind they belong to."""
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class ScalePaths:
    """Where a kind keeps what its scale subresource shows, as paths of keys."""

    spec: tuple[str, ...]
    status: tuple[str, ...]


@dataclass(frozen=True)
class Resource:
    """One kind in one version of its group. The core group is ""."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    has_status: bool = False
    subresources: tuple[str, ...] = ()
    scale: ScalePaths | None = None
    counts_generations: bool = False
    guarded_put: bool = False
    """Whether a PUT must name the resource version that it replaces."""
    schema: Mapping[str, Any] | None = field(default=None, hash=False)
    """The OpenAPI schema of a custom resource; None for a built-in kind."""
    list_kind: str = ""
    columns: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    """What kubectl prints of a custom resource, as its definition has it."""
    selectable: tuple[str, ...] = ()
    """Paths that a field selector may name, besides the name and the namespace."""

    @property
    def custom(self) -> bool:
        """Whether a CustomResourceDefinition defines it."""
        return self.schema is not None

    @property
    def store_key(self) -> str:
        """What all versions of the kind are stored under, as error messages name it too:
        `tfjobs.kubeflow.org`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        """As in the objects' field."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified_kind(self) -> str:
        """The kind as messages about an invalid object name it: `TFJob.kubeflow.org`."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def describe(self) -> Iterator[Json]:
        """Give the entries of the discovery document, subresources included."""
        common: Json = {
            "singularName": self.kind.lower(),
            "namespaced": self.namespaced,
            "kind": self.kind,
        }
        short: Json = {"shortNames": list(self.short_names)} if self.short_names else {}
        short.update({"categories": ["all"]} if self.plural in _OF_ALL and not self.custom else {})
        verbs = [
            each for each in _VERBS if self.plural != "namespaces" or each != "deletecollection"
        ]
        yield {
            "name": self.plural,
            **common,
            "verbs": list(_CUSTOM_VERBS) if self.custom else verbs,
            **short,
        }
        for name in self.served_subresources:
            about, verbs = _SUBRESOURCES.get(name, ({}, ["get", "patch", "update"]))
            yield {
                "name": f"{self.plural}/{name}",
                **common,
                "singularName": "",
                **about,
                "verbs": verbs,
            }

    @property
    def served_subresources(self) -> tuple[str, ...]:
        """All subresources by name."""
        status = ("status",) if self.has_status else ()
        scale = ("scale",) if self.scale is not None else ()
        return (*self.subresources, *status, *scale)


_REPLICAS = ScalePaths(("spec", "replicas"), ("status", "replicas"))
_POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_EVENT_FIELDS = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)

PODS = Resource(
    "",
    "v1",
    "pods",
    "Pod",
    short_names=("po",),
    has_status=True,
    subresources=("binding", "eviction", "log"),
    counts_generations=True,
    selectable=_POD_FIELDS,
)
NAMESPACES = Resource(
    "",
    "v1",
    "namespaces",
    "Namespace",
    False,
    ("ns",),
    has_status=True,
    selectable=("status.phase",),
)
NODES = Resource(
    "", "v1", "nodes", "Node", False, ("no",), has_status=True, selectable=("spec.unschedulable",)
)
DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    False,
    ("crd", "crds"),
    has_status=True,
    counts_generations=True,
)

_RBAC = "rbac.authorization.k8s.io"
BUILT_IN: tuple[Resource, ...] = (
    PODS,
    NAMESPACES,
    NODES,
    DEFINITIONS,
    Resource("", "v1", "configmaps", "ConfigMap", short_names=("cm",)),
    Resource("", "v1", "secrets", "Secret", selectable=("type",)),
    Resource(
        "", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa",), subresources=("token",)
    ),
    Resource("", "v1", "services", "Service", short_names=("svc",), has_status=True),
    Resource("", "v1", "endpoints", "Endpoints", short_names=("ep",)),
    Resource("", "v1", "events", "Event", short_names=("ev",), selectable=_EVENT_FIELDS),
    Resource("", "v1", "persistentvolumes", "PersistentVolume", False, ("pv",), has_status=True),
    Resource(
        "",
        "v1",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        short_names=("pvc",),
        has_status=True,
    ),
    Resource("", "v1", "resourcequotas", "ResourceQuota", short_names=("quota",), has_status=True),
    Resource("", "v1", "limitranges", "LimitRange", short_names=("limits",)),
    Resource(
        "apps", "v1", "deployments", "Deployment", True, ("deploy",), True, (), _REPLICAS, True
    ),
    Resource("apps", "v1", "replicasets", "ReplicaSet", True, ("rs",), True, (), _REPLICAS, True),
    Resource("coordination.k8s.io", "v1", "leases", "Lease", guarded_put=True),
    Resource(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        True,
        ("pdb",),
        True,
        counts_generations=True,
    ),
    Resource(
        "scheduling.k8s.io",
        "v1",
        "priorityclasses",
        "PriorityClass",
        False,
        ("pc",),
        counts_generations=True,
    ),
    Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False, ("sc",)),
    Resource(_RBAC, "v1", "roles", "Role"),
    Resource(_RBAC, "v1", "rolebindings", "RoleBinding"),
    Resource(_RBAC, "v1", "clusterroles", "ClusterRole", False),
    Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", False),
)


class Kinds:
    """All kinds that are served now: the built-in ones and those of the
    CustomResourceDefinitions."""

    def __init__(self, built_in: Iterable[Resource] = BUILT_IN) -> None:
        self._by_path = {(each.group, each.version, each.plural): each for each in built_in}

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return the kind at a path."""
        return self._by_path.get((group, version, plural))

    def stored_as(self, store_key: str) -> Resource | None:
        """Return a kind by what it is stored under."""
        return next((each for each in self._by_path.values() if each.store_key == store_key), None)

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """Return a kind as an owner reference names it."""
        group, _, version = api_version.rpartition("/")
        found = (
            each
            for each in self._by_path.values()
            if (each.group, each.version, each.kind) == (group, version, kind)
        )
        return next(found, None)

    def all(self) -> tuple[Resource, ...]:
        """Return every kind."""
        return tuple(self._by_path.values())

    def namespaced(self) -> tuple[Resource, ...]:
        """Return the kinds whose objects live in namespaces."""
        return tuple(each for each in self._by_path.values() if each.namespaced)

    def versions(self, group: str) -> tuple[str, ...]:
        """Return the versions of a group, none where it is not served."""
        return tuple(
            dict.fromkeys(each.version for each in self._by_path.values() if each.group == group)
        )

    def groups(self) -> tuple[str, ...]:
        """Return the named groups."""
        return tuple(dict.fromkeys(each.group for each in self._by_path.values() if each.group))

    def define(self, store_key: str, resources: Iterable[Resource]) -> None:
        """Serve a custom resource in these versions, in place of those it had."""
        kept = {path: each for path, each in self._by_path.items() if each.store_key != store_key}
        self._by_path = {
            **kept,
            **{(each.group, each.version, each.plural): each for each in resources},
        }
