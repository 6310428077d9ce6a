"""Listing and watching pods: what a handler is told, whatever the server does."""

from collections.abc import Iterator
from typing import Any

from localcluster.node.api import ApiError
from localcluster.node.reflector import Reflector


def seen_as(uid: str, version: str = "1") -> dict[str, Any]:
    """Return a pod of no interest but its UID."""
    return {"metadata": {"uid": uid, "resourceVersion": version, "creationTimestamp": uid}}


class Server:
    """Answers lists and watches from two scripts, then ends the reflector."""

    def __init__(self, lists: list[Any], watches: list[Any]) -> None:
        self.lists = lists
        self.watches = watches
        self.asked: list[str] = []
        self.reflector: Reflector | None = None

    def get(self, path: str) -> dict[str, Any]:
        self.asked.append(path.partition("?")[2])
        answer = self.lists.pop(0)
        if isinstance(answer, ApiError):
            raise answer
        found: dict[str, Any] = answer
        return found

    def watch(self, path: str, resource_version: str, seconds: int) -> Iterator[dict[str, Any]]:
        self.asked.append(f"watch {resource_version}")
        events = self.watches.pop(0)
        if not self.watches:
            assert self.reflector is not None
            self.reflector.stop()
        for event in events:
            if isinstance(event, ApiError):
                raise event
            yield event


class Told:
    """What the handler was told, as words."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def seen(self, pod: dict[str, Any]) -> None:
        self.words.append(f"seen {pod['metadata']['uid']}")

    def gone(self, pod: dict[str, Any]) -> None:
        self.words.append(f"gone {pod['metadata']['uid']}")


def a_list(version: str, *uids: str, more: str = "") -> dict[str, Any]:
    """Return one page of a list."""
    return {
        "metadata": {"resourceVersion": version, "continue": more},
        "items": [seen_as(uid) for uid in uids],
    }


def event(kind: str, uid: str = "", version: str = "9") -> dict[str, Any]:
    """Return an event of a watch."""
    return {"type": kind, "object": seen_as(uid, version)}


def follow(lists: list[Any], watches: list[Any]) -> tuple[list[str], list[str]]:
    """Run a reflector over the scripts; return what was told and what was asked."""
    server, told = Server(lists, watches), Told()
    server.reflector = Reflector(server, told)
    server.reflector.run()
    return told.words, server.asked


def test_pods_are_told_in_the_order_of_their_creation_over_all_pages() -> None:
    told, asked = follow([a_list("5", "b", more="x"), a_list("5", "a")], [[]])
    assert told == ["seen a", "seen b"]
    assert asked == ["limit=500", "limit=500&continue=x", "watch 5"]


def test_a_watch_that_ends_goes_on_from_the_last_version_with_bookmarks() -> None:
    events = [event("ADDED", "a", "6"), event("MODIFIED", "a", "7"), event("BOOKMARK", "", "8")]
    told, asked = follow([a_list("5")], [events, [event("DELETED", "a", "9")]])
    assert told == ["seen a", "seen a", "gone a"]
    assert asked[1:] == ["watch 5", "watch 8"]


def test_an_expired_version_is_listed_anew_and_what_is_gone_is_told_first() -> None:
    expired = {"type": "ERROR", "object": {"code": 410, "message": "too old"}}
    told, asked = follow([a_list("5", "a", "b"), a_list("20", "b", "c")], [[expired], []])
    assert told == ["seen a", "seen b", "gone a", "seen b", "seen c"]
    assert asked[-1] == "watch 20"


def test_a_server_that_refuses_is_asked_again() -> None:
    told, _ = follow([ApiError(503, "not yet"), a_list("5", "a")], [[]])
    assert told == ["seen a"]


def test_a_broken_watch_is_listed_anew() -> None:
    told, _ = follow([a_list("5", "a"), a_list("6", "a")], [[ApiError(0, "cut")], []])
    assert told == ["seen a", "seen a"]
