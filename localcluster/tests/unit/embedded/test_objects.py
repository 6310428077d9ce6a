"""Objects are created, changed and deleted by the rules of a real server."""

from localcluster.embedded.apiserver.kinds import Json
from tests.cases import cases
from tests.unit.embedded.api_server import ApiServer, config_map, patched, pod, refusal


class TestMetadata:
    def test_callers_change_labels_but_no_field_of_the_server(self) -> None:
        server = ApiServer()
        before = server.create("configmaps", config_map("c"))["metadata"]
        patch = {
            "metadata": {
                "labels": {"a": "b"},
                "creationTimestamp": "2020-01-01T00:00:00Z",
                "generation": 7,
            }
        }
        after = patched(server, "configmaps", "c", patch)["metadata"]
        assert after == {
            **before,
            "labels": {"a": "b"},
            "resourceVersion": after["resourceVersion"],
        }

    @cases(
        ("plural", "name", "patch", "message"),
        {
            "an old version": (
                "configmaps",
                "c",
                {"metadata": {"resourceVersion": "1"}},
                (
                    'Operation cannot be fulfilled on configmaps "c": the object has been '
                    "modified; please apply your"
                    " changes to the latest version and try again"
                ),
            ),
            "another object of the name": (
                "configmaps",
                "c",
                {"metadata": {"uid": "other"}},
                (
                    'ConfigMap "c" is invalid: metadata.uid: Invalid value: "other": field is '
                    "immutable"
                ),
            ),
            "an object that is not there": ("pods", "none", {}, 'pods "none" not found'),
        },
    )
    def test_refused_changes(self, plural: str, name: str, patch: Json, message: str) -> None:
        server = ApiServer()
        server.create("configmaps", config_map("c"))
        server.create("widgets", {"metadata": {"name": "w"}, "spec": {"size": 1}})
        assert str(refusal(lambda: patched(server, plural, name, patch))) == message


class TestGenerations:
    def test_a_custom_resource_counts_changes_of_its_spec_alone(self) -> None:
        server = ApiServer()
        server.create("widgets", {"metadata": {"name": "w"}, "spec": {"size": 1}})
        steps: list[tuple[Json, str, int]] = [
            ({"metadata": {"annotations": {"a": "b"}}}, "", 1),
            ({"status": {"size": 1}}, "status", 1),
            ({"spec": {"size": 2}}, "", 2),
            ({"spec": {"unknown": 2}}, "", 2),
        ]
        for patch, subresource, generation in steps:
            assert (
                patched(server, "widgets", "w", patch, subresource)["metadata"]["generation"]
                == generation
            )

    def test_a_pod_counts_its_deletion_but_not_its_binding(self) -> None:
        server = ApiServer()
        assert server.create("pods", pod())["metadata"]["generation"] == 1
        assert (
            patched(server, "pods", "p", {"status": {"phase": "Running"}}, "status")["metadata"][
                "generation"
            ]
            == 1
        )
        server.objects.bind(server.target("pods", "p"), {"target": {"name": "n"}})
        assert (server.get("pods", "p") or {})["metadata"]["generation"] == 1
        server.objects.delete(server.target("pods", "p"))
        assert (server.get("pods", "p") or {})["metadata"]["generation"] == 2


class TestSubresources:
    def test_binding_sets_node_and_condition_and_ends_the_nomination(self) -> None:
        server = ApiServer()
        server.create("pods", pod())
        patched(server, "pods", "p", {"status": {"nominatedNodeName": "n"}}, "status")
        server.objects.bind(server.target("pods", "p"), {"target": {"kind": "Node", "name": "n"}})
        bound = server.get("pods", "p") or {}
        assert bound["spec"]["nodeName"] == "n"
        assert "nominatedNodeName" not in bound["status"]
        assert [(each["type"], each["status"]) for each in bound["status"]["conditions"]] == [
            ("PodScheduled", "True")
        ]
        nominate = {"status": {"nominatedNodeName": "m"}}
        assert "already bound to a node" in str(
            refusal(lambda: patched(server, "pods", "p", nominate, "status"))
        )


def test_a_default_that_is_patched_away_comes_back() -> None:
    server = ApiServer()
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    spec = {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    server.create("deployments", {"metadata": {"name": "d"}, "spec": spec})
    assert (
        patched(server, "deployments", "d", {"spec": {"replicas": None}})["spec"]["replicas"] == 1
    )
