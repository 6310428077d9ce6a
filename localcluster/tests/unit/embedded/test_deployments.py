"""A Deployment has the pods that it asks for, of its present template, and says how far it has
come."""

import pytest

from localcluster.embedded.apiserver.deletion import Options
from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.patches import merge_patch
from tests.unit.embedded.world import World, pod


def deployed(replicas: int, strategy: str = "RollingUpdate") -> World:
    world = World()
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod()["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    world.create(
        "deployments", {"metadata": {"name": "d"}, "spec": {**spec, "strategy": {"type": strategy}}}
    )
    world.settle()
    return world


def patch(world: World, plural: str, name: str, body: Json, subresource: str = "") -> None:
    world.objects.change(
        world.target(plural, name, subresource), lambda old: merge_patch(old, body)
    )
    world.settle()


def make_ready(world: World) -> None:
    """Say of every pod that it runs and is ready."""
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    for name in world.names("pods"):
        if not world.get("pods", name)["spec"].get("nodeName"):  # type: ignore[index]  # it was listed just now
            world.objects.bind(world.target("pods", name), {"target": {"name": "n"}})
        patch(world, "pods", name, {"status": status}, "status")


def images(world: World) -> list[str]:
    """The image of each pod that is not going."""
    every = [each.body for each in world.store.items("pods", "ns")]
    return sorted(
        each["spec"]["containers"][0]["image"]
        for each in every
        if "deletionTimestamp" not in each["metadata"]
    )


def status(world: World) -> Json:
    found = world.get("deployments", "d")
    assert found is not None
    body: Json = found["status"]
    return body


def change_image(world: World) -> None:
    containers = [{"name": "c", "image": "i:2"}]
    patch(world, "deployments", "d", {"spec": {"template": {"spec": {"containers": containers}}}})


def end_leaving(world: World) -> None:
    """Let the pods that are going be gone, as their node would."""
    for each in world.store.items("pods", "ns"):
        if "deletionTimestamp" in each.body["metadata"]:
            world.objects.delete(world.target("pods", each.name[1]), Options(grace_seconds=0))
    world.settle()


def test_it_gets_its_pods_and_owns_them_by_way_of_a_replica_set() -> None:
    world = deployed(2)
    (replica_set,) = world.names("replicasets")
    names = world.names("pods")
    assert len(names) == 2
    assert all(name.startswith(f"{replica_set}-") for name in names)
    (owner,) = (world.get("pods", names[0]) or {})["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("ReplicaSet", replica_set, True)


def test_its_status_follows_its_pods() -> None:
    world = deployed(2)
    assert (status(world)["replicas"], status(world)["unavailableReplicas"]) == (2, 2)
    make_ready(world)
    assert (status(world)["availableReplicas"], status(world)["observedGeneration"]) == (2, 1)
    conditions = {
        each["type"]: (each["status"], each["reason"]) for each in status(world)["conditions"]
    }
    assert conditions == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }


@pytest.mark.parametrize("replicas", [0, 1, 4])
def test_it_grows_and_shrinks(replicas: int) -> None:
    world = deployed(2)
    patch(world, "deployments", "d", {"spec": {"replicas": replicas}})
    assert len(world.names("pods")) == replicas


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_is_lost_is_made_anew(phase: str) -> None:
    world = deployed(2)
    first, second = world.names("pods")
    world.objects.delete(world.target("pods", first))
    patch(world, "pods", second, {"status": {"phase": phase}}, "status")
    assert len(set(world.names("pods")) - {first, second}) == 2


def test_recreate_ends_the_old_pods_before_it_makes_new_ones() -> None:
    world = deployed(2, "Recreate")
    make_ready(world)
    change_image(world)
    assert images(world) == []
    assert len(world.names("pods")) == 2
    end_leaving(world)
    assert images(world) == ["i:2", "i:2"]


def test_a_rolling_update_keeps_the_old_pods_until_the_new_are_ready() -> None:
    world = deployed(2)
    make_ready(world)
    change_image(world)
    assert images(world) == ["i:1", "i:1", "i:2", "i:2"]
    make_ready(world)
    end_leaving(world)
    assert images(world) == ["i:2", "i:2"]


def test_everything_goes_with_it() -> None:
    world = deployed(2)
    world.objects.delete(world.target("deployments", "d"))
    world.settle()
    assert (world.names("replicasets"), world.names("pods")) == ([], [])
