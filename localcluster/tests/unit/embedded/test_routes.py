"""Requests reach what their paths name, and are answered in the form that a real server has."""

import pytest

from localcluster.embedded.apiserver.kinds import Kinds
from localcluster.embedded.apiserver.logs import LogRequest
from localcluster.embedded.apiserver.refusals import Refusal
from localcluster.embedded.apiserver.requests import Request, target_of
from localcluster.embedded.apiserver.routes import COMPACT
from localcluster.embedded.apiserver.watching import WatchRequest
from tests.unit.embedded.world import MERGE, NS, WIDGETS_PATH, World, config_map, pod


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        pytest.param("/api/v1/pods", ("pods", "", "", ""), id="a collection over all namespaces"),
        pytest.param(
            "/api/v1/namespaces/a/pods", ("pods", "a", "", ""), id="a collection in a namespace"
        ),
        pytest.param("/api/v1/namespaces/a/pods/p", ("pods", "a", "p", ""), id="an object"),
        pytest.param(
            "/api/v1/namespaces/a/pods/p/status",
            ("pods", "a", "p", "status"),
            id="a part of an object",
        ),
        pytest.param("/api/v1/namespaces", ("namespaces", "", "", ""), id="the namespaces"),
        pytest.param(
            "/api/v1/namespaces/pods", ("namespaces", "", "pods", ""), id="a namespace called pods"
        ),
        pytest.param(
            "/api/v1/namespaces/a/status",
            ("namespaces", "", "a", "status"),
            id="a part of a namespace",
        ),
        pytest.param("/api/v1/nodes/n", ("nodes", "", "n", ""), id="an object without a namespace"),
        pytest.param(
            "/apis/apps/v1/namespaces/a/deployments",
            ("deployments", "a", "", ""),
            id="another group",
        ),
        pytest.param(
            "/api/v1/namespaces/a/bindings",
            ("pods", "a", "", "binding"),
            id="the old path of bindings",
        ),
        pytest.param(
            "/api/v1/namespaces/a/pods/x%2Fy", ("pods", "a", "x/y", ""), id="signs in a name"
        ),
    ],
)
def test_paths(path: str, wanted: tuple[str, str, str, str]) -> None:
    found = target_of(Kinds(), path)
    assert found is not None
    assert (found.resource.plural, found.namespace, found.name, found.subresource) == wanted


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nope",
        "/api/v1/namespaces/a/nodes",
        "/api/v1/pods/p",
        "/api/v1/namespaces/a/pods/p/x",
        "/api/v1/namespaces/a/pods/p/status/x",
    ],
)
def test_paths_in_a_served_group_that_lead_nowhere(path: str) -> None:
    with pytest.raises(Refusal, match="the server could not find the requested resource"):
        target_of(Kinds(), path)


@pytest.mark.parametrize("path", ["/apis/nope.io/v1/things", "/apis/test.io/v2/widgets", "/nope"])
def test_paths_outside_of_every_group_are_answered_in_plain_text(path: str) -> None:
    assert World().ask("GET", path) == (404, b"404 page not found\n")


@pytest.mark.parametrize("path", ["/apis/apps/v2/deployments", "/apis/apps/v2", "/api/v2/pods"])
def test_another_version_of_a_built_in_group_is_answered_with_a_status(path: str) -> None:
    code, body = World().ask("GET", path)
    assert (code, body["reason"]) == (404, "NotFound")


def test_scale_reads_and_writes_the_replicas_wherever_they_are() -> None:
    world = World()
    world.create("widgets", {"metadata": {"name": "w"}, "spec": {"size": 3}})
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    world.create("deployments", {"metadata": {"name": "d"}, "spec": spec})
    deployment = "/apis/apps/v1/namespaces/ns/deployments/d/scale"
    for path, selector in ((f"{WIDGETS_PATH}/w/scale", None), (deployment, "a=b")):
        code, scale = world.ask("PATCH", path, {"spec": {"replicas": 5}}, MERGE)
        assert (code, scale["kind"], scale["spec"]) == (200, "Scale", {"replicas": 5})
        assert scale["status"].get("selector") == selector
        assert world.ask("GET", path)[1] == scale
        stale = {**scale, "metadata": {**scale["metadata"], "resourceVersion": "1"}}
        assert world.ask("PUT", path, stale)[0] == 409


def test_a_collection_is_deleted_by_selector() -> None:
    world = World()
    for name, label in (("a", "1"), ("b", "2"), ("c", "1")):
        world.create("configmaps", config_map(name, labels={"k": label}))
    code, gone = world.ask("DELETE", f"{NS}/configmaps?labelSelector=k%3D1")
    assert (code, gone["kind"], [each["metadata"]["name"] for each in gone["items"]]) == (
        200,
        "ConfigMapList",
        ["a", "c"],
    )
    assert world.names("configmaps") == ["b", "kube-root-ca.crt"]


def test_an_eviction_is_a_deletion() -> None:
    world = World()
    world.create("pods", pod())
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert world.ask("POST", f"{NS}/pods/p/eviction", body)[0] == 201
    assert world.get("pods", "p") is None


def test_discovery_names_every_kind_and_its_parts() -> None:
    world = World()
    groups = {each["name"] for each in world.ask("GET", "/apis")[1]["groups"]}
    assert {"apps", "coordination.k8s.io", "test.io"} <= groups
    listed = world.ask("GET", "/apis/test.io/v1")[1]["resources"]
    assert [each["name"] for each in listed] == ["widgets", "widgets/status", "widgets/scale"]
    pods = {
        each["name"]: each["kind"]
        for each in world.ask("GET", "/api/v1")[1]["resources"]
        if "pods" in each["name"]
    }
    parts = {
        "pods/binding": "Binding",
        "pods/eviction": "Eviction",
        "pods/log": "Pod",
        "pods/status": "Pod",
    }
    assert pods == {"pods": "Pod", **parts}
    assert world.ask("GET", "/version")[1]["minor"] == "36"
    assert world.ask("GET", "/readyz") == (200, b"ok")


def test_items_of_built_in_lists_go_without_their_kind_and_custom_ones_with_it() -> None:
    world = World()
    world.create("widgets", {"metadata": {"name": "w"}, "spec": {"size": 1}})
    built_in = world.ask("GET", f"{NS}/configmaps")[1]
    assert (built_in["kind"], [sorted(each) for each in built_in["items"]]) == (
        "ConfigMapList",
        [["data", "metadata"]],
    )
    custom = world.ask("GET", WIDGETS_PATH)[1]
    assert (custom["kind"], custom["items"][0]["kind"]) == ("WidgetList", "Widget")


def test_history_can_be_forgotten_on_demand() -> None:
    world = World()
    assert world.ask("POST", COMPACT) == (200, {"version": world.store.version})
    assert list(world.store.since("configmaps", world.store.version)) == []


class TestStreams:
    def test_a_watch_is_handed_on(self) -> None:
        world = World()
        query = b"watch=true&fieldSelector=spec.nodeName%3Dn"
        found = world.routes.handle(Request.of("GET", f"{NS}/pods", query, {}, b""))
        assert isinstance(found, WatchRequest)
        assert (found.resource.plural, found.selection.namespace, len(found.selection.fields)) == (
            "pods",
            "ns",
            1,
        )

    def test_a_log_is_where_the_pods_node_says(self) -> None:
        world = World()
        world.create(
            "nodes",
            {
                "metadata": {"name": "n"},
                "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 4}}},
            },
        )
        world.create("pods", pod())
        assert world.ask("GET", f"{NS}/pods/p/log") == (204, b"")
        world.objects.bind(world.target("pods", "p"), {"target": {"name": "n"}})
        query = b"follow=true&tailLines=5&timestamps=false&pretty=true"
        found = world.routes.handle(Request.of("GET", f"{NS}/pods/p/log", query, {}, b""))
        assert found == LogRequest(4, "/containerLogs/ns/p/c?follow=true&tailLines=5")

    @pytest.mark.parametrize(
        ("query", "message"),
        [
            pytest.param(
                "?container=x", "container x is not valid for pod p", id="no such container"
            ),
            pytest.param(
                "",
                (
                    "a container name must be specified for pod p, choose one of: [c d] or one of "
                    "the "
                    "init containers: [i]"
                ),
                id="several to choose from",
            ),
        ],
    )
    def test_a_container_that_cannot_be_told(self, query: str, message: str) -> None:
        world = World()
        containers = [{"name": name, "image": "i:1"} for name in "cd"]
        world.create(
            "pods", pod(containers=containers, initContainers=[{"name": "i", "image": "i:1"}])
        )
        code, said = world.ask("GET", f"{NS}/pods/p/log{query}")
        assert (code, said["message"]) == (400, message)
