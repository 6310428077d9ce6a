"""Events on jobs: equal ones are counted, and no job can flood the server."""

from collections.abc import Callable

import pytest
from pytest_httpserver import HTTPServer

from optimus.kube.client import Client
from optimus.kube.events import EventType, EventWriter
from optimus.kube.results import Refused, Written
from tests.integration.kube.recorder import Recorder, job, refusal, stored

pytestmark = pytest.mark.integration

EVENTS_PATH = "/api/v1/namespaces/ns/events"
Emit = Callable[[str], Written | Refused | None]


class Clock:
    def __init__(self) -> None:
        self.seconds = 1_767_225_600.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def emit(client: Client, clock: Clock) -> Callable[[str], Written | Refused | None]:
    writer = EventWriter(client, "optimus-autoscaler", now=clock, timer=clock)
    return lambda message: writer.emit(job(), EventType.WARNING, "BadAnnotation", message)


def test_equal_events_are_counted_in_one(httpserver: HTTPServer, emit: Emit, clock: Clock) -> None:
    created = Recorder(httpserver, EVENTS_PATH, [stored()])
    assert isinstance(emit("no"), Written)
    assert emit("no") is None
    clock.seconds += 61
    body = created.body()
    assert isinstance(body, dict)
    counted = Recorder(httpserver, f"{EVENTS_PATH}/{body['metadata']['name']}", [stored()])
    assert isinstance(emit("no"), Written)
    assert (body["type"], body["reason"], body["message"], body["count"]) == (
        "Warning",
        "BadAnnotation",
        "no",
        1,
    )
    assert body["involvedObject"]["uid"] == "u1"
    assert counted.body() == {"count": 3, "lastTimestamp": "2026-01-01T00:01:01Z"}


def test_an_event_carries_its_annotations(httpserver: HTTPServer, client: Client) -> None:
    created = Recorder(httpserver, EVENTS_PATH, [stored()])
    writer = EventWriter(client, "optimus-extender")
    writer.emit(job(), EventType.NORMAL, "Waiting", "why", {"a/b": "{}"})
    body = created.body()
    assert isinstance(body, dict)
    assert body["metadata"]["annotations"] == {"a/b": "{}"}


def test_an_event_that_the_server_forgot_is_written_again(
    httpserver: HTTPServer, emit: Emit, clock: Clock
) -> None:
    created = Recorder(httpserver, EVENTS_PATH, [stored(), stored()])
    emit("no")
    clock.seconds += 61
    body = created.body()
    assert isinstance(body, dict)
    Recorder(httpserver, f"{EVENTS_PATH}/{body['metadata']['name']}", [refusal(404)])
    assert isinstance(emit("no"), Written)
    assert len(created.requests) == 2


def test_one_job_cannot_flood_the_server(httpserver: HTTPServer, emit: Emit, clock: Clock) -> None:
    created = Recorder(httpserver, EVENTS_PATH, [stored() for _ in range(26)])
    assert sum(emit(f"message {number}") is not None for number in range(40)) == 25
    clock.seconds += 601
    assert isinstance(emit("later"), Written)
    assert len(created.requests) == 26


def test_an_event_that_was_refused_is_no_error_and_is_tried_again(
    httpserver: HTTPServer, emit: Emit
) -> None:
    created = Recorder(httpserver, EVENTS_PATH, [refusal(403), stored()])
    assert isinstance(emit("no"), Refused)
    assert isinstance(emit("no"), Written)
    assert len(created.requests) == 2
