"""Single objects: defaults, versions, patches, and messages of errors."""

import pytest
from kubernetes.client.exceptions import ApiException

from tests.conformance.api_calls import (
    APPLY,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    ApiCalls,
    Json,
    config_map,
    pod,
)

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class TestCreating:
    def test_the_server_gives_an_object_its_uid_time_and_version(
        self, api: ApiCalls, namespace: str
    ) -> None:
        made = api.core.create_namespaced_config_map(namespace, config_map("c", a="1"))
        read = api.core.read_namespaced_config_map("c", namespace)
        assert read == made
        assert made.metadata.namespace == namespace
        assert len(made.metadata.uid) == 36
        assert made.metadata.creation_timestamp.tzinfo is not None
        assert int(made.metadata.resource_version) > 0

    def test_versions_grow_over_all_objects(self, api: ApiCalls, namespace: str) -> None:
        first = api.core.create_namespaced_config_map(namespace, config_map("a"))
        second = api.core.create_namespaced_pod(namespace, pod("b"))
        assert int(second.metadata.resource_version) > int(first.metadata.resource_version)

    def test_a_node_keeps_its_capacity(self, api: ApiCalls) -> None:
        name = api.make_node("8", {"zone": "a"})
        node = api.core.read_node(name)
        assert node.status.allocatable == {"cpu": "8", "memory": "8Gi", "pods": "110"}
        assert node.metadata.labels["zone"] == "a"
        api.core.delete_node(name)

    def test_a_pod_begins_as_pending_with_the_defaults_that_its_user_left_out(
        self, api: ApiCalls, namespace: str
    ) -> None:
        body = pod("p")
        del body["spec"]["schedulerName"]
        body["spec"]["schedulingGates"] = [{"name": "test/never"}]
        made = api.core.create_namespaced_pod(namespace, body)
        assert made.status.phase == "Pending"
        assert made.spec.scheduler_name == "default-scheduler"
        assert made.spec.restart_policy == "Always"
        assert made.spec.termination_grace_period_seconds == 30
        assert made.spec.containers[0].image_pull_policy == "IfNotPresent"
        assert {each.key for each in made.spec.tolerations} == {
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
        }

    def test_a_limit_without_a_request_becomes_a_request(
        self, api: ApiCalls, namespace: str
    ) -> None:
        body = pod("p")
        body["spec"]["containers"][0]["resources"] = {
            "limits": {"cpu": "500m", "nvidia.com/gpu": "1"}
        }
        made = api.core.create_namespaced_pod(namespace, body)
        assert made.spec.containers[0].resources.requests == {"cpu": "500m", "nvidia.com/gpu": "1"}

    def test_a_second_object_of_the_name_is_refused(self, api: ApiCalls, namespace: str) -> None:
        api.core.create_namespaced_config_map(namespace, config_map("c"))
        with api.refused(409, "AlreadyExists") as refusal:
            api.core.create_namespaced_config_map(namespace, config_map("c"))
        assert refusal.message == 'configmaps "c" already exists'
        assert refusal.status["details"] == {"name": "c", "kind": "configmaps"}

    def test_a_name_is_made_up_from_its_beginning(self, api: ApiCalls, namespace: str) -> None:
        body = {"metadata": {"generateName": "run-"}}
        names = {
            api.core.create_namespaced_config_map(namespace, body).metadata.name for _ in range(3)
        }
        assert len(names) == 3
        assert all(name.startswith("run-") and len(name) == len("run-") + 5 for name in names)

    def test_a_namespace_that_is_not_there_takes_nothing(self, api: ApiCalls) -> None:
        with api.refused(404, "NotFound") as refusal:
            api.core.create_namespaced_config_map("nowhere", config_map("c"))
        assert refusal.message == 'namespaces "nowhere" not found'


class TestReading:
    def test_what_is_not_there_is_not_found(self, api: ApiCalls, namespace: str) -> None:
        with api.refused(404, "NotFound") as refusal:
            api.core.read_namespaced_pod("nobody", namespace)
        assert refusal.message == 'pods "nobody" not found'
        assert refusal.status["details"] == {"name": "nobody", "kind": "pods"}

    def test_a_path_that_nobody_serves_is_not_found(self, api: ApiCalls) -> None:
        with pytest.raises(ApiException) as caught:
            api.get("/apis/nope.test/v1/things")
        assert (caught.value.status, str(caught.value.body).strip()) == (404, "404 page not found")

    def test_a_list_names_its_kind_and_version_and_its_items_do_not(
        self, api: ApiCalls, namespace: str
    ) -> None:
        made = api.core.create_namespaced_config_map(namespace, config_map("c"))
        listed = api.get(f"/api/v1/namespaces/{namespace}/configmaps")
        assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
        assert int(listed["metadata"]["resourceVersion"]) >= int(made.metadata.resource_version)
        (own,) = [item for item in listed["items"] if item["metadata"]["name"] == "c"]
        assert "kind" not in own

    def test_a_list_over_all_namespaces_holds_those_of_each(
        self, api: ApiCalls, namespace: str
    ) -> None:
        api.core.create_namespaced_pod(namespace, pod("p"))
        found = {
            (each.metadata.namespace, each.metadata.name)
            for each in api.core.list_pod_for_all_namespaces().items
        }
        assert (namespace, "p") in found


class TestReplacing:
    def test_what_the_new_object_leaves_out_is_gone(self, api: ApiCalls, namespace: str) -> None:
        made = api.core.create_namespaced_config_map(namespace, config_map("c", a="1", b="2"))
        made.data = {"a": "9"}
        replaced = api.core.replace_namespaced_config_map("c", namespace, made)
        assert replaced.data == {"a": "9"}
        assert replaced.metadata.uid == made.metadata.uid
        assert int(replaced.metadata.resource_version) > int(made.metadata.resource_version)

    def test_an_object_that_has_changed_since_it_was_read_is_not_replaced(
        self, api: ApiCalls, namespace: str
    ) -> None:
        made = api.core.create_namespaced_config_map(namespace, config_map("c"))
        api.core.patch_namespaced_config_map("c", namespace, {"data": {"x": "1"}})
        made.data = {"y": "1"}
        with api.refused(409, "Conflict") as refusal:
            api.core.replace_namespaced_config_map("c", namespace, made)
        assert refusal.message == f'Operation cannot be fulfilled on configmaps "c": {MODIFIED}'
        assert api.core.read_namespaced_config_map("c", namespace).data == {"x": "1"}


class TestPatching:
    def test_a_patch_that_names_an_old_version_is_refused(
        self, api: ApiCalls, namespace: str
    ) -> None:
        made = api.core.create_namespaced_config_map(namespace, config_map("c"))
        api.core.patch_namespaced_config_map("c", namespace, {"data": {"x": "1"}})
        guarded = {
            "metadata": {"resourceVersion": made.metadata.resource_version},
            "data": {"z": "1"},
        }
        with api.refused(409, "Conflict") as refusal:
            api.core.patch_namespaced_config_map("c", namespace, guarded, _content_type=MERGE)
        assert refusal.message == f'Operation cannot be fulfilled on configmaps "c": {MODIFIED}'
        assert api.core.read_namespaced_config_map("c", namespace).data == {"x": "1"}

    def test_a_patch_that_names_another_uid_is_refused(self, api: ApiCalls, namespace: str) -> None:
        api.core.create_namespaced_pod(namespace, pod("p"))
        other: Json = {
            "metadata": {"uid": "00000000-0000-0000-0000-000000000000", "labels": {"x": "1"}}
        }
        with api.refused(422, "Invalid") as refusal:
            api.core.patch_namespaced_pod("p", namespace, other, _content_type=MERGE)
        uid = other["metadata"]["uid"]
        assert (
            refusal.message
            == f'Pod "p" is invalid: metadata.uid: Invalid value: "{uid}": field is immutable'
        )

    def test_a_patch_that_changes_nothing_keeps_the_version_and_sends_no_event(
        self, api: ApiCalls, namespace: str
    ) -> None:
        made = api.core.create_namespaced_config_map(namespace, config_map("c", a="1"))
        version = made.metadata.resource_version
        with api.watch(
            f"/api/v1/namespaces/{namespace}/configmaps", resourceVersion=version
        ) as watching:
            same = api.core.patch_namespaced_config_map("c", namespace, {"data": {"a": "1"}})
            assert same.metadata.resource_version == version
            api.core.delete_namespaced_config_map("c", namespace)
            assert watching.event_names(1) == [("DELETED", "c")]

    def test_null_takes_a_key_away(self, api: ApiCalls, namespace: str) -> None:
        api.core.create_namespaced_config_map(namespace, config_map("c", a="1", b="2"))
        left = api.core.patch_namespaced_config_map(
            "c", namespace, {"data": {"a": None}}, _content_type=MERGE
        )
        assert left.data == {"b": "2"}

    def test_a_merge_patch_replaces_a_list_whole(self, api: ApiCalls) -> None:
        name = api.make_node(taints=[{"key": "a", "effect": "NoSchedule"}])
        taints = {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}
        patched = api.core.patch_node(name, taints, _content_type=MERGE)
        assert [taint.key for taint in patched.spec.taints] == ["b"]
        api.core.delete_node(name)

    def test_a_json_patch_does_its_steps_in_order_or_none(
        self, api: ApiCalls, namespace: str
    ) -> None:
        api.core.create_namespaced_config_map(namespace, config_map("c", a="1"))
        steps = [
            {"op": "test", "path": "/data/a", "value": "1"},
            {"op": "replace", "path": "/data/a", "value": "2"},
        ]
        assert api.core.patch_namespaced_config_map("c", namespace, steps).data == {"a": "2"}
        wrong = [{"op": "add", "path": "/data/b", "value": "3"}, *steps]
        with api.refused(422, "Invalid") as refusal:
            api.core.patch_namespaced_config_map("c", namespace, wrong, _content_type=JSON_PATCH)
        assert refusal.message == "the server rejected our request due to an error in our request"
        assert api.core.read_namespaced_config_map("c", namespace).data == {"a": "2"}

    def test_a_strategic_patch_finds_containers_by_name(
        self, api: ApiCalls, namespace: str
    ) -> None:
        body = pod("p")
        body["spec"]["containers"].append({"name": "beside", "image": "image:1"})
        api.core.create_namespaced_pod(namespace, body)
        changed = {"spec": {"containers": [{"name": "main", "image": "image:2"}]}}
        patched = api.core.patch_namespaced_pod("p", namespace, changed, _content_type=STRATEGIC)
        assert {each.name: each.image for each in patched.spec.containers} == {
            "main": "image:2",
            "beside": "image:1",
        }

    def test_a_strategic_patch_finds_conditions_by_type(self, api: ApiCalls) -> None:
        name = api.make_node()
        condition = {"type": "GPU", "status": "True", "reason": "Seen", "message": "one"}
        patched = api.core.patch_node_status(
            name, {"status": {"conditions": [condition]}}, _content_type=STRATEGIC
        )
        assert {each.type: each.status for each in patched.status.conditions} == {
            "Ready": "True",
            "GPU": "True",
        }
        api.core.delete_node(name)

    def test_a_dict_is_a_strategic_patch_unless_the_client_says_otherwise(
        self, api: ApiCalls, namespace: str
    ) -> None:
        api.core.create_namespaced_pod(namespace, pod("p"))
        for kind in ("First", "Second"):
            condition = {"type": kind, "status": "True"}
            api.core.patch_namespaced_pod_status(
                "p", namespace, {"status": {"conditions": [condition]}}
            )
        found = api.core.read_namespaced_pod("p", namespace).status.conditions
        assert {each.type for each in found} >= {"First", "Second"}

    def test_apply_creates_what_is_not_there_and_changes_what_is(
        self, api: ApiCalls, namespace: str
    ) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "c"},
            "data": {"a": "1"},
        }
        for value in ("1", "2"):
            body["data"] = {"a": value}
            applied = api.core.patch_namespaced_config_map(
                "c", namespace, body, field_manager="tester", _content_type=APPLY
            )
            assert applied.data == {"a": value}

    @pytest.mark.parametrize("content_type", [MERGE, STRATEGIC, JSON_PATCH])
    def test_what_is_not_there_cannot_be_patched(
        self, api: ApiCalls, namespace: str, content_type: str
    ) -> None:
        body = [] if content_type == JSON_PATCH else {"data": {}}
        with api.refused(404, "NotFound") as refusal:
            api.core.patch_namespaced_config_map("c", namespace, body, _content_type=content_type)
        assert refusal.message == 'configmaps "c" not found'
