"""Objects are created, changed and deleted by the rules of a real server."""

import pytest

from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.wire import DeleteOptions, Preconditions
from tests.unit.embedded.api_server import ApiServer, config_map, patched, pod, refusal


class TestMetadata:
    def test_a_new_object_gets_what_only_the_server_gives(self) -> None:
        made = ApiServer().create(
            "configmaps", config_map("c", uid="mine", labels={"a": "b"}, generation=9)
        )
        metadata = made["metadata"]
        assert (metadata["name"], metadata["namespace"], metadata["labels"]) == (
            "c",
            "ns",
            {"a": "b"},
        )
        assert metadata["creationTimestamp"] == "2026-01-01T00:00:00Z"
        assert metadata["uid"] != "mine"
        assert "generation" not in metadata
        assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")

    def test_a_name_is_made_up_where_only_its_beginning_is_given(self) -> None:
        server = ApiServer()
        names = {
            server.create("configmaps", {"metadata": {"generateName": "c-"}})["metadata"]["name"]
            for _ in range(9)
        }
        assert len(names) == 9
        assert all(name.startswith("c-") and len(name) == 7 for name in names)

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

    def test_a_change_that_changes_nothing_keeps_the_version(self) -> None:
        server = ApiServer()
        before = server.create("configmaps", config_map("c", labels={"a": "b"}))
        changes = len(server.log)
        assert patched(server, "configmaps", "c", {"metadata": {"labels": {"a": "b"}}}) == before
        assert len(server.log) == changes

    @pytest.mark.parametrize(
        ("plural", "name", "patch", "message"),
        [
            pytest.param(
                "configmaps",
                "c",
                {"metadata": {"resourceVersion": "1"}},
                'Operation cannot be fulfilled on configmaps "c": the object has been modified; '
                "please apply your"
                " changes to the latest version and try again",
                id="an old version",
            ),
            pytest.param(
                "configmaps",
                "c",
                {"metadata": {"uid": "other"}},
                (
                    'ConfigMap "c" is invalid: metadata.uid: Invalid value: "other": field is '
                    "immutable"
                ),
                id="another object of the name",
            ),
            pytest.param(
                "pods", "none", {}, 'pods "none" not found', id="an object that is not there"
            ),
        ],
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
    def test_status_and_the_rest_are_apart(self) -> None:
        server = ApiServer()
        server.create(
            "widgets", {"metadata": {"name": "w"}, "spec": {"size": 1}, "status": {"size": 5}}
        )
        assert "status" not in (server.get("widgets", "w") or {})
        patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"size": 3}, "status": {"size": 2}}
        found = patched(server, "widgets", "w", patch, "status")
        assert (found["spec"]["size"], found["status"], "labels" in found["metadata"]) == (
            1,
            {"size": 2},
            False,
        )
        patched(server, "widgets", "w", {"status": {"size": 9}})
        assert (server.get("widgets", "w") or {})["status"] == {"size": 2}

    def test_labels_of_a_pod_may_change_with_its_status(self) -> None:
        server = ApiServer()
        server.create("pods", pod())
        patch = {
            "metadata": {"annotations": {"a": "b"}},
            "status": {"nominatedNodeName": "n"},
            "spec": {"x": 1},
        }
        found = patched(server, "pods", "p", patch, "status")
        assert found["metadata"]["annotations"] == {"a": "b"}
        assert found["status"]["nominatedNodeName"] == "n"
        assert "x" not in found["spec"]

    @pytest.mark.parametrize(
        ("binding", "code", "message"),
        [
            pytest.param(
                {"target": {"name": ""}}, 500, "target.name: Required value", id="no node"
            ),
            pytest.param(
                {"target": {"name": "n2"}},
                409,
                (
                    'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned '
                    "to "
                    'node "n"'
                ),
                id="bound before",
            ),
        ],
    )
    def test_bindings_that_are_refused(self, binding: Json, code: int, message: str) -> None:
        server = ApiServer()
        server.create("pods", pod())
        server.objects.bind(server.target("pods", "p"), {"target": {"name": "n"}})
        refused = refusal(lambda: server.objects.bind(server.target("pods", "p"), binding))
        assert (refused.code, str(refused)) == (code, message)

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


class TestDeletion:
    def test_a_bound_pod_gets_its_grace_period_and_goes_when_its_node_deletes_it(self) -> None:
        server = ApiServer()
        server.create("pods", pod(terminationGracePeriodSeconds=20))
        server.objects.bind(server.target("pods", "p"), {"target": {"name": "n"}})
        server.objects.delete(server.target("pods", "p"))
        marked = (server.get("pods", "p") or {})["metadata"]
        assert (marked["deletionTimestamp"], marked["deletionGracePeriodSeconds"]) == (
            "2026-01-01T00:00:20Z",
            20,
        )
        server.clock.pass_seconds(5)
        server.objects.delete(server.target("pods", "p"))
        assert (server.get("pods", "p") or {})["metadata"] == marked
        server.objects.delete(
            server.target("pods", "p"),
            DeleteOptions(grace_period_seconds=0, preconditions=Preconditions(uid=marked["uid"])),
        )
        assert server.get("pods", "p") is None

    @pytest.mark.parametrize("phase", [None, "Succeeded", "Failed"])
    def test_a_pod_of_which_nothing_runs_goes_at_once(self, phase: str | None) -> None:
        server = ApiServer()
        server.create("pods", pod())
        if phase:
            server.objects.bind(server.target("pods", "p"), {"target": {"name": "n"}})
            patched(server, "pods", "p", {"status": {"phase": phase}}, "status")
        server.objects.delete(server.target("pods", "p"))
        assert server.get("pods", "p") is None

    def test_finalizers_hold_an_object_until_the_last_is_taken(self) -> None:
        server = ApiServer()
        server.create("configmaps", config_map("c", finalizers=["a.io/x", "a.io/y"]))
        server.objects.delete(server.target("configmaps", "c"))
        patched(server, "configmaps", "c", {"metadata": {"finalizers": ["a.io/y"]}})
        assert server.get("configmaps", "c") is not None
        more = {"metadata": {"finalizers": ["a.io/y", "a.io/z"]}}
        assert "no new finalizers can be added" in str(
            refusal(lambda: patched(server, "configmaps", "c", more))
        )
        patched(server, "configmaps", "c", {"metadata": {"finalizers": None}})
        assert server.get("configmaps", "c") is None


def test_a_default_that_is_patched_away_comes_back() -> None:
    server = ApiServer()
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    spec = {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    server.create("deployments", {"metadata": {"name": "d"}, "spec": spec})
    assert (
        patched(server, "deployments", "d", {"spec": {"replicas": None}})["spec"]["replicas"] == 1
    )
