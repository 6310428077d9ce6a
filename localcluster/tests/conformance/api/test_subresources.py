"""Subresources: bindings, status, logs."""

import secrets
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import trustme

from tests.conformance.api_calls import MERGE, ApiCalls, now, pod


class TestBinding:
    def test_a_binding_gives_a_pod_its_node_and_the_condition_for_it(
        self, api: ApiCalls, namespace: str
    ) -> None:
        api.core.create_namespaced_pod(namespace, pod("p"))
        api.bind("p", namespace, namespace)
        bound = api.core.read_namespaced_pod("p", namespace)
        assert bound.spec.node_name == namespace
        assert [(each.type, each.status) for each in bound.status.conditions] == [
            ("PodScheduled", "True")
        ]

    def test_a_bound_pod_is_not_bound_again(self, api: ApiCalls, namespace: str) -> None:
        api.core.create_namespaced_pod(namespace, pod("p"))
        api.bind("p", namespace, namespace)
        with api.refused(409, "Conflict") as refusal:
            api.bind("p", namespace, "elsewhere")
        assert refusal.message.endswith(f'pod p is already assigned to node "{namespace}"')
        assert api.core.read_namespaced_pod("p", namespace).spec.node_name == namespace

    def test_a_pod_that_is_being_deleted_is_not_bound(self, api: ApiCalls, namespace: str) -> None:
        body = pod("p")
        body["metadata"]["finalizers"] = ["test/hold"]
        api.core.create_namespaced_pod(namespace, body)
        api.core.delete_namespaced_pod("p", namespace)
        with api.refused(409, "Conflict") as refusal:
            api.bind("p", namespace, namespace)
        assert refusal.message.endswith("pod p is being deleted, cannot be assigned to a host")
        api.core.patch_namespaced_pod("p", namespace, {"metadata": {"finalizers": None}})

    def test_a_pod_with_another_uid_is_not_bound(self, api: ApiCalls, namespace: str) -> None:
        api.core.create_namespaced_pod(namespace, pod("p"))
        metadata = {"name": "p", "uid": "00000000-0000-0000-0000-000000000000"}
        body = {"metadata": metadata, "target": {"kind": "Node", "name": namespace}}
        with api.refused(409, "Conflict"):
            api.core.create_namespaced_pod_binding("p", namespace, body, _preload_content=False)
        assert api.core.read_namespaced_pod("p", namespace).spec.node_name is None

    def test_a_pod_that_is_not_there_is_not_bound(self, api: ApiCalls, namespace: str) -> None:
        with api.refused(404, "NotFound") as refusal:
            api.bind("p", namespace, namespace)
        assert refusal.message == 'pods "p" not found'


class TestStatus:
    def test_a_pods_status_is_written_beside_it(self, api: ApiCalls, namespace: str) -> None:
        api.core.create_namespaced_pod(namespace, pod("p"))
        status = {"phase": "Running", "nominatedNodeName": namespace}
        api.core.patch_namespaced_pod_status("p", namespace, {"status": status})
        read = api.core.read_namespaced_pod("p", namespace).status
        assert (read.phase, read.nominated_node_name) == ("Running", namespace)

    def test_a_nomination_is_removed_by_null(self, api: ApiCalls, namespace: str) -> None:
        api.core.create_namespaced_pod(namespace, pod("p"))
        for node in (namespace, None):
            body = {"status": {"nominatedNodeName": node}}
            api.core.patch_namespaced_pod_status("p", namespace, body, _content_type=MERGE)
        assert api.core.read_namespaced_pod("p", namespace).status.nominated_node_name is None

    def test_a_pods_status_cannot_be_written_with_the_pod(
        self, api: ApiCalls, namespace: str
    ) -> None:
        api.core.create_namespaced_pod(namespace, pod("p"))
        api.core.patch_namespaced_pod("p", namespace, {"status": {"phase": "Running"}})
        assert api.core.read_namespaced_pod("p", namespace).status.phase == "Pending"

    def test_labels_and_annotations_that_come_with_a_pods_status_are_written_too(
        self, api: ApiCalls, namespace: str
    ) -> None:
        api.core.create_namespaced_pod(namespace, pod("p"))
        metadata = {"labels": {"x": "1"}, "annotations": {"y": "2"}}
        api.core.patch_namespaced_pod_status(
            "p", namespace, {"metadata": metadata, "status": {"phase": "Running"}}
        )
        read = api.core.read_namespaced_pod("p", namespace).metadata
        assert (read.labels, read.annotations) == ({"x": "1"}, {"y": "2"})

    def test_the_status_of_another_pod_of_the_name_is_not_written(
        self, api: ApiCalls, namespace: str
    ) -> None:
        api.core.create_namespaced_pod(namespace, pod("p"))
        metadata = {"uid": "00000000-0000-0000-0000-000000000000"}
        with api.refused(422, "Invalid"):
            api.core.patch_namespaced_pod_status(
                "p", namespace, {"metadata": metadata, "status": {"phase": "Running"}}
            )
        assert api.core.read_namespaced_pod("p", namespace).status.phase == "Pending"

    def test_the_capacity_of_a_node_is_part_of_its_status(self, api: ApiCalls) -> None:
        name = api.make_node("8")
        api.core.patch_node(name, {"status": {"allocatable": {"cpu": "1"}}})
        assert api.core.read_node(name).status.allocatable["cpu"] == "8"
        more = {"capacity": {"test.io/device": "3"}, "allocatable": {"test.io/device": "3"}}
        api.core.patch_node_status(name, {"status": more})
        offered = api.core.read_node(name).status.allocatable
        assert offered == {"cpu": "8", "memory": "8Gi", "pods": "110", "test.io/device": "3"}
        api.core.delete_node(name)

    def test_a_nodes_labels_are_changed_and_taken_away_beside_it(self, api: ApiCalls) -> None:
        name = api.make_node(labels={"zone": "a"})
        patched = api.core.patch_node(name, {"metadata": {"labels": {"zone": None, "new": "1"}}})
        assert patched.metadata.labels == {"kubernetes.io/hostname": name, "new": "1"}
        api.core.delete_node(name)


class Kubelet:
    """A kubelet that serves one log and records its requests."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.more = threading.Event()
        kubelet = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                kubelet.requests.append((url.path, dict(parse_qsl(url.query))))
                self.send_response(200)
                self.send_header("Content-Type", "text/plain")
                self.end_headers()
                self.wfile.write(b"2026-01-01T00:00:00Z first\n")
                self.wfile.flush()
                if "follow" in url.query:
                    kubelet.more.wait(180)
                    self.wfile.write(b"second\n")

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the base class names it so
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port = self._server.server_address[1]

    @contextmanager
    def serving(self) -> Iterator["Kubelet"]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()


class TestLogs:
    @pytest.fixture
    def kubelet(self) -> Iterator[Kubelet]:
        with Kubelet().serving() as kubelet:
            yield kubelet

    @pytest.fixture
    def logged(self, api: ApiCalls, namespace: str, kubelet: Kubelet) -> Iterator[str]:
        """A pod on a node whose kubelet is the test."""
        name = f"logging-{secrets.token_hex(4)}"
        ready = {
            "type": "Ready",
            "status": "True",
            "lastHeartbeatTime": now(),
            "lastTransitionTime": now(),
        }
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port}},
            "conditions": [ready],
        }
        api.core.create_node({"metadata": {"name": name}, "status": status})
        api.core.create_namespaced_pod(namespace, pod("p"))
        api.bind("p", namespace, name)
        yield "p"
        api.core.delete_node(name)

    def test_a_log_is_read_from_the_pods_kubelet(
        self, api: ApiCalls, namespace: str, logged: str, kubelet: Kubelet
    ) -> None:
        options = {"timestamps": True, "since_seconds": 5, "limit_bytes": 1000, "tail_lines": 3}
        text = api.core.read_namespaced_pod_log(logged, namespace, container="main", **options)
        assert text == "2026-01-01T00:00:00Z first\n"
        ((path, query),) = kubelet.requests
        assert path == f"/containerLogs/{namespace}/p/main"
        assert query == {
            "timestamps": "true",
            "sinceSeconds": "5",
            "limitBytes": "1000",
            "tailLines": "3",
        }

    def test_a_log_is_read_since_an_instant(
        self, api: ApiCalls, namespace: str, logged: str, kubelet: Kubelet
    ) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods/{logged}/log"
        with api.stream(path, sinceTime="2026-01-01T00:00:00Z") as response:
            assert response.read() == b"2026-01-01T00:00:00Z first\n"
        assert kubelet.requests[0][1] == {"sinceTime": "2026-01-01T00:00:00Z"}

    def test_a_followed_log_arrives_while_it_is_written(
        self, api: ApiCalls, namespace: str, logged: str, kubelet: Kubelet
    ) -> None:
        with api.stream(
            f"/api/v1/namespaces/{namespace}/pods/{logged}/log", follow="true"
        ) as response:
            pieces = response.stream()
            assert next(pieces) == b"2026-01-01T00:00:00Z first\n"
            kubelet.more.set()
            assert b"".join(pieces) == b"second\n"

    def test_a_pod_without_a_node_has_no_log(self, api: ApiCalls, namespace: str) -> None:
        api.core.create_namespaced_pod(namespace, pod("p"))
        with api.stream(f"/api/v1/namespaces/{namespace}/pods/p/log") as response:
            assert (response.status, response.read()) == (204, b"")

    def test_a_container_that_the_pod_does_not_have_is_refused(
        self, api: ApiCalls, namespace: str, logged: str
    ) -> None:
        with api.refused(400, "BadRequest") as refusal:
            api.core.read_namespaced_pod_log(logged, namespace, container="beside")
        assert refusal.message == "container beside is not valid for pod p"
