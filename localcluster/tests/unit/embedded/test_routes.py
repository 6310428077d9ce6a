"""Requests reach what their paths name, and responses have the form of a real server."""

from localcluster.embedded.apiserver.kinds import Kinds
from localcluster.embedded.apiserver.logs import LogRequest
from localcluster.embedded.apiserver.watches import WatchRequest
from localcluster.embedded.apiserver.wire import Request, target_of
from tests.cases import cases
from tests.unit.embedded.api_server import NS, ApiServer, pod


@cases(
    ("path", "wanted"),
    {
        "a collection over all namespaces": ("/api/v1/pods", ("pods", "", "", "")),
        "a collection in a namespace": ("/api/v1/namespaces/a/pods", ("pods", "a", "", "")),
        "an object": ("/api/v1/namespaces/a/pods/p", ("pods", "a", "p", "")),
        "a part of an object": ("/api/v1/namespaces/a/pods/p/status", ("pods", "a", "p", "status")),
        "the namespaces": ("/api/v1/namespaces", ("namespaces", "", "", "")),
        "a namespace called pods": ("/api/v1/namespaces/pods", ("namespaces", "", "pods", "")),
        "a part of a namespace": ("/api/v1/namespaces/a/status", ("namespaces", "", "a", "status")),
        "an object without a namespace": ("/api/v1/nodes/n", ("nodes", "", "n", "")),
        "another group": ("/apis/apps/v1/namespaces/a/deployments", ("deployments", "a", "", "")),
        "signs in a name": ("/api/v1/namespaces/a/pods/x%2Fy", ("pods", "a", "x/y", "")),
    },
)
def test_paths(path: str, wanted: tuple[str, str, str, str]) -> None:
    found = target_of(Kinds(), path)
    assert found is not None
    assert (found.resource.plural, found.namespace, found.name, found.subresource) == wanted


class TestStreams:
    def test_a_watch_is_handed_on(self) -> None:
        server = ApiServer()
        query = b"watch=true&fieldSelector=spec.nodeName%3Dn"
        found = server.routes.handle(Request.of("GET", f"{NS}/pods", query, {}, b""))
        assert isinstance(found, WatchRequest)
        assert (found.resource.plural, found.selection.namespace, len(found.selection.fields)) == (
            "pods",
            "ns",
            1,
        )

    def test_a_log_is_where_the_pods_node_says(self) -> None:
        server = ApiServer()
        server.create(
            "nodes",
            {
                "metadata": {"name": "n"},
                "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 4}}},
            },
        )
        server.create("pods", pod())
        assert server.request("GET", f"{NS}/pods/p/log") == (204, b"")
        server.objects.bind(server.target("pods", "p"), {"target": {"name": "n"}})
        query = b"follow=true&tailLines=5&timestamps=false&pretty=true"
        found = server.routes.handle(Request.of("GET", f"{NS}/pods/p/log", query, {}, b""))
        assert found == LogRequest(4, "/containerLogs/ns/p/c?tailLines=5&follow=true")
