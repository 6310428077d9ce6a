"""Controllers: namespace defaults and deletion, definitions, node taints, claims."""

from typing import Any

from localcluster.embedded.apiserver.controllers import tainted
from localcluster.embedded.apiserver.kinds import Json
from tests.cases import cases
from tests.unit.embedded.api_server import ApiServer, config_map


class TestNamespaces:
    def test_what_it_needs_comes_back(self) -> None:
        server = ApiServer()
        server.objects.delete(server.target("serviceaccounts", "default"))
        server.settle()
        assert server.names("serviceaccounts") == ["default"]


class TestDefinitions:
    def test_a_kind_is_served_as_soon_as_it_is_defined(self) -> None:
        status = (ApiServer().get("customresourcedefinitions", "widgets.test.io") or {})["status"]
        assert {each["type"]: each["status"] for each in status["conditions"]} == {
            "NamesAccepted": "True",
            "Established": "True",
        }
        assert (status["storedVersions"], status["acceptedNames"]["listKind"]) == (
            ["v1"],
            "WidgetList",
        )

    def test_its_objects_go_with_it(self) -> None:
        server = ApiServer()
        server.create("widgets", {"metadata": {"name": "w"}, "spec": {"size": 1}})
        server.objects.delete(server.target("customresourcedefinitions", "widgets.test.io"))
        server.settle()
        assert server.get("customresourcedefinitions", "widgets.test.io") is None
        assert server.request("GET", "/apis/test.io/v1/widgets") == (404, b"404 page not found\n")
        assert server.store.items("widgets.test.io") == []


def node(ready: str | None, *, unschedulable: bool = False, taints: tuple[str, ...] = ()) -> Json:
    conditions = [] if ready is None else [{"type": "Ready", "status": ready}]
    spec: Json = (
        {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]} if taints else {}
    )
    return {
        "spec": {**spec, **({"unschedulable": True} if unschedulable else {})},
        "status": {"conditions": conditions},
    }


NOT_READY, CORDONED = "node.kubernetes.io/not-ready", "node.kubernetes.io/unschedulable"


@cases(
    ("body", "taints"),
    {
        "a node that has not reported": (node(None), [NOT_READY]),
        "a node that has become ready": (node("True", taints=(NOT_READY,)), []),
        "a node that is no longer ready": (node("False"), [NOT_READY]),
        "a cordoned node": (node("True", unschedulable=True), [CORDONED]),
        "a user's taint stays": (node("True", taints=(CORDONED, "mine")), ["mine"]),
    },
)
def test_taints_follow_the_conditions_of_a_node(body: Json, taints: list[str]) -> None:
    found = tainted(body)
    assert [each["key"] for each in found["spec"].get("taints", [])] == taints
    assert tainted(found) == found


class TestVolumes:
    @staticmethod
    def volume(server: ApiServer, name: str, size: str, **spec: Any) -> None:
        given = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
            **spec,
        }
        server.create("persistentvolumes", {"metadata": {"name": name}, "spec": given})

    @staticmethod
    def claim(server: ApiServer, **spec: Any) -> None:
        given = {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        }
        server.create("persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": given})

    def bound(self, server: ApiServer) -> str | None:
        server.settle()
        found = server.get("persistentvolumeclaims", "c") or {}
        assert (found["status"]["phase"] == "Bound") == ("volumeName" in found["spec"])
        annotations = found["metadata"].get("annotations") or {}
        done = annotations.get("pv.kubernetes.io/bind-completed") == "yes"
        assert done == ("volumeName" in found["spec"]), "by this kube-scheduler tells a bound claim"
        name: str | None = found["spec"].get("volumeName")
        return name

    def test_the_smallest_that_fits_is_taken(self) -> None:
        server = ApiServer()
        for name, size in (("large", "9Gi"), ("small", "1Mi"), ("right", "2Gi")):
            self.volume(server, name, size)
        self.claim(server)
        assert self.bound(server) == "right"
        assert (server.get("persistentvolumes", "right") or {})["status"]["phase"] == "Bound"
        assert (server.get("persistentvolumes", "large") or {})["status"]["phase"] == "Available"

    @cases(
        "spec",
        {
            "too small": {"capacity": {"storage": "1Mi"}},
            "not for many": {"accessModes": ["ReadWriteOnce"]},
            "of another class": {"storageClassName": "fast"},
            "meant for another": {"claimRef": {"namespace": "ns", "name": "other"}},
        },
    )
    def test_one_that_does_not_fit_is_left(self, spec: Json) -> None:
        server = ApiServer()
        self.claim(server)
        self.volume(server, "v", "2Gi", **spec)
        assert self.bound(server) is None

    def test_a_claim_waits_for_its_volume(self) -> None:
        server = ApiServer()
        self.claim(server)
        assert self.bound(server) is None
        self.volume(server, "v", "2Gi")
        assert self.bound(server) == "v"


def test_a_controller_that_lags_reads_the_latest_object() -> None:
    server = ApiServer()
    parent = server.create("configmaps", config_map("parent"))
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "parent",
        "uid": parent["metadata"]["uid"],
    }
    server.create("configmaps", config_map("child", ownerReferences=[reference]))
    server.objects.delete(server.target("configmaps", "parent"))
    server.controllers.run_immediate()
    assert "child" in server.names("configmaps")
    target = server.target("configmaps", "child")
    server.objects.change(
        target, lambda old: {**old, "metadata": {**old["metadata"], "ownerReferences": []}}
    )
    server.settle()
    assert "child" in server.names("configmaps")
