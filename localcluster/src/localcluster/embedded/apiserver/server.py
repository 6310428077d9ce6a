"""Puts the server together and creates the objects that every cluster begins with."""

from collections.abc import Iterable
from random import Random
from typing import Final

from localcluster.embedded.apiserver.app import App
from localcluster.embedded.apiserver.auth import Authenticator
from localcluster.embedded.apiserver.controllers import (
    Controllers,
    Definitions,
    NamespaceDefaults,
    NamespaceDeletion,
    NodeTaints,
)
from localcluster.embedded.apiserver.deployments import Deployments
from localcluster.embedded.apiserver.garbage import GarbageCollector
from localcluster.embedded.apiserver.kinds import Json, Kinds
from localcluster.embedded.apiserver.objects import Objects
from localcluster.embedded.apiserver.routes import Routes
from localcluster.embedded.apiserver.store import Store
from localcluster.embedded.apiserver.volumes import VolumeBinder
from localcluster.embedded.apiserver.watches import Watches
from localcluster.embedded.apiserver.wire import Target

_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


def controllers_of(objects: Objects) -> Controllers:
    """Return all controllers of a server."""
    immediate = (Definitions, NamespaceDefaults, NodeTaints)
    delayed = (GarbageCollector, NamespaceDeletion, VolumeBinder, Deployments)
    return Controllers(
        objects.store, [each(objects) for each in immediate], [each(objects) for each in delayed]
    )


class Server:
    """A server without its port."""

    def __init__(
        self,
        address: str,
        begin_with: Iterable[Json] = (),
        secret: bytes = b"",
    ) -> None:
        self.store = Store()
        self.objects = Objects(self.store, Kinds(), random=Random())
        self.controllers = controllers_of(self.objects)
        watches = Watches(self.store, Random())
        self.routes = Routes(self.objects, address, Authenticator(secret))
        self.app = App(self.routes, watches, self.controllers)
        self._create_initial(begin_with)
        self.controllers.run_all()

    def _create_initial(self, documents: Iterable[Json]) -> None:
        for name in _NAMESPACES:
            self._create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for name, value in _PRIORITIES.items():
            head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
            self._create({**head, "metadata": {"name": name}, "value": value})
        for document in documents:
            self._create(document)

    def _create(self, body: Json) -> None:
        resource = self.objects.kinds.of_kind(body["apiVersion"], body["kind"])
        assert resource is not None, f"{body['kind']} is not served"
        self.objects.create(Target(resource, body["metadata"].get("namespace", "")), body)
