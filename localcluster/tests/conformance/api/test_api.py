"""Objects: defaults, patches, versions, watches, subresources, deletion."""

from typing import Any

import pytest
from kubernetes import client, watch

from localcluster.api_calls import APPLY_PATCH, STRATEGIC_PATCH
from localcluster.cluster import LocalCluster
from optimus.kube.client import MERGE_PATCH
from optimus.kube.errors import ErrorKind, KubeError
from tests.conformance.conftest import Api, eventually, pod

JSON_PATCH = "application/json-patch+json"
LEASES = "coordination.k8s.io/v1/leases"
TFJOBS = "kubeflow.org/v1/tfjobs"


def config_map(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"app": "a"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def refused(kind: ErrorKind) -> Any:
    return pytest.raises(KubeError, check=lambda error: error.kind is kind)


def test_a_pod_begins_as_pending_with_the_defaults_that_its_user_left_out(api: Api) -> None:
    made = api.create("pods", pod("p"))
    spec = made["spec"]
    assert made["status"]["phase"] == "Pending"
    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("Always", 30)
    assert (spec["serviceAccountName"], spec["priority"]) == ("default", 0)
    assert [each["operator"] for each in spec["tolerations"]] == ["Exists", "Exists"]
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"


@pytest.mark.parametrize(
    ("content", "patch", "data"),
    [
        (MERGE_PATCH, {"data": {"a": None, "c": "3"}}, {"b": "2", "c": "3"}),
        (STRATEGIC_PATCH, {"data": {"a": "4"}}, {"a": "4", "b": "2"}),
        (JSON_PATCH, [{"op": "remove", "path": "/data/b"}], {"a": "1"}),
        (APPLY_PATCH, config_map("c", c="3"), {"a": "1", "b": "2", "c": "3"}),
    ],
)
def test_an_object_is_patched(api: Api, content: str, patch: Any, data: dict[str, str]) -> None:
    api.create("configmaps", config_map("c", a="1", b="2"))
    path = api.path("configmaps", "c")
    query = "?fieldManager=test&force=true" if content == APPLY_PATCH else ""
    assert api.calls.patch(path + query, patch, content)["data"] == data


def test_containers_are_merged_by_name_and_variables_too(api: Api) -> None:
    api.create("pods", pod("p"))
    patch = {"spec": {"containers": [{"name": "main", "image": "image:2"}]}}
    patched = api.calls.patch(api.path("pods", "p"), patch, STRATEGIC_PATCH)
    (container,) = patched["spec"]["containers"]
    assert (container["image"], container["resources"]["requests"]) == ("image:2", {"cpu": "1"})


def test_a_write_that_began_with_an_older_version_is_refused(api: Api) -> None:
    old = api.create(LEASES, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}})
    api.calls.replace(api.path(LEASES, "l"), {**old, "spec": {"holderIdentity": "b"}})
    with refused(ErrorKind.CONFLICT):
        api.calls.replace(api.path(LEASES, "l"), {**old, "spec": {"holderIdentity": "c"}})
    assert api.get(LEASES, "l")["spec"]["holderIdentity"] == "b"
    with refused(ErrorKind.EXISTS):
        api.create(LEASES, {"metadata": {"name": "l"}})


def test_a_custom_resource_has_the_fields_of_its_schema_and_a_status_apart(api: Api) -> None:
    head = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "j"}}
    spec = {"unheard": 1, "tfReplicaSpecs": {}, "runPolicy": {"suspend": True}}
    made = api.create(TFJOBS, {**head, "spec": spec, "status": {"startTime": None}})
    assert "unheard" not in made["spec"]
    assert made["metadata"]["generation"] == 1
    path = api.path(TFJOBS, "j")
    changed = api.calls.patch(path, {"spec": {"runPolicy": {"backoffLimit": 3}}})
    assert changed["metadata"]["generation"] == 2
    api.calls.delete(path, {})


def test_a_watch_tells_what_enters_changes_and_leaves(backend: LocalCluster, api: Api) -> None:
    version = api.create("configmaps", config_map("before"))["metadata"]["resourceVersion"]
    api.create("configmaps", config_map("c"))
    path = api.path("configmaps", "c")
    for labels in ({"x": "y"}, {"app": None}, {"app": "a"}):
        api.calls.patch(path, {"metadata": {"labels": labels}})
    api.calls.delete(path, {})
    with backend.api_client() as http:
        core, watcher = client.CoreV1Api(http), watch.Watch()  # type: ignore[no-untyped-call]
        selection = {"label_selector": "app=a", "resource_version": version}
        events = watcher.stream(  # type: ignore[no-untyped-call]
            core.list_namespaced_config_map, api.namespace, timeout_seconds=5, **selection
        )
        seen = [(each["type"], each["object"].metadata.name) for each in events]
    kinds = ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    assert seen == [(kind, "c") for kind in kinds]


def test_a_pod_is_bound_once(api: Api) -> None:
    api.create("pods", pod("p"))
    body = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": api.namespace}}
    api.calls.create(api.path("pods", "p", "binding"), body)
    bound = api.get("pods", "p")
    conditions = [(each["type"], each["status"]) for each in bound["status"]["conditions"]]
    assert (bound["spec"]["nodeName"], conditions) == (api.namespace, [("PodScheduled", "True")])
    with refused(ErrorKind.CONFLICT):
        api.calls.create(api.path("pods", "p", "binding"), body)


def test_a_status_is_written_beside_the_pod(api: Api) -> None:
    api.create("pods", pod("p"))
    written = {"status": {"phase": "Running", "nominatedNodeName": "n"}}
    api.calls.patch(api.path("pods", "p"), {"status": {"phase": "Failed"}})
    status = api.calls.patch(api.path("pods", "p", "status"), written)["status"]
    assert (status["phase"], status["nominatedNodeName"]) == ("Running", "n")


def test_what_an_object_owns_goes_with_it(api: Api) -> None:
    owner = api.create("configmaps", config_map("owner"))
    about = {key: owner["metadata"][key] for key in ("name", "uid")}
    owned = config_map("owned")
    owned["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", **about}]
    api.create("configmaps", owned)
    with refused(ErrorKind.CONFLICT):
        api.calls.delete(api.path("configmaps", "owner"), {"preconditions": {"uid": "another"}})
    api.calls.delete(api.path("configmaps", "owner"), {})
    eventually(lambda: api.find("configmaps", "owned") is None, "it is collected")


def test_a_finalizer_holds_an_object(api: Api) -> None:
    body = pod("p")
    body["metadata"]["finalizers"] = ["test/hold"]
    api.create("pods", body)
    api.calls.delete(api.path("pods", "p"), {})
    assert api.get("pods", "p")["metadata"]["deletionTimestamp"]
    api.calls.patch(api.path("pods", "p"), {"metadata": {"finalizers": None}})
    assert api.find("pods", "p") is None


def test_an_evicted_pod_goes(api: Api) -> None:
    api.create("pods", pod("p"))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    api.calls.create(api.path("pods", "p", "eviction"), eviction)
    assert api.find("pods", "p") is None
