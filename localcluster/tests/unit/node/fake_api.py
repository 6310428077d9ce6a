"""An API server in memory: objects by path, and every write that was made."""

import copy
import threading
from collections.abc import Callable, Mapping
from typing import Any

from localcluster.api_calls import ApiCalls
from optimus.kube.client import MERGE_PATCH
from optimus.kube.errors import ErrorKind, KubeError

_WAIT_SECONDS = 180.0


class FakeApi(ApiCalls):
    """`writes` are (verb, path, body); `errors` are raised, the last first, before any patch.

    `failing` maps a verb to the error that each of its calls meets.
    """

    def __init__(
        self,
        objects: Mapping[str, dict[str, Any]] | None = None,
        failing: Mapping[str, ErrorKind] | None = None,
    ) -> None:
        self.objects = dict(objects or {})
        self.failing = dict(failing or {})
        self.errors: list[ErrorKind] = []
        self.writes: list[tuple[str, str, Mapping[str, Any]]] = []
        self.phases: list[str] = []
        self.changed = threading.Condition()

    def get(self, path: str) -> dict[str, Any]:
        with self.changed:
            self._fail("get")
            if path not in self.objects:
                raise KubeError(ErrorKind.NOT_FOUND, f"{path} not found")
            return copy.deepcopy(self.objects[path])

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        with self.changed:
            self._note("create", path, body)
            if not path.endswith("/token"):
                self.objects[f"{path}/{body['metadata']['name']}"] = dict(body)
                return dict(body)
            token = f"token-{len(self.of('create'))}"
            return {"status": {"token": token, "expirationTimestamp": "2026-01-01T01:00:00Z"}}

    def patch(
        self, path: str, body: Mapping[str, Any], content_type: str = MERGE_PATCH
    ) -> dict[str, Any]:
        with self.changed:
            self._note("patch", path, body)
            if self.errors:
                raise KubeError(self.errors.pop(), "refused by the test")
            target = self.objects.setdefault(path.removesuffix("/status"), {"metadata": {}})
            target.setdefault("metadata", {}).update(body.get("metadata") or {})
            if "status" in body:
                target["status"] = copy.deepcopy(body["status"])
                self.phases.append(body["status"].get("phase", ""))
            return target

    def delete(self, path: str, options: Mapping[str, Any]) -> dict[str, Any]:
        with self.changed:
            self._note("delete", path, options)
            self.objects.pop(path, None)
            return {}

    def of(self, verb: str) -> list[tuple[str, Mapping[str, Any]]]:
        """The writes of one verb: path and body."""
        return [(path, body) for made, path, body in self.writes if made == verb]

    def wait(self, true: Callable[[], bool]) -> None:
        """Wait until something is true, looking again at every write."""
        with self.changed:
            assert self.changed.wait_for(true, _WAIT_SECONDS), self.objects

    def _note(self, verb: str, path: str, body: Mapping[str, Any]) -> None:
        self.writes.append((verb, path, body))
        self.changed.notify_all()
        self._fail(verb)

    def _fail(self, verb: str) -> None:
        if verb in self.failing:
            raise KubeError(self.failing[verb], "refused")
