"""Errors, watch lines, back-off, the store and logs: the small parts that carry bytes."""

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.kube.errors import (
    LONGEST_WAIT_SECONDS,
    ErrorKind,
    KubeError,
    Malformed,
    from_answer,
)
from optimus.kube.list_watch import decode_event, decode_page
from optimus.kube.logs import parse_log
from optimus.kube.reflector import Backoff, BackoffConfig
from optimus.kube.store import Changes, Key, ObjectStore
from optimus.progress.types import LogLine
from tests.cases import cases


@cases(
    ("code", "body", "headers", "kind"),
    {
        "a stale version": (409, b'{"reason":"Conflict"}', {}, ErrorKind.CONFLICT),
        "a name that is taken": (409, b'{"reason":"AlreadyExists"}', {}, ErrorKind.EXISTS),
        "a version too old": (410, b'{"reason":"Expired"}', {}, ErrorKind.EXPIRED),
        "gone": (404, b"", {}, ErrorKind.NOT_FOUND),
        "no right": (403, b"{}", {}, ErrorKind.FORBIDDEN),
        "never valid": (422, b"{}", {}, ErrorKind.INVALID),
        "too many requests": (429, b"{}", {"Retry-After": "3"}, ErrorKind.THROTTLED),
        "busy, with a time": (503, b"{}", {"Retry-After": "3"}, ErrorKind.THROTTLED),
        "busy, without": (503, b"<html>", {}, ErrorKind.TRANSIENT),
        "not there yet": (
            504,
            b'{"message":"Too large resource version"}',
            {},
            ErrorKind.TRANSIENT,
        ),
    },
)
def test_answers_are_sorted_by_what_to_do(
    code: int, body: bytes, headers: dict[str, str], kind: ErrorKind
) -> None:
    error = from_answer("try", code, body, headers)
    assert error.kind is kind
    assert str(error).startswith("cannot try: ")
    assert error.retry_after_seconds == (3.0 if headers else None)


@pytest.mark.parametrize(
    ("text", "seconds"), [("99999", LONGEST_WAIT_SECONDS), ("soon", None), ("", None)]
)
def test_a_wait_is_bounded(text: str, seconds: float | None) -> None:
    assert from_answer("try", 429, b"", {"Retry-After": text}).retry_after_seconds == seconds


@given(st.binary(max_size=200))
def test_any_line_is_an_event_or_refused(line: bytes) -> None:
    try:
        decode_event("watch", line)
    except (Malformed, KubeError) as error:
        sentence = str(error)
    else:
        sentence = "an event"
    assert sentence


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"metadata":{}}', b'{"metadata":{"resourceVersion":""}}']
)
def test_a_list_without_a_version_is_refused(body: bytes) -> None:
    with pytest.raises(Malformed):
        decode_page(body)


@given(st.lists(st.floats(0, 60), max_size=20), st.integers())
def test_waits_double_up_to_the_cap_and_obey_the_server(asked: list[float], seed: int) -> None:
    backoff = Backoff(BackoffConfig(1.0, 30.0), Random(seed))
    for number, least in enumerate(asked):
        wait = backoff.after_failure(least)
        whole = min(30.0, 2.0**number)
        assert max(least, whole / 2) <= wait <= max(least, whole)
    backoff.reset()
    assert backoff.after_failure() <= 1.0


class Thing(msgspec.Struct, frozen=True):
    name: str
    value: int = 0
    namespace: str = "ns"


things = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2)).map(
    lambda found: {Key("ns", name): Thing(name, value) for name, value in found.items()}
)


@given(st.lists(things, max_size=6))
def test_the_changes_add_up_to_the_content_of_the_store(steps: list[dict[Key, Thing]]) -> None:
    known: dict[Key, Thing] = {}

    def follow(before: Thing | None, after: Thing | None) -> None:
        if before is not None:
            assert known.pop(Key(before.namespace, before.name)) == before
        if after is not None:
            known[Key(after.namespace, after.name)] = after

    store: ObjectStore[Thing] = ObjectStore(Changes(), follow)
    for step in steps:
        store.replace(step)
        assert known == step
        assert set(store.items()) == set(step.values())
    store.put(Key("ns", "z"), Thing("z"))
    store.put(Key("ns", "z"), None)
    assert store.find(Key("ns", "z")) is None
    assert len(known) == len(store)


@cases(
    ("body", "limit", "lines"),
    {
        "nothing": (b"", 100, []),
        "one line": (b"1970-01-01T00:00:01Z a\n", 100, [LogLine(1.0, "a")]),
        "cut at the end": (
            b"1970-01-01T00:00:01Z a\n1970-01-01T00:00:02Z b",
            100,
            [LogLine(1.0, "a")],
        ),
        "one line larger than the limit": (b"1970-01-01T00:00:01Z aaa", 24, [LogLine(1.0, "aaa")]),
        "one line still being written": (b"1970-01-01T00:00:01Z aaa", 99, []),
        "the agent's own words": (b"no logs here\n", 100, []),
        "an empty line": (b"1970-01-01T00:00:01Z \n", 100, [LogLine(1.0, "")]),
    },
)
def test_whole_lines_are_read(body: bytes, limit: int, lines: list[LogLine]) -> None:
    assert parse_log(body, limit) == lines


@given(st.binary(max_size=300))
def test_any_bytes_are_a_log(body: bytes) -> None:
    assert all("\n" not in line.text for line in parse_log(body))
