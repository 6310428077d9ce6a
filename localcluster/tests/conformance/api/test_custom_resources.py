"""Custom resources: schema, spec and status."""

import copy

import pytest
from kubernetes.client.exceptions import NotFoundException
from kubernetes.dynamic import DynamicClient

from tests.conformance.api.conftest import GROUP, PLURAL, VERSION, Things
from tests.conformance.api_calls import JSON_PATCH, KUBEFLOW, STRATEGIC, ApiCalls


class TestSchema:
    def test_what_the_schema_does_not_know_is_not_stored(self, things: Things) -> None:
        made = things.create(
            "t", {"replicas": 2, "unknown": 1, "nested": {"also": 2}, "steps": [{"at": 1, "by": 2}]}
        )
        assert made["spec"] == {"replicas": 2, "nested": {"kept": "yes"}, "steps": [{"at": 1}]}
        assert things.read("t") == made

    def test_unknown_fields_are_kept_where_the_schema_preserves_them(self, things: Things) -> None:
        free = {"any": {"thing": [1, "two", None]}}
        assert things.create("t", {"free": free})["spec"]["free"] == free

    def test_defaults_are_stored(self, things: Things) -> None:
        things.create("t")
        assert things.read("t")["spec"] == {"replicas": 1}

    def test_a_value_of_another_type_is_invalid(self, things: Things) -> None:
        with things.api.refused(422, "Invalid") as refusal:
            things.create("t", {"replicas": "two"})
        assert "spec.replicas: Invalid value:" in refusal.message
        assert "spec.replicas in body must be of type integer" in refusal.message

    def test_a_value_outside_of_an_enumeration_is_invalid(self, things: Things) -> None:
        with things.api.refused(422, "Invalid") as refusal:
            things.create("t", {"color": "green"})
        assert (
            'spec.color: Unsupported value: "green": supported values: "red", "blue"'
            in refusal.message
        )

    def test_a_group_that_nobody_defined_is_not_found(self, api: ApiCalls) -> None:
        with pytest.raises(NotFoundException) as caught:
            api.custom.list_cluster_custom_object("nope.test", "v1", "things")
        assert str(caught.value.body).strip() == "404 page not found"


class TestReading:
    def test_a_list_names_its_kind_and_its_items_theirs(self, things: Things) -> None:
        things.create("t")
        listed = things.api.custom.list_namespaced_custom_object(
            GROUP, VERSION, things.namespace, PLURAL
        )
        assert (listed["kind"], listed["apiVersion"]) == ("ThingList", f"{GROUP}/{VERSION}")
        assert [(each["kind"], each["metadata"]["name"]) for each in listed["items"]] == [
            ("Thing", "t")
        ]
        everywhere = things.api.custom.list_cluster_custom_object(GROUP, VERSION, PLURAL)["items"]
        assert (things.namespace, "t") in {
            (each["metadata"]["namespace"], each["metadata"]["name"]) for each in everywhere
        }

    def test_what_is_not_there_is_not_found_by_its_full_name(self, things: Things) -> None:
        with things.api.refused(404, "NotFound") as refusal:
            things.read("t")
        assert refusal.message == 'things.conformance.test "t" not found'
        assert refusal.status["details"] == {"name": "t", "group": GROUP, "kind": PLURAL}

    def test_a_second_one_of_the_name_is_refused_by_its_full_name(self, things: Things) -> None:
        things.create("t")
        with things.api.refused(409, "AlreadyExists") as refusal:
            things.create("t")
        assert refusal.message == 'things.conformance.test "t" already exists'

    def test_a_deleted_one_is_gone(self, things: Things) -> None:
        uid = things.create("t")["metadata"]["uid"]
        answer = things.delete("t")
        assert answer["status"] == "Success"
        assert answer["details"] == {"name": "t", "group": GROUP, "kind": PLURAL, "uid": uid}
        assert things.api.read_or_none(lambda: things.read("t")) is None

    def test_a_watch_sends_changes(self, things: Things) -> None:
        things.create("t")
        version = things.api.get(things.path)["metadata"]["resourceVersion"]
        with things.api.watch(things.path, resourceVersion=version) as watching:
            things.patch("t", {"spec": {"replicas": 3}})
            things.patch_status("t", {"status": {"replicas": 3}})
            things.delete("t")
            assert watching.event_names(3) == [
                ("MODIFIED", "t"),
                ("MODIFIED", "t"),
                ("DELETED", "t"),
            ]

    def test_the_dynamic_client_finds_the_kind_by_discovery(self, things: Things) -> None:
        things.create("t")
        dynamic = DynamicClient(things.api.client)  # type: ignore[no-untyped-call]  # the library has no types here
        resource = dynamic.resources.get(api_version=f"{GROUP}/{VERSION}", kind="Thing")
        assert [each.metadata.name for each in resource.get(namespace=things.namespace).items] == [
            "t"
        ]

    def test_the_training_jobs_are_served(self, api: ApiCalls, namespace: str) -> None:
        for plural, kind in (("tfjobs", "TFJobList"), ("mxjobs", "MXJobList")):
            listed = api.custom.list_namespaced_custom_object(*KUBEFLOW, namespace, plural)
            assert (listed["kind"], listed["items"]) == (kind, [])


class TestWriting:
    def test_a_merge_patch_changes_what_it_names_and_takes_null_away(self, things: Things) -> None:
        things.create("t", {"color": "red", "free": {"a": 1, "b": 2}})
        patched = things.patch("t", {"spec": {"color": None, "free": {"a": None, "c": 3}}})
        assert patched["spec"] == {"replicas": 1, "free": {"b": 2, "c": 3}}

    def test_a_json_patch_is_done_whole_or_not_at_all(self, things: Things) -> None:
        things.create("t", {"replicas": 2})
        replace = {"op": "replace", "path": "/spec/replicas", "value": 7}
        assert things.patch("t", [replace], JSON_PATCH)["spec"]["replicas"] == 7
        with things.api.refused(422, "Invalid"):
            things.patch(
                "t",
                [{"op": "remove", "path": "/spec"}, {**replace, "op": "test", "value": 9}],
                JSON_PATCH,
            )
        assert things.read("t")["spec"] == {"replicas": 7}

    def test_there_is_no_strategic_patch(self, things: Things) -> None:
        things.create("t")
        with things.api.refused(415, "UnsupportedMediaType") as refusal:
            things.patch("t", {"spec": {"replicas": 2}}, STRATEGIC)
        assert refusal.message.startswith(
            "the body of the request was in an unknown format - accepted media types"
        )

    def test_a_patch_that_names_an_old_version_is_refused(self, things: Things) -> None:
        old = things.create("t")["metadata"]["resourceVersion"]
        things.patch("t", {"spec": {"replicas": 2}})
        with things.api.refused(409, "Conflict") as refusal:
            things.patch("t", {"metadata": {"resourceVersion": old}, "spec": {"replicas": 3}})
        assert refusal.message == (
            'Operation cannot be fulfilled on things.conformance.test "t": the object has been '
            "modified; "
            "please apply your changes to the latest version and try again"
        )
        assert things.read("t")["spec"]["replicas"] == 2

    def test_a_replacement_of_an_old_version_is_refused(self, things: Things) -> None:
        made = things.create("t")
        stale = copy.deepcopy(made)
        made["spec"]["replicas"] = 2
        things.replace("t", made)
        with things.api.refused(409, "Conflict"):
            things.replace("t", stale)

    def test_a_replacement_without_a_version_is_invalid(self, things: Things) -> None:
        made = things.create("t")
        del made["metadata"]["resourceVersion"]
        with things.api.refused(422, "Invalid") as refusal:
            things.replace("t", made)
        assert "metadata.resourceVersion: Invalid value" in refusal.message
        assert "must be specified for an update" in refusal.message

    def test_only_a_change_of_the_spec_is_a_new_generation(self, things: Things) -> None:
        assert things.create("t")["metadata"]["generation"] == 1
        assert (
            things.patch("t", {"metadata": {"annotations": {"a": "1"}}})["metadata"]["generation"]
            == 1
        )
        assert things.patch_status("t", {"status": {"x": 1}})["metadata"]["generation"] == 1
        assert things.patch("t", {"spec": {"replicas": 5}})["metadata"]["generation"] == 2


class TestStatus:
    def test_a_status_that_comes_with_a_new_object_is_dropped(self, things: Things) -> None:
        assert "status" not in things.create("t", status={"x": 1})

    def test_status_is_written_without_the_spec_and_the_spec_without_the_status(
        self, things: Things
    ) -> None:
        things.create("t")
        things.patch_status("t", {"status": {"x": 1}, "spec": {"replicas": 9}})
        assert things.read("t")["spec"] == {"replicas": 1}
        things.patch("t", {"status": {"x": 2}, "spec": {"replicas": 3}})
        read = things.read("t")
        assert (read["status"], read["spec"]) == ({"x": 1}, {"replicas": 3})

    def test_the_version_of_a_status_guards_it_too(self, things: Things) -> None:
        old = things.create("t")["metadata"]["resourceVersion"]
        things.patch("t", {"spec": {"replicas": 2}})
        with things.api.refused(409, "Conflict"):
            things.patch_status("t", {"metadata": {"resourceVersion": old}, "status": {"x": 1}})
