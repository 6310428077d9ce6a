"""A request that arrives in parts: when it is whole, and what of it is kept."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.http.incoming import Incoming, TooLarge
from tests.cases import cases

LIMIT = 100


def request(body: bytes = b"{}", *headers: str, length: object = None) -> bytes:
    lines = ["POST /filter HTTP/1.1", "Host: x", *headers]
    if length != "":
        lines.append(f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def incoming() -> Incoming:
    return Incoming(LIMIT, 0.0)


@given(st.binary(max_size=LIMIT), st.lists(st.integers(0, 200), max_size=5))
def test_it_is_whole_with_its_last_byte_however_it_is_cut(body: bytes, cuts: list[int]) -> None:
    sent, arriving = request(body), incoming()
    edges = sorted({0, *(cut for cut in cuts if cut < len(sent) - 1), len(sent) - 1})
    for begin, end in pairwise(edges):
        assert not arriving.feed(sent[begin:end])
    assert arriving.feed(sent[-1:])
    assert arriving.take() == sent


@cases(
    "sent",
    {
        "of a known length": request(b"x", length=10_000),
        "in chunks": request(b"x" * 200, "Transfer-Encoding: chunked", length=""),
    },
)
def test_a_body_that_is_much_too_large_is_not_read(sent: bytes) -> None:
    with pytest.raises(TooLarge):
        incoming().feed(sent)
