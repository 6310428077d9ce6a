"""Deployments: pods of the present template, rolling and recreating, status."""

import pytest

from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.patches import merge_patch
from localcluster.embedded.apiserver.wire import DeleteOptions
from tests.unit.embedded.api_server import ApiServer, pod


def deployed(replicas: int, strategy: str = "RollingUpdate") -> ApiServer:
    server = ApiServer()
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod()["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    server.create(
        "deployments", {"metadata": {"name": "d"}, "spec": {**spec, "strategy": {"type": strategy}}}
    )
    server.settle()
    return server


def patch(server: ApiServer, plural: str, name: str, body: Json, subresource: str = "") -> None:
    server.objects.change(
        server.target(plural, name, subresource), lambda old: merge_patch(old, body)
    )
    server.settle()


def make_ready(server: ApiServer) -> None:
    """Say of every pod that it runs and is ready."""
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    for name in server.names("pods"):
        if not server.get("pods", name)["spec"].get("nodeName"):  # type: ignore[index]  # it was listed just now
            server.objects.bind(server.target("pods", name), {"target": {"name": "n"}})
        patch(server, "pods", name, {"status": status}, "status")


def images(server: ApiServer) -> list[str]:
    """The image of each pod that is not going."""
    every = [each.body for each in server.store.items("pods", "ns")]
    return sorted(
        each["spec"]["containers"][0]["image"]
        for each in every
        if "deletionTimestamp" not in each["metadata"]
    )


def status(server: ApiServer) -> Json:
    found = server.get("deployments", "d")
    assert found is not None
    body: Json = found["status"]
    return body


def change_image(server: ApiServer) -> None:
    containers = [{"name": "c", "image": "i:2"}]
    patch(server, "deployments", "d", {"spec": {"template": {"spec": {"containers": containers}}}})


def end_leaving(server: ApiServer) -> None:
    """Let the pods that are going be gone, as their node would."""
    for each in server.store.items("pods", "ns"):
        if "deletionTimestamp" in each.body["metadata"]:
            server.objects.delete(
                server.target("pods", each.name[1]), DeleteOptions(grace_period_seconds=0)
            )
    server.settle()


def test_it_gets_its_pods_and_owns_them() -> None:
    server = deployed(2)
    names = server.names("pods")
    assert len(names) == 2
    metadata = (server.get("pods", names[0]) or {})["metadata"]
    assert names[0].startswith(f"d-{metadata['labels']['pod-template-hash']}-")
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Deployment", "d", True)


def test_its_status_follows_its_pods() -> None:
    server = deployed(2)
    assert (status(server)["replicas"], status(server)["unavailableReplicas"]) == (2, 2)
    make_ready(server)
    assert (status(server)["availableReplicas"], status(server)["observedGeneration"]) == (2, 1)
    conditions = {
        each["type"]: (each["status"], each["reason"]) for each in status(server)["conditions"]
    }
    assert conditions == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_is_lost_is_recreated(phase: str) -> None:
    server = deployed(2)
    first, second = server.names("pods")
    server.objects.delete(server.target("pods", first))
    patch(server, "pods", second, {"status": {"phase": phase}}, "status")
    assert len(set(server.names("pods")) - {first, second}) == 2


def test_recreate_ends_the_old_pods_before_it_makes_new_ones() -> None:
    server = deployed(2, "Recreate")
    make_ready(server)
    change_image(server)
    assert images(server) == []
    assert len(server.names("pods")) == 2
    end_leaving(server)
    assert images(server) == ["i:2", "i:2"]


def test_a_rolling_update_keeps_the_old_pods_until_the_new_are_ready() -> None:
    server = deployed(2)
    make_ready(server)
    change_image(server)
    assert images(server) == ["i:1", "i:1", "i:2", "i:2"]
    make_ready(server)
    end_leaving(server)
    assert images(server) == ["i:2", "i:2"]


def test_everything_goes_with_it() -> None:
    server = deployed(2)
    server.objects.delete(server.target("deployments", "d"))
    server.settle()
    assert server.names("pods") == []
