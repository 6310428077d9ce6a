"""Server-side apply: each manager's fields are its own, until another forces them away."""

from typing import Any

import pytest

from localcluster.embedded.apiserver.kinds import Json
from tests.unit.embedded.world import World

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"


def config(**data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def apply(world: World, manager: str, body: object, more: str = "") -> tuple[int, Any]:
    return world.ask(
        "PATCH", f"/api/v1/namespaces/ns/configmaps/c?fieldManager={manager}{more}", body, APPLY
    )


def test_a_field_that_is_no_longer_applied_goes() -> None:
    world = World()
    code, made = apply(world, "me", config(a="1", b="2"))
    assert (code, made["data"]) == (201, {"a": "1", "b": "2"})
    assert made["metadata"]["managedFields"][0]["fieldsV1"] == {"f:data": {"f:a": {}, "f:b": {}}}
    assert apply(world, "me", config(a="3"))[1]["data"] == {"a": "3"}


def test_fields_of_others_stay() -> None:
    world = World()
    apply(world, "me", config(a="1"))
    world.ask("PATCH", "/api/v1/namespaces/ns/configmaps/c", {"data": {"other": "x"}}, MERGE)
    apply(world, "you", config(b="2"))
    assert apply(world, "me", config(c="3"))[1]["data"] == {"other": "x", "b": "2", "c": "3"}


def test_a_field_that_two_want_alike_is_both_of_theirs() -> None:
    world = World()
    apply(world, "me", config(a="1"))
    assert apply(world, "you", config(a="1"))[0] == 200
    assert apply(world, "me", config(b="1"))[1]["data"] == {"a": "1", "b": "1"}


def test_applying_the_same_again_keeps_the_version() -> None:
    world = World()
    first = apply(world, "me", config(a="1"))[1]
    world.clock.pass_seconds(60)
    assert apply(world, "me", config(a="1"))[1] == first


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(
            {"a": "9"}, 'Apply failed with 1 conflict: conflict with "me": .data.a', id="one field"
        ),
        pytest.param(
            {"a": "9", "b": "9"},
            'Apply failed with 2 conflicts: conflicts with "me":\n- .data.a\n- .data.b',
            id="two fields",
        ),
    ],
)
def test_another_value_in_anothers_field_is_a_conflict(data: dict[str, str], message: str) -> None:
    world = World()
    apply(world, "me", config(a="1", b="2"))
    code, said = apply(world, "you", config(**data))
    assert (code, said["reason"], said["message"]) == (409, "Conflict", message)
    code, forced = apply(world, "you", config(**data), "&force=true")
    assert (code, forced["data"]) == (200, {"a": "1", "b": "2", **data})
    assert apply(world, "me", config())[1]["data"] == data


def test_lists_of_known_keys_are_applied_element_by_element() -> None:
    world = World()
    service = "/api/v1/namespaces/ns/services/s?fieldManager="
    body: Json = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    ports = [{"name": "a", "port": 1}, {"name": "b", "port": 2}]
    world.ask(
        "PATCH", f"{service}me", {**body, "spec": {"clusterIP": "None", "ports": ports}}, APPLY
    )
    mine = {**body, "spec": {"clusterIP": "None", "ports": ports[:1]}}
    left = world.ask("PATCH", f"{service}me", mine, APPLY)[1]["spec"]["ports"]
    assert [each["port"] for each in left] == [1]


def test_a_manifest_in_yaml() -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '1'}\n"
    assert apply(World(), "me", text)[1]["data"] == {"a": "1"}


def test_somebody_has_to_be_named() -> None:
    code, said = apply(World(), "", config())
    assert (code, said["message"]) == (
        422,
        (
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for '
            "apply patch"
        ),
    )
