"""Serves the profiles on loopback while the demo runs, and finds the addresses of both /metrics.

The page of profiles is what ``kubectl get trainingprofiles`` prints: the table that the API server
makes of them, requested again for each visit. The two processes serve their metrics; an annotation
of their pods has the ports."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

import urllib3
from kubernetes import client as api

from examples.demo.scenario import MANAGED, SYSTEM
from localcluster.errors import ClusterError
from localcluster.node.pod_processes import PORTS_ANNOTATION

Table: TypeAlias = Mapping[str, Any]
"""A `meta.k8s.io/v1` Table."""

_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
_METRICS: Final = {
    "autoscaler": ("optimus-autoscaler", 8080),
    "extender": ("optimus-scheduler", 8889),
}
_PAGE: Final = ("optimus-autoscaler", 8090)
_APART: Final = 3


def system_pods(client: api.ApiClient) -> list[api.V1Pod]:
    """The pods of both processes."""
    return list(api.CoreV1Api(client).list_namespaced_pod(SYSTEM).items)


def profiles_table(client: api.ApiClient) -> Table:
    """The profiles of the demo's namespace as the API server makes a table of them."""
    table: Any = api.CustomObjectsApi(client).list_namespaced_custom_object(
        "optimus.dl", "v1alpha1", MANAGED, "trainingprofiles", _headers={"Accept": _TABLE}
    )
    return dict(table)


def metrics_addresses(pods: Sequence[api.V1Pod]) -> dict[str, str]:
    """The address of each process's metrics, from its pod.

    Raises:
        ClusterError: a process has no pod with the port."""
    return {
        name: _address(f"the metrics of the {name}", pods, deployment, port) + "metrics"
        for name, (deployment, port) in _METRICS.items()
    }


def page_address(pods: Sequence[api.V1Pod]) -> str:
    """The address of the autoscaler's page.

    Raises:
        ClusterError: it has no pod with the port."""
    return _address("the page of the autoscaler", pods, *_PAGE)


def _address(what: str, pods: Sequence[api.V1Pod], deployment: str, port: int) -> str:
    for metadata in (pod.metadata for pod in pods if pod.metadata is not None):
        ports = json.loads((metadata.annotations or {}).get(PORTS_ANNOTATION, "{}"))
        is_its = (metadata.labels or {}).get("app.kubernetes.io/name") == deployment
        if is_its and metadata.deletion_timestamp is None and str(port) in ports:
            return f"http://127.0.0.1:{ports[str(port)]}/"
    raise ClusterError(f"no pod of {deployment} says the address of {what}")


def listing(table: Table) -> str:
    """Print a Table as kubectl does: the columns of priority 0, left-aligned."""
    columns = [
        (place, column["name"].upper())
        for place, column in enumerate(table["columnDefinitions"])
        if not column["priority"]
    ]
    lines = [[heading for _, heading in columns]]
    for row in table["rows"]:
        cells = row["cells"]
        lines.append(["" if cells[place] is None else str(cells[place]) for place, _ in columns])
    widths = [max(map(len, column)) + _APART for column in zip(*lines, strict=True)]
    return "".join(
        "".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n"
        for line in lines
    )


class ProfilePage:
    """Serves the listing on a free loopback port; ``ask`` returns the current Table."""

    def __init__(self, ask: Callable[[], Table]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                try:
                    status, text = 200, listing(ask())
                except (api.ApiException, urllib3.exceptions.HTTPError) as error:
                    status, text = 503, f"the API server did not answer: {error}\n"
                body = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", "text/plain; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Refresh", "2")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
                """Say nothing: the screen belongs to the table."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="profile-page", daemon=True
        )

    @property
    def address(self) -> str:
        """Where it is served."""
        return f"http://127.0.0.1:{self._server.server_port}/"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
