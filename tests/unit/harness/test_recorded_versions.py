"""A record of a watch has caught up once it has all that a list shows."""

import pytest

from tests.harness.api import Json
from tests.harness.watch_recorder import RecordedVersions

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"


def event(kind: str, uid: str, version: int) -> Json:
    return {"type": kind, "object": {"metadata": {"uid": uid, "resourceVersion": str(version)}}}


def listed(at: int, **versions: int) -> Json:
    items = [event("", uid, version)["object"] for uid, version in versions.items()]
    return {"metadata": {"resourceVersion": str(at)}, "items": items}


@pytest.mark.parametrize(
    ("events", "found", "expected"),
    [
        pytest.param([], listed(5), True, id="nothing is stored"),
        pytest.param([], listed(5, a=3), False, id="an object is not in the record yet"),
        pytest.param([(ADDED, "a", 3)], listed(5, a=4), False, id="its last change is not"),
        pytest.param([(ADDED, "a", 3), (MODIFIED, "a", 4)], listed(5, a=4), True, id="both are"),
        pytest.param([(ADDED, "a", 3)], listed(5), False, id="its deletion is not"),
        pytest.param([(ADDED, "a", 3), (DELETED, "a", 4)], listed(5), True, id="its deletion is"),
        pytest.param(
            [(ADDED, "a", 3), (DELETED, "a", 6)], listed(5, a=3), True, id="it was deleted since"
        ),
        pytest.param([(ADDED, "a", 6)], listed(5), True, id="it was created since"),
        pytest.param([(MODIFIED, "a", 6)], listed(5, a=3), True, id="it has changed since"),
    ],
)
def test_a_record_has_all_that_is_stored_or_not(
    events: list[tuple[str, str, int]], found: Json, expected: bool
) -> None:
    recorded = RecordedVersions()
    for each in events:
        recorded.note(event(*each))
    assert recorded.has_all(found) is expected
