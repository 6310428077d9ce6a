"""What nobody owns any more goes, and nothing else does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.embedded.apiserver.deletion import Options
from localcluster.embedded.apiserver.kinds import Json
from tests.unit.embedded.world import World, config_map, owner, pod


def owned(world: World, name: str, *owners: Json, **more: object) -> Json:
    return world.create(
        "configmaps", config_map(name, ownerReferences=[owner(each, **more) for each in owners])
    )


def delete(world: World, name: str, policy: str | None = None) -> None:
    world.objects.delete(world.target("configmaps", name), Options(propagation=policy))
    world.settle()


def made(world: World) -> list[str]:
    return [name for name in world.names("configmaps") if name != "kube-root-ca.crt"]


@pytest.mark.parametrize("policy", [None, "Background", "Foreground"])
def test_children_and_grandchildren_go_with_the_owner(policy: str | None) -> None:
    world = World()
    parent = world.create("configmaps", config_map("parent"))
    child = owned(world, "child", parent, blockOwnerDeletion=True)
    owned(world, "grandchild", child, blockOwnerDeletion=True)
    world.create("configmaps", config_map("stranger"))
    delete(world, "parent", policy)
    assert made(world) == ["stranger"]


def test_in_the_foreground_the_owner_goes_last() -> None:
    world = World()
    parent = world.create("configmaps", config_map("parent"))
    owned(world, "child", parent, blockOwnerDeletion=True)
    delete(world, "parent", "Foreground")
    gone = [change.name[1] for kind, change in world.log if kind == "configmaps" and change.gone]
    assert gone == ["child", "parent"]


def test_a_child_that_takes_its_time_holds_its_owner_in_the_foreground() -> None:
    world = World()
    parent = world.create("configmaps", config_map("parent"))
    world.create(
        "pods",
        {
            **pod(),
            "metadata": {"name": "p", "ownerReferences": [owner(parent, blockOwnerDeletion=True)]},
        },
    )
    world.objects.bind(world.target("pods", "p"), {"target": {"name": "n"}})
    delete(world, "parent", "Foreground")
    assert made(world) == ["parent"]
    world.objects.delete(world.target("pods", "p"), Options(grace_seconds=0))
    world.settle()
    assert made(world) == []


def test_orphans_stay_and_forget() -> None:
    world = World()
    parent = world.create("configmaps", config_map("parent"))
    owned(world, "child", parent)
    delete(world, "parent", "Orphan")
    assert made(world) == ["child"]
    assert "ownerReferences" not in (world.get("configmaps", "child") or {})["metadata"]


def test_with_another_owner_alive_only_the_reference_goes() -> None:
    world = World()
    one, two = (world.create("configmaps", config_map(name)) for name in ("one", "two"))
    owned(world, "child", one, two)
    delete(world, "one")
    child = world.get("configmaps", "child") or {}
    assert [each["name"] for each in child["metadata"]["ownerReferences"]] == ["two"]


def test_an_owner_that_never_was_owns_nothing_alive() -> None:
    world = World()
    ghost = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ghost", "uid": "none"}}
    owned(world, "child", ghost)
    world.settle()
    assert made(world) == []


def test_an_owner_of_the_same_name_made_anew_is_another() -> None:
    world = World()
    old = world.create("configmaps", config_map("parent"))
    world.objects.delete(world.target("configmaps", "parent"))
    world.create("configmaps", config_map("parent"))
    owned(world, "child", old)
    world.settle()
    assert made(world) == ["parent"]


@given(
    owners=st.dictionaries(st.integers(1, 7), st.sets(st.integers(0, 6), max_size=2), max_size=7),
    deleted=st.sets(st.integers(0, 7), max_size=3),
)
def test_what_is_left_is_what_can_be_reached_from_what_nobody_owned(
    owners: dict[int, set[int]], deleted: set[int]
) -> None:
    """Objects 0..7, each owned by some of those before it; some are deleted."""
    world, bodies = World(), dict[int, Json]()
    parents = {
        number: {each for each in owners.get(number, set()) if each < number} for number in range(8)
    }
    for number in range(8):
        bodies[number] = owned(
            world, f"o{number}", *(bodies[each] for each in sorted(parents[number]))
        )
    for number in sorted(deleted):
        if world.get("configmaps", f"o{number}") is not None:
            world.objects.delete(world.target("configmaps", f"o{number}"))
    world.settle()
    left: set[int] = set()
    for number in range(8):
        if number not in deleted and (not parents[number] or parents[number] & left):
            left.add(number)
    assert made(world) == [f"o{number}" for number in sorted(left)]
