"""Watches lose no event, and end so that a client can continue."""

import json
from typing import Any

import pytest
from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException

from tests.conformance.api.conftest import GROUP, PLURAL, VERSION, Things, maps, version_of
from tests.conformance.api_calls import ApiCalls, config_map, pod


class TestWatches:
    def test_without_a_version_what_is_there_comes_first(
        self, api: ApiCalls, namespace: str
    ) -> None:
        for name in ("a", "b"):
            api.core.create_namespaced_config_map(namespace, config_map(name, {"own": "1"}))
        with api.watch(maps(namespace), labelSelector="own=1") as watching:
            assert sorted(watching.event_names(2)) == [("ADDED", "a"), ("ADDED", "b")]
            api.core.patch_namespaced_config_map("a", namespace, {"data": {"x": "1"}})
            assert watching.event_names(3)[2:] == [("MODIFIED", "a")]

    def test_the_official_client_follows_typed_objects(self, api: ApiCalls, namespace: str) -> None:
        api.core.create_namespaced_pod(namespace, pod("p"))
        following: Any = watch.Watch
        stream = following().stream(
            api.core.list_namespaced_pod, namespace=namespace, timeout_seconds=180
        )
        event = next(iter(stream))
        assert event["type"] == "ADDED"
        assert isinstance(event["object"], client.V1Pod)

    def test_from_a_lists_version_only_what_came_later_arrives_in_order(
        self, api: ApiCalls, namespace: str
    ) -> None:
        api.core.create_namespaced_config_map(namespace, config_map("before"))
        version = version_of(api, maps(namespace))
        with api.watch(maps(namespace), resourceVersion=version) as watching:
            api.core.create_namespaced_config_map(namespace, config_map("w"))
            api.core.patch_namespaced_config_map("w", namespace, {"data": {"a": "b"}})
            api.core.delete_namespaced_config_map("w", namespace)
            assert watching.event_names(3) == [("ADDED", "w"), ("MODIFIED", "w"), ("DELETED", "w")]
            versions = [
                int(event["object"]["metadata"]["resourceVersion"]) for event in watching.events(3)
            ]
        assert versions == sorted(set(versions))

    def test_what_happened_between_list_and_watch_is_delivered(
        self, api: ApiCalls, namespace: str
    ) -> None:
        version = version_of(api, maps(namespace))
        api.core.create_namespaced_config_map(namespace, config_map("w", a="1"))
        api.core.delete_namespaced_config_map("w", namespace)
        with api.watch(maps(namespace), resourceVersion=version) as watching:
            assert watching.event_names(2) == [("ADDED", "w"), ("DELETED", "w")]
            assert watching.events(2)[1]["object"]["data"] == {"a": "1"}

    def test_the_server_ends_a_watch_at_its_time(self, api: ApiCalls, namespace: str) -> None:
        with api.watch(
            maps(namespace), seconds=1, resourceVersion=version_of(api, maps(namespace))
        ) as watching:
            assert watching.wait_ended() == []

    def test_leaving_a_label_selector_is_a_deletion_and_entering_it_an_addition(
        self, api: ApiCalls, namespace: str
    ) -> None:
        api.core.create_namespaced_config_map(namespace, config_map("c", {"k": "1"}))
        version = version_of(api, maps(namespace))
        with api.watch(maps(namespace), resourceVersion=version, labelSelector="k=1") as watching:
            api.core.create_namespaced_config_map(namespace, config_map("other", {"k": "2"}))
            for value in ("2", "1"):
                api.core.patch_namespaced_config_map(
                    "c", namespace, {"metadata": {"labels": {"k": value}}}
                )
            assert watching.event_names(2) == [("DELETED", "c"), ("ADDED", "c")]

    def test_a_pod_comes_into_its_nodes_watch_when_it_is_bound(
        self, api: ApiCalls, namespace: str
    ) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods"
        version = version_of(api, path)
        with api.watch(
            path, resourceVersion=version, fieldSelector=f"spec.nodeName={namespace}"
        ) as watching:
            api.core.create_namespaced_pod(namespace, pod("p"))
            api.bind("p", namespace, namespace)
            assert watching.event_names(1) == [("ADDED", "p")]
            api.core.delete_namespaced_pod("p", namespace, grace_period_seconds=0)
            assert watching.event_names(3) == [("ADDED", "p"), ("MODIFIED", "p"), ("DELETED", "p")]

    def test_a_last_bookmark_comes_before_the_watch_ends(
        self, api: ApiCalls, namespace: str
    ) -> None:
        """A client that watches from there need not list again, however long nothing changed."""
        version = version_of(api, maps(namespace))
        query = {
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "labelSelector": "own=1",
        }
        with api.watch(maps(namespace), seconds=10, **query) as watching:
            api.core.create_namespaced_config_map(namespace, config_map("other"))
            events = watching.wait_ended()
        assert {event["type"] for event in events} == {"BOOKMARK"}
        assert int(events[-1]["object"]["metadata"]["resourceVersion"]) > int(version)

    @pytest.mark.parametrize("written", ["true", "True", "1", "", "yes"])
    def test_any_other_watch_parameter_is_a_watch(
        self, api: ApiCalls, namespace: str, written: str
    ) -> None:
        api.core.create_namespaced_config_map(namespace, config_map("c", {"own": "1"}))
        query = {"watch": written, "timeoutSeconds": "180", "labelSelector": "own=1"}
        with api.stream(maps(namespace), **query) as response:
            event = json.loads(next(response.stream()))
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "c")

    @pytest.mark.parametrize("written", ["false", "False", "0"])
    def test_a_false_watch_parameter_is_a_list(
        self, api: ApiCalls, namespace: str, written: str
    ) -> None:
        assert (
            api.get(maps(namespace), watch=written, timeoutSeconds="1")["kind"] == "ConfigMapList"
        )

    def test_without_being_asked_for_no_bookmark_comes(self, api: ApiCalls, namespace: str) -> None:
        with api.watch(
            maps(namespace), seconds=2, resourceVersion=version_of(api, maps(namespace))
        ) as watching:
            assert watching.wait_ended() == []

    def test_a_version_of_the_future_is_too_large(self, api: ApiCalls, namespace: str) -> None:
        future = str(int(version_of(api, maps(namespace))) + 1_000_000)
        with api.refused(504, "Timeout") as refusal:
            api.get(maps(namespace), resourceVersion=future, limit="500")
        assert refusal.message.startswith(
            f"Timeout: Too large resource version: {future}, current: "
        )
        api.core.create_namespaced_config_map(namespace, config_map("c"))
        with api.refused(504, "Timeout"):
            api.get(f"{maps(namespace)}/c", resourceVersion=future)


class TestExpiredVersions:
    """Versions from before the server began to watch a kind: their events are lost."""

    def test_a_watch_is_answered_and_then_ends_as_its_version_has_expired(
        self, api: ApiCalls, things: Things
    ) -> None:
        with api.watch(things.path, seconds=5, resourceVersion="1") as watching:
            (event,) = watching.wait_ended()
        assert event["type"] == "ERROR"
        status = event["object"]
        assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
        assert status["message"].startswith("too old resource version: 1 (")

    def test_the_official_clients_watch_raises_it(self, api: ApiCalls, things: Things) -> None:
        following: Any = watch.Watch
        stream = following().stream(
            api.custom.list_namespaced_custom_object,
            *(GROUP, VERSION, things.namespace, PLURAL),
            resource_version="1",
            timeout_seconds=5,
        )
        with pytest.raises(ApiException) as caught:
            list(stream)
        assert caught.value.status == 410
