"""Calls on an API server: the official client's, raw requests where it hides something, waiting.

Arguments are the official client's, so a test does what any program does that uses it.
"""

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias, TypeVar

import pytest
import urllib3
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from localcluster.testing.waiting import wait_until

Json: TypeAlias = dict[str, Any]
T = TypeVar("T")

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
KUBEFLOW = ("kubeflow.org", "v1")
_POLL_SECONDS = 0.05
_PATIENCE_SECONDS = 180.0


@dataclass
class Refusal:
    """The Status object with which the server refused a call."""

    code: int = 0
    status: Json = field(default_factory=dict)

    @property
    def message(self) -> str:
        """The sentence that people read."""
        return str(self.status.get("message"))


class OpenWatch:
    """One open watch, read on a thread until the server ends the stream or the block ends."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self._arrived = threading.Condition()
        self._events: list[Json] = []
        self.ended = False
        self._thread = threading.Thread(target=self._read, name="watching", daemon=True)

    def __enter__(self) -> Self:
        """Begin to read."""
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """End the stream."""
        with suppress(OSError, ValueError, AttributeError, RuntimeError):
            self._response.shutdown()
        self._thread.join(10)
        self._response.close()

    def _read(self) -> None:
        rest = b""
        with suppress(urllib3.exceptions.HTTPError, OSError, AttributeError, ValueError):
            for piece in self._response.stream():
                *lines, rest = (rest + piece).split(b"\n")
                for line in filter(None, lines):
                    self._take(json.loads(line))
        with self._arrived:
            self.ended = True
            self._arrived.notify_all()

    def _take(self, event: Json) -> None:
        with self._arrived:
            self._events.append(event)
            self._arrived.notify_all()

    def events(self, count: int, seconds: float = _PATIENCE_SECONDS) -> list[Json]:
        """Wait for so many events and return all that came."""
        with self._arrived:
            self._arrived.wait_for(lambda: self.ended or len(self._events) >= count, seconds)
            return list(self._events)

    def event_names(self, count: int) -> list[tuple[str, str]]:
        """Wait for so many events and return the type of each and the name of its object."""
        return [
            (event["type"], event["object"]["metadata"]["name"]) for event in self.events(count)
        ]

    def wait_ended(self, seconds: float = _PATIENCE_SECONDS) -> list[Json]:
        """Wait until the server ends the stream; return all events."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: self.ended, seconds), (
                f"the watch has not ended after {seconds} s"
            )
            return list(self._events)


class ApiCalls:
    """Calls on one API server."""

    def __init__(self, api: client.ApiClient) -> None:
        self.client = api
        # The library's own types refuse the plain dicts that it takes.
        self.core: Any = client.CoreV1Api(api)
        self.custom: Any = client.CustomObjectsApi(api)
        self.leases: Any = client.CoordinationV1Api(api)
        self.apps: Any = client.AppsV1Api(api)
        self.definitions: Any = client.ApiextensionsV1Api(api)

    # --- waiting and refusals

    def wait_until(
        self, look: Callable[[], T], sentence: str, seconds: float = _PATIENCE_SECONDS
    ) -> T:
        """Return what `look` returns once that is true. Raises AssertionError."""
        return wait_until(look, sentence, seconds, poll_seconds=_POLL_SECONDS)

    def holds(self, look: Callable[[], T], sentence: str, seconds: float = 1.0) -> None:
        """Raise AssertionError as soon as what `look` returns is false, within some seconds."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert look(), f"it no longer holds: {sentence}"
            time.sleep(_POLL_SECONDS)

    def read_or_none(self, read: Callable[[], T]) -> T | None:
        """Return what a read returns, None where there is nothing to read."""
        try:
            return read()
        except ApiException as error:
            if error.status == 404:
                return None
            raise

    @contextmanager
    def refused(self, code: int, reason: str | None) -> Iterator[Refusal]:
        """Expect that the call in the block is refused; the Status object is set after it."""
        refusal = Refusal()
        with pytest.raises(ApiException) as caught:
            yield refusal
        error: Any = caught.value
        refusal.code, refusal.status = error.status or 0, json.loads(error.body or "{}")
        status = refusal.status
        assert (refusal.code, status.get("reason")) == (code, reason), (
            f"{refusal.code}: {error.body}"
        )
        assert (status["kind"], status["apiVersion"], status["status"], status["code"]) == (
            "Status",
            "v1",
            "Failure",
            code,
        )

    # --- raw requests

    def request(
        self, method: str, path: str, body: Any = None, content_type: str = "", **query: str
    ) -> Json:
        """Send one request and return the JSON that answers it. Raises ApiException."""
        headers = {} if body is None else {"Content-Type": content_type or "application/json"}
        response = self._open(method, path, query, body, headers)
        text = response.read()
        if response.status >= 300:
            error = ApiException(status=response.status, reason=response.reason)
            error.body = text.decode()
            raise error
        answer: Json = json.loads(text)
        return answer

    def get(self, path: str, **query: str) -> Json:
        """Read an object or a list as it is on the wire."""
        return self.request("GET", path, **query)

    @contextmanager
    def stream(self, path: str, **query: str) -> Iterator[urllib3.BaseHTTPResponse]:
        """Open an answer that is read as it arrives."""
        response = self._open("GET", path, query, headers={"Accept": "text/plain, */*"})
        try:
            assert response.status < 300, response.read()
            yield response
        finally:
            response.close()

    def watch(self, path: str, seconds: int = 60, **query: str) -> OpenWatch:
        """Open a watch that the server ends after so many seconds."""
        wanted = {**query, "watch": "true", "timeoutSeconds": str(seconds)}
        response = self._open("GET", path, wanted, silence_seconds=seconds + 10.0)
        assert response.status == 200, response.read()
        return OpenWatch(response)

    def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        silence_seconds: float = 30.0,
    ) -> urllib3.BaseHTTPResponse:
        request = self.client.param_serialize(
            method,
            path,
            query_params=list(query.items()),
            header_params={"Accept": "application/json", **(headers or {})},
            body=body,
            auth_settings=["BearerToken"],
        )
        answer = self.client.call_api(*request, _request_timeout=(5.0, silence_seconds))
        response: urllib3.BaseHTTPResponse = answer.response
        return response

    # --- objects that many tests need

    def make_node(
        self, cpu: str = "4", labels: Mapping[str, str] | None = None, **spec: Any
    ) -> str:
        """Create a ready node and return its unique name; no agent runs what is bound to it."""
        name = f"node-{secrets.token_hex(4)}"
        amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Test",
            "message": "",
            "lastHeartbeatTime": now(),
        }
        status = {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{**ready, "lastTransitionTime": now()}],
        }
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
        self.core.create_node({"metadata": metadata, "spec": spec, "status": status})
        self.wait_until(
            lambda: self._untainted(name), f"{name} has lost the taint of a node that is not ready"
        )
        return name

    def _untainted(self, node: str) -> bool:
        taints = self.core.read_node(node).spec.taints or []
        return not any(taint.key.startswith("node.kubernetes.io/not-ready") for taint in taints)

    def bind(self, pod: str, namespace: str, node: str) -> None:
        """Bind a pod as a scheduler does.

        The node need not exist. It then has the name of the namespace: from a node that several
        tests share, a controller would delete the pods 40 seconds after the first of them.
        """
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"metadata": {"name": pod}, "target": target}
        # The answer is a Status, which the library would read as a Binding.
        self.core.create_namespaced_pod_binding(pod, namespace, body, _preload_content=False)

    def delete_leftovers(self, namespace: str) -> None:
        """Delete jobs, and pods without a grace period: no kubelet does."""
        for plural in ("tfjobs", "mxjobs"):
            with suppress(ApiException):
                self.custom.delete_collection_namespaced_custom_object(*KUBEFLOW, namespace, plural)
        with suppress(ApiException):
            self.core.delete_collection_namespaced_pod(namespace, grace_period_seconds=0)


def now() -> str:
    """The time of now as the API server writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def config_map(name: str, labels: Mapping[str, str] | None = None, **data: str) -> Json:
    """A ConfigMap: the simplest object that there is."""
    return {"metadata": {"name": name, "labels": dict(labels or {})}, "data": data}


def pod(name: str, labels: Mapping[str, str] | None = None, **spec: Any) -> Json:
    """A pod that no scheduler looks at unless `schedulerName` is given."""
    container = {"name": "main", "image": "image:1", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {"schedulerName": "nobody", "containers": [container], **spec},
    }
