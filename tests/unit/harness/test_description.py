"""What a failed end-to-end test says of its namespace."""

from kubernetes.client.exceptions import ApiException

from tests.harness.api import Json
from tests.harness.description import describe

_POD = {
    "metadata": {"name": "job-worker-0", "deletionTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {},
    "status": {
        "phase": "Pending",
        "nominatedNodeName": "n1",
        "conditions": [
            {"type": "PodScheduled", "status": "False", "message": "waits for its gang"}
        ],
        "containerStatuses": [
            {"name": "main", "state": {"terminated": {"reason": "Error", "exitCode": 1}}}
        ],
    },
}
_JOB = {
    "metadata": {"name": "job"},
    "spec": {
        "runPolicy": {"suspend": True},
        "tfReplicaSpecs": {"PS": {"replicas": 1}, "Worker": {"replicas": 3}},
    },
    "status": {
        "conditions": [
            {"type": "Failed", "status": "False"},
            {"type": "Suspended", "status": "True"},
        ]
    },
}
_EVENT = {
    "involvedObject": {"kind": "TFJob", "name": "job"},
    "lastTimestamp": "2026-01-01T00:00:01Z",
    "reason": "Rescaling",
    "message": "1 + 1 -> 1 + 3",
}


class Stored:
    """A cluster that serves some collections and not others."""

    def __init__(self, **collections: list[Json]) -> None:
        self._collections = collections

    def items(self, path: str, **query: str) -> list[Json]:
        plural = path.rpartition("/")[2]
        if plural not in self._collections:
            raise ApiException(status=404, reason="there is no such kind")
        return self._collections[plural]


def test_each_object_is_one_line_with_its_state() -> None:
    said = describe(Stored(pods=[_POD], tfjobs=[_JOB], events=[_EVENT]), "space").splitlines()
    pod = (
        "  job-worker-0, Pending, no node, nominated to n1, is being deleted, main terminated "
        "Error 1"
    )
    assert said[:2] == ["--- pods", f"{pod}, waits for its gang"]
    assert said[2:4] == ["--- TFJobs", "  job, PS 1, Worker 3, suspend, Suspended"]
    assert said[-1] == "  2026-01-01T00:00:01Z, TFJob/job, Rescaling, 1 + 1 -> 1 + 3"


def test_what_cannot_be_read_is_named_and_does_not_hide_the_rest() -> None:
    said = describe(Stored(events=[_EVENT]), "space")
    assert said.count("there is no such kind") == 4
    assert "Rescaling" in said


def test_an_object_without_a_status_is_a_line_too() -> None:
    bare = {"metadata": {"name": "job"}, "spec": {}, "status": {}}
    assert "  job, None, no node" in describe(
        Stored(pods=[bare], tfjobs=[bare], events=[{}]), "space"
    )


def test_a_profile_is_shown_without_its_saved_state() -> None:
    profile = {
        "metadata": {"name": "job"},
        "status": {"phase": "Training", "ps": 1, "state": {"log": "..."}},
    }
    assert "  job, phase Training, ps 1\n" in describe(Stored(trainingprofiles=[profile]), "space")


def test_of_many_events_the_newest_are_shown_in_order() -> None:
    events = [
        {**_EVENT, "lastTimestamp": f"2026-01-01T00:{minute:02}:00Z"}
        for minute in reversed(range(60))
    ]
    lines = (
        describe(Stored(events=[*events, _EVENT]), "space")
        .partition("--- events\n")[2]
        .splitlines()
    )
    assert len(lines) == 60
    assert [line[:18] for line in lines[:2]] == ["  2026-01-01T00:00", "  2026-01-01T00:01"]
    assert lines == sorted(lines)
