"""The copy of a kind against a server that misbehaves in every way that a real one does."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from optimus.kube.client import Client
from optimus.kube.list_watch import ListWatch
from optimus.kube.pods import Pod, decode_pod, watched_pods
from optimus.kube.reflector import BackoffConfig, Reflector, ReflectorConfig
from tests.cases import cases

pytestmark = pytest.mark.integration

QUICK = ReflectorConfig(
    page=2,
    watch_seconds=60.0,
    grace_seconds=1.0,
    absent_seconds=0.02,
    backoff=BackoffConfig(0.01, 0.05),
)
WAIT_SECONDS = 180.0


def pod(name: str, version: str, **status: object) -> dict[str, object]:
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "resourceVersion": version,
        },
        "spec": {"containers": [{"name": "c"}]},
        "status": status,
    }


def page(*items: dict[str, object], version: str = "10", token: str = "") -> Response:
    metadata = {"resourceVersion": version, "continue": token}
    return Response(
        json.dumps({"metadata": metadata, "items": items}), content_type="application/json"
    )


def event(kind: str, item: dict[str, object]) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


def gone() -> Response:
    return Response(
        event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
    )


class Script:
    """Answers lists and watches in turn, then lets watches hang until the test is over."""

    def __init__(self, server: HTTPServer) -> None:
        self.lists: list[Response | Callable[[Request], Response]] = []
        self.watches: list[Response | Callable[[Request], Response]] = []
        self.seen: list[dict[str, str]] = []
        self.over = threading.Event()
        server.expect_request("/api/v1/pods").respond_with_handler(self.answer)

    def answer(self, request: Request) -> Response:
        self.seen.append(dict(request.args))
        script = self.watches if "watch" in request.args else self.lists
        if script:
            answer = script.pop(0)
            return answer if isinstance(answer, Response) else answer(request)
        return Response(self._quiet()) if "watch" in request.args else page()

    def _quiet(self) -> Iterator[bytes]:
        yield b"\n"  # the double sends its headers with the first bytes
        self.over.wait(WAIT_SECONDS)

    def watched(self) -> list[str]:
        return [query["resourceVersion"] for query in self.seen if "watch" in query]

    def listed(self) -> int:
        return sum("watch" not in query for query in self.seen)


@pytest.fixture
def script(httpserver: HTTPServer) -> Iterator[Script]:
    script = Script(httpserver)
    yield script
    script.over.set()


@pytest.fixture
def reflect(client: Client, script: Script) -> Iterator[Callable[..., Reflector[Pod]]]:
    started: list[Reflector[Pod]] = []

    def start(kind: ListWatch[Pod] | None = None, **options: Any) -> Reflector[Pod]:
        reflector = Reflector(
            client, kind or watched_pods(), config=QUICK, random=Random(1), **options
        )
        started.append(reflector)
        reflector.start()
        return reflector

    yield start
    script.over.set()
    for reflector in started:
        reflector.stop()
        assert not reflector._thread.is_alive()


def until(reflector: Reflector[Pod], holds: Callable[[], bool]) -> None:
    seen = -1
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        if holds():
            return
        seen = reflector.changes.wait(seen, 0.05)
    raise AssertionError(f"never came: {reflector.items()} {reflector.failure}")


def names(reflector: Reflector[Pod]) -> set[str]:
    return {item.name for item in reflector.items()}


Reflect = Callable[..., Reflector[Pod]]


def test_pages_are_put_together_and_watched_from_the_version_of_the_list(
    script: Script, reflect: Reflect
) -> None:
    script.lists = [page(pod("a", "1"), token="next"), page(pod("b", "2"))]
    script.watches = [Response(event("ADDED", pod("c", "11")) + event("DELETED", pod("a", "12")))]
    reflector = reflect()
    until(reflector, lambda: names(reflector) == {"b", "c"})
    until(reflector, lambda: len(script.watched()) >= 2)
    assert script.seen[0]["limit"] == "2"
    assert script.seen[1]["continue"] == "next"
    assert script.watched()[:2] == ["10", "12"]
    assert reflector.synced
    assert reflector.failure is None


def test_a_bookmark_moves_the_version_on(script: Script, reflect: Reflect) -> None:
    script.watches = [Response(event("BOOKMARK", {"metadata": {"resourceVersion": "77"}}))]
    reflector = reflect()
    until(reflector, lambda: script.watched()[:2] == ["10", "77"])
    assert script.listed() == 1


def test_an_expired_version_is_listed_again_and_what_is_gone_is_notified(
    script: Script, reflect: Reflect
) -> None:
    observed: list[tuple[str | None, str | None]] = []
    script.lists = [
        page(pod("a", "1"), pod("b", "2")),
        page(pod("b", "2"), pod("c", "3"), version="20"),
    ]
    script.watches = [gone()]
    reflector = reflect(
        observer=lambda old, new: observed.append((old and old.name, new and new.name))
    )
    until(reflector, lambda: names(reflector) == {"b", "c"})
    until(reflector, lambda: script.watched()[:2] == ["10", "20"])
    assert sorted(observed[2:], key=str) == [("a", None), (None, "c")]


@cases(
    "answer",
    {
        "a server error": Response("no", status=500),
        "too many requests": Response("slow down", status=429, headers={"Retry-After": "0"}),
        "a list without a version": Response("{}", content_type="application/json"),
        "a list that is no JSON": Response("<html>", content_type="text/html"),
        "an unknown identity": Response('{"message":"who are you"}', status=401),
    },
)
def test_a_failed_list_is_tried_again(script: Script, reflect: Reflect, answer: Response) -> None:
    script.lists = [answer, page(pod("a", "1"))]
    reflector = reflect()
    until(reflector, lambda: names(reflector) == {"a"})
    assert reflector.synced


@cases(
    ("answer", "listed"),
    {
        "a line cut in the middle": (Response(event("ADDED", pod("b", "11")) + b'{"type":"ADD'), 1),
        "a server error": (Response("no", status=503), 1),
        "a watch that ends at once": (Response(b""), 1),
        "a line that is no event: only a list can tell what changed": (Response(b"garbage\n"), 2),
        "a right that was taken away": (Response('{"message":"no"}', status=403), 2),
    },
)
def test_a_failed_watch_goes_on(
    script: Script, reflect: Reflect, answer: Response, listed: int
) -> None:
    script.lists = [page(pod("a", "1")) for _ in range(listed)]
    script.watches = [answer, Response(event("ADDED", pod("z", "99")))]
    reflector = reflect()
    until(reflector, lambda: {"a", "z"} <= names(reflector))
    assert script.listed() == listed


def test_one_bad_object_is_named_and_passed_over(
    script: Script, reflect: Reflect, caplog: pytest.LogCaptureFixture
) -> None:
    bad = pod("bad", "1") | {"spec": {"containers": [{"resources": {"requests": {"cpu": "lots"}}}]}}
    script.lists = [page(bad, pod("good", "2"))]
    script.watches = [
        Response(event("MODIFIED", {"metadata": {"name": "good", "namespace": "ns"}, "spec": 7}))
    ]
    reflector = reflect()
    until(reflector, lambda: len(script.watched()) >= 2)
    assert names(reflector) == set()
    said = "one of the pods cannot be decoded and is skipped: ns/bad: cpu: 'lots' is not a quantity"
    assert any(message.startswith(said) for message in caplog.messages)


def test_a_kind_that_the_server_does_not_know_is_empty_until_it_does(
    script: Script, reflect: Reflect
) -> None:
    script.lists = [Response("{}", status=404), Response("{}", status=404), page(pod("a", "1"))]
    reflector = reflect(ListWatch("pods", decode_pod, optional=True))
    assert reflector.wait_synced(WAIT_SECONDS)
    until(reflector, lambda: names(reflector) == {"a"})


def test_an_observer_that_fails_does_not_stop_the_copy(script: Script, reflect: Reflect) -> None:
    def observer(old: Pod | None, new: Pod | None) -> None:
        raise RuntimeError("boom")

    script.lists = [page(pod("a", "1"))]
    script.watches = [Response(event("ADDED", pod("b", "11")))]
    reflector = reflect(observer=observer)
    until(reflector, lambda: names(reflector) == {"a", "b"})


def test_selectors_are_sent(script: Script, reflect: Reflect) -> None:
    chosen = ListWatch("pods", decode_pod, label_selector="a=b", field_selector="spec.nodeName=n")
    reflector = reflect(chosen)
    until(reflector, lambda: len(script.watched()) == 1)
    assert {(query["labelSelector"], query["fieldSelector"]) for query in script.seen} == {
        ("a=b", "spec.nodeName=n")
    }


def test_a_server_that_is_not_there_is_a_failure_with_a_sentence(cut_off: Client) -> None:
    reflector = Reflector(cut_off, watched_pods(), config=QUICK, random=Random(1))
    reflector.start()
    until(reflector, lambda: reflector.failure is not None)
    reflector.stop()
    assert "cannot list pods: no connection to the API server" in str(reflector.failure)
    assert not reflector.synced


def test_a_frozen_server_is_noticed(frozen: Client) -> None:
    reflector = Reflector(frozen, watched_pods(), config=QUICK, random=Random(1))
    reflector.start()
    until(reflector, lambda: reflector.failure is not None)
    reflector.stop()
    assert reflector.failure == "cannot list pods: the API server did not answer in time"


def test_a_copy_stops_in_the_middle_of_a_silent_watch(script: Script, reflect: Reflect) -> None:
    reflector = reflect()
    until(reflector, lambda: len(script.watched()) == 1 and reflector._response is not None)
    reflector.stop()
    assert not reflector._thread.is_alive()
    assert not script.over.is_set()


def test_a_copy_ages_while_its_watch_is_silent(client: Client, script: Script) -> None:
    now = [50.0]
    speak = threading.Event()

    def pieces() -> Iterator[bytes]:
        yield b"\n"
        speak.wait(WAIT_SECONDS)
        yield event("BOOKMARK", {"metadata": {"resourceVersion": "11"}})
        script.over.wait(WAIT_SECONDS)

    script.watches = [lambda _: Response(pieces())]
    config = ReflectorConfig(clock=lambda: now[0])
    reflector = Reflector(client, watched_pods(), config=config, random=Random(1))
    assert (reflector.silent_seconds, reflector.last_contact) == (0.0, None)
    reflector.start()
    until(reflector, lambda: reflector._response is not None)
    assert (reflector.silent_seconds, reflector.last_contact) == (0.0, 50.0)
    now[0] = 171.0
    assert (reflector.silent_seconds, reflector.last_contact) == (121.0, 50.0)
    assert reflector.failure is None, "the watch is open"
    speak.set()
    until(reflector, lambda: reflector.last_contact == 171.0)
    assert reflector.silent_seconds == 0.0
    script.over.set()
    reflector.stop()


def test_a_watch_that_falls_silent_is_opened_again(
    client: Client, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    def fall_silent(request: Request) -> Response:
        return Response(pieces())

    def pieces() -> Iterator[bytes]:
        yield b"\n"
        script.over.wait(WAIT_SECONDS)  # the reader gives up long before

    impatient = ReflectorConfig(
        watch_seconds=1.0, grace_seconds=1.0, backoff=BackoffConfig(0.01, 0.05)
    )
    script.watches = [fall_silent, Response(event("ADDED", pod("late", "11")))]
    reflector = Reflector(client, watched_pods(), config=impatient, random=Random(1))
    reflector.start()
    until(reflector, lambda: names(reflector) == {"late"})
    script.over.set()
    reflector.stop()
    assert "cannot watch pods: the API server did not answer in time" in caplog.messages
