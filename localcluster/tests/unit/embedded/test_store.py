"""The store keeps objects, reports changes in order, and shows the past within its log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.store import Expired, Store, Stored

NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "remove"]), st.sampled_from(["x", "x-y"]), NAMES), max_size=30
)


def body(namespace: str, name: str, value: int = 0) -> Json:
    metadata = {"namespace": namespace, "name": name, "uid": f"{namespace}/{name}"}
    return {"apiVersion": "v1", "kind": "Thing", "metadata": metadata, "value": value}


def apply_steps(
    store: Store, steps: list[tuple[str, str, str]]
) -> list[tuple[int, dict[tuple[str, str], int]]]:
    """Carry out the steps; after each, the version and all objects, kept the obvious way."""
    objects: dict[tuple[str, str], int] = {}
    history: list[tuple[int, dict[tuple[str, str], int]]] = [(store.version, {})]
    for number, (what, namespace, name) in enumerate(steps):
        if what == "put":
            store.put("things", body(namespace, name, number))
            objects[namespace, name] = number
        elif (namespace, name) in objects:
            store.remove("things", (namespace, name))
            del objects[namespace, name]
        history.append((store.version, dict(objects)))
    return history


def values(found: list[Stored]) -> dict[tuple[str, str], int]:
    return {each.name: each.body["value"] for each in found}


@given(STEPS, st.integers(0, 30))
def test_the_changes_since_a_version_lead_from_there_to_now(
    steps: list[tuple[str, str, str]], start: int
) -> None:
    store = Store()
    history = apply_steps(store, steps)
    version, objects = history[min(start, len(history) - 1)]
    seen: list[int] = []
    for change in store.since("things", version):
        seen.append(change.version)
        assert (change.before is None) == (change.name not in objects)
        if change.gone:
            del objects[change.name]
        else:
            objects[change.name] = change.now.body["value"]
    assert objects == values(store.items("things"))
    assert seen == sorted(set(seen))


def test_a_trimmed_log_reports_its_oldest_version() -> None:
    store = Store(kept=2)
    for number in range(6):
        store.put("things", body("x", "a", number))
    kept = store.since("things", 4)
    assert [each.now.body["value"] for each in kept] == [3, 4, 5] or len(kept) >= 2
    with pytest.raises(Expired):
        store.since("things", 1)
