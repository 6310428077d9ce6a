"""Objects are made, changed and deleted by the same rules as on a real server."""

from collections.abc import Callable

import pytest

from localcluster.embedded.apiserver.deletion import Options
from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.objects import Target
from localcluster.embedded.apiserver.patches import merge_patch
from localcluster.embedded.apiserver.refusals import Refusal
from tests.unit.localcluster_embedded.world import World, config_map, pod


def patched(world: World, plural: str, name: str, patch: Json, subresource: str = "") -> Json:
    target = world.target(plural, name, subresource)
    return world.objects.change(target, lambda old: merge_patch(old, patch)).body


def refusal(work: Callable[[], object]) -> Refusal:
    with pytest.raises(Refusal) as refused:
        work()
    return refused.value


class TestMetadata:
    def test_a_new_object_gets_what_only_the_server_gives(self) -> None:
        made = World().create("configmaps", config_map("c", uid="mine", labels={"a": "b"}, generation=9))
        metadata = made["metadata"]
        assert (metadata["name"], metadata["namespace"], metadata["labels"]) == ("c", "ns", {"a": "b"})
        assert metadata["creationTimestamp"] == "2026-01-01T00:00:00Z"
        assert metadata["uid"] != "mine"
        assert "generation" not in metadata
        assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")

    def test_a_name_is_made_up_where_only_its_beginning_is_given(self) -> None:
        world = World()
        names = {world.create("configmaps", {"metadata": {"generateName": "c-"}})["metadata"]["name"] for _ in range(9)}
        assert len(names) == 9
        assert all(name.startswith("c-") and len(name) == 7 for name in names)

    def test_callers_change_labels_and_nothing_that_is_the_servers(self) -> None:
        world = World()
        before = world.create("configmaps", config_map("c"))["metadata"]
        patch = {"metadata": {"labels": {"a": "b"}, "creationTimestamp": "2020-01-01T00:00:00Z", "generation": 7}}
        after = patched(world, "configmaps", "c", patch)["metadata"]
        assert after == {**before, "labels": {"a": "b"}, "resourceVersion": after["resourceVersion"]}

    def test_a_change_that_changes_nothing_keeps_the_version(self) -> None:
        world = World()
        before = world.create("configmaps", config_map("c", labels={"a": "b"}))
        heard = len(world.log)
        assert patched(world, "configmaps", "c", {"metadata": {"labels": {"a": "b"}}}) == before
        assert len(world.log) == heard

    @pytest.mark.parametrize(
        ("plural", "name", "patch", "message"),
        [
            pytest.param(
                "configmaps",
                "c",
                {"metadata": {"resourceVersion": "1"}},
                'Operation cannot be fulfilled on configmaps "c": the object has been modified; please apply your'
                " changes to the latest version and try again",
                id="an old version",
            ),
            pytest.param(
                "configmaps",
                "c",
                {"metadata": {"uid": "other"}},
                'ConfigMap "c" is invalid: metadata.uid: Invalid value: "other": field is immutable',
                id="another object of the name",
            ),
            pytest.param(
                "configmaps",
                "c",
                {"metadata": {"finalizers": ["a"]}},
                'ConfigMap "c" is invalid: metadata.finalizers[0]: Invalid value: "a": name is neither a standard'
                " finalizer name nor is it fully qualified",
                id="a finalizer without a domain",
            ),
            pytest.param("pods", "none", {}, 'pods "none" not found', id="an object that is not there"),
            pytest.param(
                "widgets",
                "w",
                {"spec": {"size": 0}},
                'Widget.test.io "w" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than'
                " or equal to 1",
                id="a custom resource against its schema",
            ),
        ],
    )
    def test_refused_changes(self, plural: str, name: str, patch: Json, message: str) -> None:
        world = World()
        world.create("configmaps", config_map("c"))
        world.create("widgets", {"metadata": {"name": "w"}, "spec": {"size": 1}})
        assert str(refusal(lambda: patched(world, plural, name, patch))) == message


class TestGenerations:
    def test_a_custom_resource_counts_changes_of_its_spec_alone(self) -> None:
        world = World()
        world.create("widgets", {"metadata": {"name": "w"}, "spec": {"size": 1}})
        steps: list[tuple[Json, str, int]] = [
            ({"metadata": {"annotations": {"a": "b"}}}, "", 1),
            ({"status": {"size": 1}}, "status", 1),
            ({"spec": {"size": 2}}, "", 2),
            ({"spec": {"unknown": 2}}, "", 2),
        ]
        for patch, subresource, generation in steps:
            assert patched(world, "widgets", "w", patch, subresource)["metadata"]["generation"] == generation

    def test_a_pod_counts_its_deletion_but_not_its_binding(self) -> None:
        world = World()
        assert world.create("pods", pod())["metadata"]["generation"] == 1
        assert patched(world, "pods", "p", {"status": {"phase": "Running"}}, "status")["metadata"]["generation"] == 1
        world.objects.bind(world.target("pods", "p"), {"target": {"name": "n"}})
        assert (world.get("pods", "p") or {})["metadata"]["generation"] == 1
        world.objects.delete(world.target("pods", "p"))
        assert (world.get("pods", "p") or {})["metadata"]["generation"] == 2


class TestSubresources:
    def test_status_and_the_rest_are_apart(self) -> None:
        world = World()
        world.create("widgets", {"metadata": {"name": "w"}, "spec": {"size": 1}, "status": {"size": 5}})
        assert "status" not in (world.get("widgets", "w") or {})
        patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"size": 3}, "status": {"size": 2}}
        told = patched(world, "widgets", "w", patch, "status")
        assert (told["spec"]["size"], told["status"], "labels" in told["metadata"]) == (1, {"size": 2}, False)
        patched(world, "widgets", "w", {"status": {"size": 9}})
        assert (world.get("widgets", "w") or {})["status"] == {"size": 2}

    def test_labels_of_a_pod_may_change_with_its_status(self) -> None:
        world = World()
        world.create("pods", pod())
        patch = {"metadata": {"annotations": {"a": "b"}}, "status": {"nominatedNodeName": "n"}, "spec": {"x": 1}}
        told = patched(world, "pods", "p", patch, "status")
        assert told["metadata"]["annotations"] == {"a": "b"}
        assert told["status"]["nominatedNodeName"] == "n"
        assert "x" not in told["spec"]

    @pytest.mark.parametrize(
        ("binding", "code", "message"),
        [
            pytest.param({"target": {"name": ""}}, 500, "target.name: Required value", id="no node"),
            pytest.param(
                {"target": {"kind": "Pod", "name": "x"}},
                500,
                'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"',
                id="no node's kind",
            ),
            pytest.param(
                {"target": {"name": "n2"}},
                409,
                'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n"',
                id="bound before",
            ),
        ],
    )
    def test_bindings_that_are_refused(self, binding: Json, code: int, message: str) -> None:
        world = World()
        world.create("pods", pod())
        world.objects.bind(world.target("pods", "p"), {"target": {"name": "n"}})
        refused = refusal(lambda: world.objects.bind(world.target("pods", "p"), binding))
        assert (refused.code, str(refused)) == (code, message)

    def test_binding_sets_the_node_says_so_and_ends_the_nomination(self) -> None:
        world = World()
        world.create("pods", pod())
        patched(world, "pods", "p", {"status": {"nominatedNodeName": "n"}}, "status")
        world.objects.bind(world.target("pods", "p"), {"target": {"kind": "Node", "name": "n"}})
        bound = world.get("pods", "p") or {}
        assert bound["spec"]["nodeName"] == "n"
        assert "nominatedNodeName" not in bound["status"]
        assert [(each["type"], each["status"]) for each in bound["status"]["conditions"]] == [("PodScheduled", "True")]
        nominate = {"status": {"nominatedNodeName": "m"}}
        assert "already bound to a node" in str(refusal(lambda: patched(world, "pods", "p", nominate, "status")))


class TestDeletion:
    def test_a_bound_pod_gets_its_grace_and_goes_when_its_node_says_so(self) -> None:
        world = World()
        world.create("pods", pod(terminationGracePeriodSeconds=20))
        world.objects.bind(world.target("pods", "p"), {"target": {"name": "n"}})
        world.objects.delete(world.target("pods", "p"))
        marked = (world.get("pods", "p") or {})["metadata"]
        assert (marked["deletionTimestamp"], marked["deletionGracePeriodSeconds"]) == ("2026-01-01T00:00:20Z", 20)
        world.clock.pass_seconds(5)
        world.objects.delete(world.target("pods", "p"))
        assert (world.get("pods", "p") or {})["metadata"] == marked
        world.objects.delete(world.target("pods", "p"), Options(grace_seconds=0, uid=marked["uid"]))
        assert world.get("pods", "p") is None

    @pytest.mark.parametrize("phase", [None, "Succeeded", "Failed"])
    def test_a_pod_of_which_nothing_runs_goes_at_once(self, phase: str | None) -> None:
        world = World()
        world.create("pods", pod())
        if phase:
            world.objects.bind(world.target("pods", "p"), {"target": {"name": "n"}})
            patched(world, "pods", "p", {"status": {"phase": phase}}, "status")
        world.objects.delete(world.target("pods", "p"))
        assert world.get("pods", "p") is None

    def test_finalizers_hold_an_object_until_the_last_is_taken(self) -> None:
        world = World()
        world.create("configmaps", config_map("c", finalizers=["a.io/x", "a.io/y"]))
        world.objects.delete(world.target("configmaps", "c"))
        patched(world, "configmaps", "c", {"metadata": {"finalizers": ["a.io/y"]}})
        assert world.get("configmaps", "c") is not None
        more = {"metadata": {"finalizers": ["a.io/y", "a.io/z"]}}
        assert "no new finalizers can be added" in str(refusal(lambda: patched(world, "configmaps", "c", more)))
        patched(world, "configmaps", "c", {"metadata": {"finalizers": None}})
        assert world.get("configmaps", "c") is None

    def test_a_dry_run_changes_nothing(self) -> None:
        world, dry = World(), Options(dry_run=True)
        target = Target(world.resource("configmaps"), "ns")
        assert "resourceVersion" not in world.objects.create(target, config_map("dry"), dry).body["metadata"]
        world.create("configmaps", config_map("c"))
        heard = len(world.log)
        world.objects.delete(world.target("configmaps", "c"), dry)
        world.objects.change(world.target("configmaps", "c"), lambda old: {**old, "data": {"a": "b"}}, dry)
        assert world.get("configmaps", "dry") is None
        assert len(world.log) == heard


class TestAdmission:
    def test_a_pod_gets_its_account_its_token_and_its_tolerations(self) -> None:
        made = World().create("pods", pod())
        spec = made["spec"]
        assert (spec["serviceAccountName"], spec["priority"], made["status"]["phase"]) == ("default", 0, "Pending")
        (volume,) = spec["volumes"]
        (mount,) = spec["containers"][0]["volumeMounts"]
        assert mount["name"] == volume["name"]
        assert {each["key"].partition("/")[2] for each in spec["tolerations"]} == {"not-ready", "unreachable"}

    def test_a_pod_that_wants_no_token_gets_none(self) -> None:
        assert "volumes" not in World().create("pods", pod(automountServiceAccountToken=False))["spec"]

    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            pytest.param(
                {"serviceAccountName": "x"},
                'pods "p" is forbidden: error looking up service account ns/x: serviceaccount "x" not found',
                id="an account that is not there",
            ),
            pytest.param(
                {"priorityClassName": "x"},
                'pods "p" is forbidden: no PriorityClass with name x was found',
                id="a class that is not there",
            ),
            pytest.param({"containers": []}, 'Pod "p" is invalid: spec.containers: Required value', id="no containers"),
            pytest.param(
                {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "x"}}}]},
                'Pod in version "v1" cannot be handled as a Pod: quantities must match the regular expression'
                " '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
                id="an amount that is none",
            ),
            pytest.param(
                {
                    "containers": [
                        {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}
                    ]
                },
                'Pod "p" is invalid: spec.containers[0].resources.requests: Invalid value: "2": must be less than or'
                " equal to cpu limit of 1",
                id="more asked for than allowed",
            ),
        ],
    )
    def test_pods_that_are_refused(self, spec: Json, message: str) -> None:
        world = World()
        assert str(refusal(lambda: world.create("pods", pod(**spec)))) == message

    def test_what_a_pod_is_may_not_change(self) -> None:
        world = World()
        world.create("pods", pod())
        image = {"spec": {"containers": [{**(world.get("pods", "p") or {})["spec"]["containers"][0], "image": "i:2"}]}}
        assert patched(world, "pods", "p", image)["spec"]["containers"][0]["image"] == "i:2"
        refused = refusal(lambda: patched(world, "pods", "p", {"spec": {"schedulerName": "other"}}))
        assert "pod updates may not change fields other than" in str(refused)

    def test_nothing_is_made_in_a_namespace_that_goes(self) -> None:
        world = World()
        world.objects.delete(world.target("namespaces", "ns"))
        refused = refusal(lambda: world.create("configmaps", config_map("late")))
        assert (refused.code, "because it is being terminated" in str(refused)) == (403, True)


def test_a_default_that_is_patched_away_comes_back() -> None:
    world = World()
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    spec = {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    world.create("deployments", {"metadata": {"name": "d"}, "spec": spec})
    assert patched(world, "deployments", "d", {"spec": {"replicas": None}})["spec"]["replicas"] == 1


class TestLimits:
    @pytest.mark.parametrize(
        ("resources", "quality"),
        [
            pytest.param({}, "BestEffort", id="nothing asked for"),
            pytest.param({"requests": {"cpu": "1"}}, "Burstable", id="something asked for"),
            pytest.param({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed", id="everything limited"),
            pytest.param({"limits": {"cpu": "1"}}, "Burstable", id="not everything limited"),
            pytest.param({"limits": {"nvidia.com/gpu": "1"}}, "BestEffort", id="devices do not count"),
        ],
    )
    def test_the_quality_of_service(self, resources: Json, quality: str) -> None:
        container = {"name": "c", "image": "i", "resources": resources}
        assert World().create("pods", pod(containers=[container]))["status"]["qosClass"] == quality
