"""Lists: selectors and versions."""

import pytest

from tests.conformance.api.conftest import maps
from tests.conformance.api_calls import ApiCalls, Json, config_map, pod


class TestSelectors:
    @pytest.mark.parametrize(
        ("selector", "expected"),
        [
            pytest.param("zone=b", ["two"], id="equal"),
            pytest.param("zone==b", ["two"], id="equal, written twice"),
            pytest.param(
                "zone!=b", ["one", "three"], id="not equal, those without the label included"
            ),
            pytest.param("zone in (b,c)", ["three", "two"], id="one of several"),
            pytest.param(
                "own,zone notin (b)",
                ["one", "three"],
                id="none of several, those without the label included",
            ),
            pytest.param("zone", ["three", "two"], id="there"),
            pytest.param("!zone,own", ["one"], id="not there"),
            pytest.param("zone=b,gpu=yes", ["two"], id="two that must hold together"),
            pytest.param("zone=b,gpu=no", [], id="two that do not hold together"),
        ],
    )
    def test_labels_select(
        self, api: ApiCalls, namespace: str, selector: str, expected: list[str]
    ) -> None:
        labels = {"one": {}, "two": {"zone": "b", "gpu": "yes"}, "three": {"zone": "c"}}
        for name, given in labels.items():
            api.core.create_namespaced_config_map(
                namespace, config_map(name, {"own": "1", **given})
            )
        found = api.core.list_namespaced_config_map(namespace, label_selector=selector).items
        assert (
            sorted(each.metadata.name for each in found if each.metadata.name in labels) == expected
        )

    def test_pods_are_found_by_node_phase_and_name(self, api: ApiCalls, namespace: str) -> None:
        for name in ("waits", "bound", "runs"):
            api.core.create_namespaced_pod(namespace, pod(name))
        for name in ("bound", "runs"):
            api.bind(name, namespace, namespace)
        api.core.patch_namespaced_pod_status("runs", namespace, {"status": {"phase": "Running"}})

        def found(selector: str) -> set[str]:
            return {
                each.metadata.name
                for each in api.core.list_namespaced_pod(namespace, field_selector=selector).items
            }

        assert found(f"spec.nodeName={namespace}") == {"bound", "runs"}
        assert found("spec.nodeName=") == {"waits"}
        assert found("spec.nodeName!=") == {"bound", "runs"}
        assert found("status.phase=Running") == {"runs"}
        assert found(f"status.phase!=Running,spec.nodeName={namespace}") == {"bound"}
        assert found("metadata.name=waits") == {"waits"}

    def test_events_are_found_by_what_they_are_about(self, api: ApiCalls, namespace: str) -> None:
        event = {
            "metadata": {"generateName": "e-"},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": namespace},
            "reason": "Tested",
            "message": "as it should be",
            "type": "Normal",
            "count": 1,
            "firstTimestamp": "2026-01-01T00:00:00Z",
            "lastTimestamp": "2026-01-01T00:00:00Z",
            "source": {"component": "tester"},
        }
        api.core.create_namespaced_event(namespace, event)
        (found,) = api.core.list_namespaced_event(
            namespace, field_selector="involvedObject.name=p"
        ).items
        assert (found.reason, found.message, found.count) == ("Tested", "as it should be", 1)
        assert (
            api.core.list_namespaced_event(namespace, field_selector="involvedObject.name=q").items
            == []
        )

    def test_a_field_that_is_no_selector_is_refused(self, api: ApiCalls, namespace: str) -> None:
        with api.refused(400, "BadRequest") as refusal:
            api.core.list_namespaced_pod(namespace, field_selector="spec.color=red")
        assert "field label not supported: spec.color" in refusal.message


class TestPages:
    def test_a_list_of_any_version_comes_whole(self, api: ApiCalls, namespace: str) -> None:
        for name in ("a", "b"):
            api.core.create_namespaced_config_map(namespace, config_map(name, {"own": "1"}))

        def listed() -> Json:
            return api.get(maps(namespace), labelSelector="own=1", limit="1", resourceVersion="0")

        # The real server answers this one from a copy, which may be a moment behind.
        api.wait_until(lambda: len(listed()["items"]) == 2, "both are listed")
        assert not listed()["metadata"].get("continue")
