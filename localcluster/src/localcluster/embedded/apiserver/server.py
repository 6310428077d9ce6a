"""All parts of the server put together, with the objects that every cluster begins with."""

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Final

from localcluster.embedded.apiserver.app import App
from localcluster.embedded.apiserver.controllers import (
    Controllers,
    Definitions,
    Emptying,
    Furnishing,
    Nodes,
)
from localcluster.embedded.apiserver.deployments import Deployments, ReplicaSets
from localcluster.embedded.apiserver.garbage import Garbage
from localcluster.embedded.apiserver.journal import FileJournal, restore
from localcluster.embedded.apiserver.kinds import Json, Kinds
from localcluster.embedded.apiserver.objects import Objects, Target
from localcluster.embedded.apiserver.routes import Routes
from localcluster.embedded.apiserver.store import Store
from localcluster.embedded.apiserver.tokens import Gate
from localcluster.embedded.apiserver.volumes import Volumes
from localcluster.embedded.apiserver.watching import Watches

_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


class Server:
    """A server without its port. With a journal it goes on where the last one that had it ended."""

    def __init__(
        self,
        address: str,
        journal: Path | None = None,
        begin_with: Iterable[Json] = (),
        secret: bytes = b"",
    ) -> None:
        self.store = Store()
        restored = restore(journal, self.store) if journal is not None else False
        self._journal = FileJournal(journal) if journal is not None else None
        if self._journal is not None:
            self.store.keep(self._journal)
        self.objects = Objects(self.store, Kinds(), random=Random())
        self.controllers = Controllers(
            self.objects,
            prompt=(Definitions(self.objects), Furnishing(self.objects), Nodes(self.objects)),
            late=(
                Garbage(self.objects),
                Emptying(self.objects),
                Volumes(self.objects),
                ReplicaSets(self.objects),
                Deployments(self.objects),
            ),
        )
        watches = Watches(self.store, Random())
        self.app = App(Routes(self.objects, address, Gate(secret)), watches, self.controllers)
        if restored:
            self.store.retell()
        else:
            self._begin(begin_with)
        self.controllers.settle_all()
        if not restored:
            self.store.compact()  # what was there before the first client is no history

    def close(self) -> None:
        """Close the journal."""
        if self._journal is not None:
            self._journal.close()

    def _begin(self, documents: Iterable[Json]) -> None:
        for name in _NAMESPACES:
            self._create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for name, value in _PRIORITIES.items():
            head = {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
            }
            self._create({**head, "value": value})
        for document in documents:
            self._create(document)

    def _create(self, body: Json) -> None:
        resource = self.objects.kinds.of_kind(body["apiVersion"], body["kind"])
        assert resource is not None, f"{body['kind']} is no kind to begin with"
        self.objects.create(Target(resource, body["metadata"].get("namespace", "")), body)
        self.controllers.settle()
