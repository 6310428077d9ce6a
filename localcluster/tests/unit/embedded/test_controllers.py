"""What a control plane does by itself: furnish and empty namespaces, serve definitions, taint
nodes, bind claims."""

from typing import Any

import pytest

from localcluster.embedded.apiserver.controllers import tainted
from localcluster.embedded.apiserver.deletion import Options
from localcluster.embedded.apiserver.kinds import Json
from tests.unit.embedded.world import WIDGETS, World, config_map, pod


class TestNamespaces:
    def test_a_new_one_gets_its_account_and_its_certificate(self) -> None:
        world = World()
        assert (world.names("serviceaccounts"), world.names("configmaps")) == (
            ["default"],
            ["kube-root-ca.crt"],
        )

    def test_what_it_needs_comes_back(self) -> None:
        world = World()
        world.objects.delete(world.target("serviceaccounts", "default"))
        world.settle()
        assert world.names("serviceaccounts") == ["default"]

    def test_it_goes_when_all_in_it_is_gone(self) -> None:
        world = World()
        world.create(
            "widgets", {"metadata": {"name": "w", "finalizers": ["a.io/b"]}, "spec": {"size": 1}}
        )
        world.create("pods", pod())
        world.objects.bind(world.target("pods", "p"), {"target": {"name": "n"}})
        world.objects.delete(world.target("namespaces", "ns"))
        world.settle()
        namespace = world.get("namespaces", "ns") or {}
        assert namespace["status"]["phase"] == "Terminating"
        assert (world.names("configmaps"), world.names("pods"), world.names("widgets")) == (
            [],
            ["p"],
            ["w"],
        )
        world.objects.delete(world.target("pods", "p"), Options(grace_seconds=0))
        free: Json = {"finalizers": []}
        target = world.target("widgets", "w")
        world.objects.change(target, lambda old: {**old, "metadata": {**old["metadata"], **free}})
        world.settle()
        assert world.get("namespaces", "ns") is None


class TestDefinitions:
    def test_a_kind_is_served_as_soon_as_it_is_defined(self) -> None:
        status = (World().get("customresourcedefinitions", "widgets.test.io") or {})["status"]
        assert {each["type"]: each["status"] for each in status["conditions"]} == {
            "NamesAccepted": "True",
            "Established": "True",
        }
        assert (status["storedVersions"], status["acceptedNames"]["listKind"]) == (
            ["v1"],
            "WidgetList",
        )

    def test_its_objects_go_with_it(self) -> None:
        world = World()
        world.create("widgets", {"metadata": {"name": "w"}, "spec": {"size": 1}})
        world.objects.delete(world.target("customresourcedefinitions", "widgets.test.io"))
        assert world.get("customresourcedefinitions", "widgets.test.io") is not None
        world.settle()
        assert world.get("customresourcedefinitions", "widgets.test.io") is None
        assert world.ask("GET", "/apis/test.io/v1/widgets") == (404, b"404 page not found\n")
        assert world.store.items("widgets.test.io") == []

    def test_a_changed_schema_holds_from_then_on(self) -> None:
        world = World()
        definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.test.io"
        path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/more"
        patch = [{"op": "add", "path": path, "value": {"type": "string"}}]
        world.ask("PATCH", definition, patch, "application/json-patch+json")
        world.settle()
        assert (
            world.create("widgets", {"metadata": {"name": "w"}, "spec": {"more": "x"}})["spec"][
                "more"
            ]
            == "x"
        )

    def test_a_name_that_is_not_its_kinds_is_refused(self) -> None:
        body = {**WIDGETS, "metadata": {"name": "x.test.io"}}
        code, said = World().ask(
            "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body
        )
        assert (code, said["message"].endswith('must be spec.names.plural+"."+spec.group')) == (
            422,
            True,
        )


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


@pytest.mark.parametrize(
    ("body", "taints"),
    [
        pytest.param(node(None), [NOT_READY], id="a node that has not reported"),
        pytest.param(node("True", taints=(NOT_READY,)), [], id="a node that has become ready"),
        pytest.param(node("False"), [NOT_READY], id="a node that is no longer ready"),
        pytest.param(node("True", unschedulable=True), [CORDONED], id="a cordoned node"),
        pytest.param(node("True", taints=(CORDONED, "mine")), ["mine"], id="a user's taint stays"),
    ],
)
def test_taints_follow_what_a_node_says_of_itself(body: Json, taints: list[str]) -> None:
    found = tainted(body)
    assert [each["key"] for each in found["spec"].get("taints", [])] == taints
    assert tainted(found) == found


class TestVolumes:
    @staticmethod
    def volume(world: World, name: str, size: str, **spec: Any) -> None:
        given = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
            **spec,
        }
        world.create("persistentvolumes", {"metadata": {"name": name}, "spec": given})

    @staticmethod
    def claim(world: World, **spec: Any) -> None:
        given = {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        }
        world.create("persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": given})

    def bound(self, world: World) -> str | None:
        world.settle()
        found = world.get("persistentvolumeclaims", "c") or {}
        assert (found["status"]["phase"] == "Bound") == ("volumeName" in found["spec"])
        name: str | None = found["spec"].get("volumeName")
        return name

    def test_the_smallest_that_fits_is_taken(self) -> None:
        world = World()
        for name, size in (("large", "9Gi"), ("small", "1Mi"), ("right", "2Gi")):
            self.volume(world, name, size)
        self.claim(world)
        assert self.bound(world) == "right"
        assert (world.get("persistentvolumes", "right") or {})["status"]["phase"] == "Bound"
        assert (world.get("persistentvolumes", "large") or {})["status"]["phase"] == "Available"

    def test_one_that_is_meant_for_the_claim_comes_first_and_waits_for_it(self) -> None:
        world = World()
        self.volume(world, "mine", "9Gi", claimRef={"namespace": "ns", "name": "c"})
        self.volume(world, "free", "1Gi")
        self.claim(world)
        assert self.bound(world) == "mine"

    @pytest.mark.parametrize(
        "spec",
        [
            pytest.param({"capacity": {"storage": "1Mi"}}, id="too small"),
            pytest.param({"accessModes": ["ReadWriteOnce"]}, id="not for many"),
            pytest.param({"storageClassName": "fast"}, id="of another class"),
            pytest.param(
                {"claimRef": {"namespace": "ns", "name": "other"}}, id="meant for another"
            ),
        ],
    )
    def test_one_that_does_not_fit_is_left(self, spec: Json) -> None:
        world = World()
        self.claim(world)
        self.volume(world, "v", "2Gi", **spec)
        assert self.bound(world) is None

    def test_a_claim_waits_for_its_volume_and_leaves_it_released(self) -> None:
        world = World()
        self.claim(world)
        assert self.bound(world) is None
        self.volume(world, "v", "2Gi")
        assert self.bound(world) == "v"
        world.objects.delete(world.target("persistentvolumeclaims", "c"))
        world.settle()
        assert (world.get("persistentvolumes", "v") or {})["status"]["phase"] == "Released"


def test_a_late_controller_meets_the_object_as_it_is_then() -> None:
    world = World()
    parent = world.create("configmaps", config_map("parent"))
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "parent",
        "uid": parent["metadata"]["uid"],
    }
    world.create("configmaps", config_map("child", ownerReferences=[reference]))
    world.objects.delete(world.target("configmaps", "parent"))
    world.controllers.settle()
    assert "child" in world.names("configmaps")
    target = world.target("configmaps", "child")
    world.objects.change(
        target, lambda old: {**old, "metadata": {**old["metadata"], "ownerReferences": []}}
    )
    world.settle()
    assert "child" in world.names("configmaps")
