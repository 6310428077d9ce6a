"""Deletion: grace periods, finalizers, preconditions, owners."""

from typing import Any

import pytest

from tests.conformance.api_calls import ApiCalls, config_map, pod


class TestPods:
    def test_a_bound_pod_is_removed_when_its_kubelet_confirms(
        self, api: ApiCalls, namespace: str
    ) -> None:
        api.core.create_namespaced_pod(namespace, pod("p", terminationGracePeriodSeconds=7))
        api.bind("p", namespace, namespace)
        path = f"/api/v1/namespaces/{namespace}/pods"
        with api.watch(
            path, resourceVersion=api.get(path)["metadata"]["resourceVersion"]
        ) as watching:
            api.core.delete_namespaced_pod("p", namespace)
            leaving = api.core.read_namespaced_pod("p", namespace)
            assert leaving.metadata.deletion_timestamp is not None
            assert leaving.metadata.deletion_grace_period_seconds == 7
            assert watching.event_names(1) == [("MODIFIED", "p")]
            api.core.delete_namespaced_pod("p", namespace, grace_period_seconds=0)
            assert watching.event_names(3) == [
                ("MODIFIED", "p"),
                ("MODIFIED", "p"),
                ("DELETED", "p"),
            ]
        assert api.read_or_none(lambda: api.core.read_namespaced_pod("p", namespace)) is None

    def test_a_deletion_without_grace_sends_two_events_too(
        self, api: ApiCalls, namespace: str
    ) -> None:
        api.core.create_namespaced_pod(namespace, pod("p"))
        api.bind("p", namespace, namespace)
        path = f"/api/v1/namespaces/{namespace}/pods"
        with api.watch(
            path, resourceVersion=api.get(path)["metadata"]["resourceVersion"]
        ) as watching:
            api.core.delete_namespaced_pod("p", namespace, grace_period_seconds=0)
            assert watching.event_names(2) == [("MODIFIED", "p"), ("DELETED", "p")]
            marked = watching.events(2)[0]["object"]["metadata"]
        assert (marked["deletionGracePeriodSeconds"], "deletionTimestamp" in marked) == (0, True)

    def test_a_pod_without_a_node_goes_at_once(self, api: ApiCalls, namespace: str) -> None:
        api.core.create_namespaced_pod(namespace, pod("p"))
        api.core.delete_namespaced_pod("p", namespace)
        assert api.read_or_none(lambda: api.core.read_namespaced_pod("p", namespace)) is None

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_a_pod_that_has_ended_goes_at_once(
        self, api: ApiCalls, namespace: str, phase: str
    ) -> None:
        api.core.create_namespaced_pod(namespace, pod("p"))
        api.bind("p", namespace, namespace)
        api.core.patch_namespaced_pod_status("p", namespace, {"status": {"phase": phase}})
        api.core.delete_namespaced_pod("p", namespace)
        assert api.read_or_none(lambda: api.core.read_namespaced_pod("p", namespace)) is None

    def test_a_second_deletion_does_not_lengthen_the_grace(
        self, api: ApiCalls, namespace: str
    ) -> None:
        api.core.create_namespaced_pod(namespace, pod("p"))
        api.bind("p", namespace, namespace)
        api.core.delete_namespaced_pod("p", namespace, grace_period_seconds=5)
        api.core.delete_namespaced_pod("p", namespace, grace_period_seconds=60)
        assert (
            api.core.read_namespaced_pod("p", namespace).metadata.deletion_grace_period_seconds == 5
        )

    def test_a_collection_is_deleted_by_label(self, api: ApiCalls, namespace: str) -> None:
        for name, value in (("a", "1"), ("b", "1"), ("c", "2")):
            api.core.create_namespaced_pod(namespace, pod(name, {"group": value}))
        api.core.delete_collection_namespaced_pod(
            namespace, label_selector="group=1", grace_period_seconds=0
        )
        left = [each.metadata.name for each in api.core.list_namespaced_pod(namespace).items]
        assert left == ["c"]


class TestObjects:
    def test_what_is_deleted_is_not_found_and_its_name_is_free(
        self, api: ApiCalls, namespace: str
    ) -> None:
        first = api.core.create_namespaced_config_map(namespace, config_map("c"))
        api.core.delete_namespaced_config_map("c", namespace)
        with api.refused(404, "NotFound"):
            api.core.delete_namespaced_config_map("c", namespace)
        second = api.core.create_namespaced_config_map(namespace, config_map("c"))
        assert second.metadata.uid != first.metadata.uid

    def test_some_kinds_are_answered_with_the_object_and_others_with_a_status(
        self, api: ApiCalls, namespace: str
    ) -> None:
        api.core.create_namespaced_pod(namespace, pod("p"))
        api.core.create_namespaced_service(
            namespace, {"metadata": {"name": "s"}, "spec": {"clusterIP": "None"}}
        )
        made = api.core.create_namespaced_config_map(namespace, config_map("c"))
        path = f"/api/v1/namespaces/{namespace}"
        for plural, name, kind in (("pods", "p", "Pod"), ("services", "s", "Service")):
            answer = api.request("DELETE", f"{path}/{plural}/{name}")
            assert (answer["kind"], answer["metadata"]["name"]) == (kind, name)
        answer = api.request("DELETE", f"{path}/configmaps/c")
        assert (answer["kind"], answer["status"]) == ("Status", "Success")
        assert answer["details"] == {"name": "c", "kind": "configmaps", "uid": made.metadata.uid}

    def test_the_deletion_of_another_object_of_the_name_is_refused(
        self, api: ApiCalls, namespace: str
    ) -> None:
        made = api.core.create_namespaced_config_map(namespace, config_map("c"))
        other = "00000000-0000-0000-0000-000000000000"
        with api.refused(409, "Conflict") as refusal:
            api.core.delete_namespaced_config_map(
                "c", namespace, body={"preconditions": {"uid": other}}
            )
        assert refusal.message == (
            'Operation cannot be fulfilled on ConfigMap "c": the UID in the precondition '
            f"({other}) does not match "
            f"the UID in record ({made.metadata.uid}). The object might have been deleted and "
            "then recreated"
        )
        api.core.delete_namespaced_config_map(
            "c", namespace, body={"preconditions": {"uid": made.metadata.uid}}
        )

    def test_a_finalizer_holds_the_object_until_it_is_taken_away(
        self, api: ApiCalls, namespace: str
    ) -> None:
        body = config_map("c")
        body["metadata"]["finalizers"] = ["test/hold"]
        api.core.create_namespaced_config_map(namespace, body)
        api.core.delete_namespaced_config_map("c", namespace)
        assert (
            api.core.read_namespaced_config_map("c", namespace).metadata.deletion_timestamp
            is not None
        )
        api.core.patch_namespaced_config_map("c", namespace, {"metadata": {"finalizers": None}})
        assert api.read_or_none(lambda: api.core.read_namespaced_config_map("c", namespace)) is None


class TestOwners:
    def owned(self, name: str, owner: Any) -> dict[str, object]:
        body = config_map(name)
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner.metadata.name,
            "uid": owner.metadata.uid,
        }
        body["metadata"]["ownerReferences"] = [reference]
        return body

    def test_what_is_owned_goes_with_its_owner(self, api: ApiCalls, namespace: str) -> None:
        owner = api.core.create_namespaced_config_map(namespace, config_map("owner"))
        api.core.create_namespaced_config_map(namespace, self.owned("owned", owner))
        api.core.delete_namespaced_config_map("owner", namespace)
        api.wait_until(
            lambda: (
                api.read_or_none(lambda: api.core.read_namespaced_config_map("owned", namespace))
                is None
            ),
            "the owned object is gone",
        )

    def test_what_is_made_for_an_owner_that_never_was_goes(
        self, api: ApiCalls, namespace: str
    ) -> None:
        owner = api.core.create_namespaced_config_map(namespace, config_map("owner"))
        body = self.owned("owned", owner)
        body["metadata"]["ownerReferences"][0]["uid"] = "00000000-0000-0000-0000-000000000000"  # type: ignore[index]  # JSON
        api.core.create_namespaced_config_map(namespace, body)
        api.wait_until(
            lambda: (
                api.read_or_none(lambda: api.core.read_namespaced_config_map("owned", namespace))
                is None
            ),
            "the object without an owner is gone",
        )
        assert (
            api.core.read_namespaced_config_map("owner", namespace).metadata.uid
            == owner.metadata.uid
        )

    def test_what_names_an_owner_in_another_namespace_goes(
        self, api: ApiCalls, namespace: str
    ) -> None:
        """An owner that is elsewhere is none: whoever writes such a reference loses the object."""
        owner = api.core.create_namespaced_config_map(namespace, config_map("owner"))
        name = f"owned-{namespace}"
        api.core.create_namespaced_config_map("default", self.owned(name, owner))
        api.wait_until(
            lambda: (
                api.read_or_none(lambda: api.core.read_namespaced_config_map(name, "default"))
                is None
            ),
            "the object with an owner elsewhere is gone",
        )

    def test_what_has_two_owners_goes_with_the_last_of_them(
        self, api: ApiCalls, namespace: str
    ) -> None:
        first, second = (
            api.core.create_namespaced_config_map(namespace, config_map(name))
            for name in ("a", "b")
        )
        body = self.owned("owned", first)
        others = self.owned("owned", second)["metadata"]["ownerReferences"]  # type: ignore[index]  # JSON
        body["metadata"]["ownerReferences"] += others  # type: ignore[index]  # JSON
        api.core.create_namespaced_config_map(namespace, body)
        api.core.delete_namespaced_config_map("a", namespace)

        def owners() -> set[str]:
            found = api.core.read_namespaced_config_map(
                "owned", namespace
            ).metadata.owner_references
            return {each.name for each in found}

        api.wait_until(lambda: owners() == {"b"}, "it forgets the owner that is gone")
        api.core.delete_namespaced_config_map("b", namespace)
        api.wait_until(
            lambda: (
                api.read_or_none(lambda: api.core.read_namespaced_config_map("owned", namespace))
                is None
            ),
            "it goes with the last one",
        )

    def test_a_namespace_goes_with_all_that_is_in_it(self, api: ApiCalls) -> None:
        api.core.create_namespace({"metadata": {"name": "going"}})
        api.core.create_namespaced_config_map("going", config_map("c"))
        api.core.delete_namespace("going")
        api.wait_until(
            lambda: api.read_or_none(lambda: api.core.read_namespace("going")) is None,
            "the namespace is gone",
        )
        assert api.read_or_none(lambda: api.core.read_namespaced_config_map("c", "going")) is None
