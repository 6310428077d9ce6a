"""Whatever is sent, the server answers, stores nothing that it cannot read, and goes on."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.embedded.world import WIDGETS, World, config_map, pod

NS = "/api/v1/namespaces/ns"
KEYS = st.sampled_from(["name", "x", "key"])
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 2)
    | st.sampled_from(["", "x", "a.io/b", "Foreground"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["name", "x", "key"]), inner, max_size=2)
    ),
    max_leaves=4,
)
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
NODE = {
    "metadata": {"name": "n"},
    "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
    "status": {"conditions": []},
}
DEPLOYMENT = {
    "metadata": {"name": "d", "labels": {"a": "b"}, "finalizers": [], "ownerReferences": []},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"a": "b"}},
        "strategy": {"type": "Recreate"},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]},
    },
}
CLAIM = {
    "metadata": {"name": "c"},
    "spec": {"accessModes": ["x"], "resources": {"requests": {"storage": "1Gi"}}},
}
VOLUME = {
    "metadata": {"name": "v"},
    "spec": {
        "accessModes": ["x"],
        "capacity": {"storage": "1Gi"},
        "claimRef": {"namespace": "ns", "name": "c"},
    },
}
BODIES: list[tuple[str, dict[str, Any]]] = [
    (
        f"{NS}/pods",
        {**pod(tolerations=[], volumes=[], nodeSelector={}), "status": {"conditions": []}},
    ),
    (f"{NS}/configmaps", config_map("c", labels={}, ownerReferences=[OWNER])),
    (f"{NS}/persistentvolumeclaims", CLAIM),
    ("/api/v1/persistentvolumes", VOLUME),
    ("/api/v1/nodes", NODE),
    ("/apis/apps/v1/namespaces/ns/deployments", DEPLOYMENT),
    ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGETS),
    (
        "/apis/test.io/v1/namespaces/ns/widgets",
        {"apiVersion": "test.io/v1", "kind": "Widget", **config_map("w")},
    ),
]


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a body."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [at, *(place for key, each in inner for place in places(each, (*at, key)))]


def put(body: Any, place: tuple[Any, ...], junk: Any) -> Any:
    """A copy of a body with something else at a place."""
    if not place:
        return junk
    changed = copy.deepcopy(body)
    at = changed
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = junk
    return changed


@given(st.data())
def test_a_body_with_nonsense_anywhere_is_answered(data: st.DataObject) -> None:
    world = World()
    path, body = data.draw(st.sampled_from(BODIES))
    body = put(body, data.draw(st.sampled_from(places(body))), data.draw(JUNK))
    code, said = world.ask("POST", path, body)
    assert (
        code in {201, 400, 403, 404, 409, 422}
        or "resourceVersion should not be set" in said["message"]
    ), said
    world.settle()
    assert world.ask("GET", path)[0] == 200


@given(st.data())
def test_a_patch_of_nonsense_is_answered(data: st.DataObject) -> None:
    world = World()
    path, body = data.draw(st.sampled_from([each for each in BODIES if each[1] is not WIDGETS]))
    code, made = world.ask("POST", path, body)
    assert code == 201, made
    patch = put(body, data.draw(st.sampled_from(places(body))), data.draw(JUNK))
    part = data.draw(st.sampled_from(["", "/status"]))
    kind = data.draw(
        st.sampled_from(["merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"])
    )
    target = f"{path}/{body['metadata']['name']}{part}?fieldManager=me"
    code, said = world.ask("PATCH", target, patch, f"application/{kind}")
    assert code in {200, 201, 400, 404, 409, 415, 422}, said
    world.settle()
    assert world.ask("GET", path)[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(f"{NS}/pods?watch=true&timeoutSeconds=x", id="a time in letters"),
        pytest.param(f"{NS}/pods?limit=x", id="a limit in letters"),
    ],
)
def test_parameters_of_nonsense_are_refused(path: str) -> None:
    assert World().ask("GET", path)[0] == 400


def test_a_grace_in_letters_is_refused() -> None:
    world = World()
    world.create("pods", pod())
    assert world.ask("DELETE", f"{NS}/pods/p?gracePeriodSeconds=x")[0] == 400
    assert world.get("pods", "p") is not None
