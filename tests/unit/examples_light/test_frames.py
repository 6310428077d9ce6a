"""Frames: what is sent arrives, and what is no frame is refused with a sentence."""

import asyncio
import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.light.frames import (
    HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    BadFrame,
    Frame,
    Kind,
    decode_header,
    pack_document,
    pack_values,
    read_frame,
    with_payload,
)

_frames = st.builds(
    Frame,
    kind=st.sampled_from(Kind),
    sender=st.integers(0, 2**16 - 1),
    run=st.integers(0, 2**64 - 1),
    step=st.integers(0, 2**64 - 1),
    examples=st.integers(0, 2**32 - 1),
    loss=st.floats(allow_nan=False),
    payload=st.binary(max_size=200),
)


@given(_frames)
def test_a_frame_comes_back_as_it_was(frame: Frame) -> None:
    data = frame.encode()
    header, length = decode_header(data[:HEADER_BYTES])
    assert with_payload(header, data[HEADER_BYTES:]) == frame
    assert length == len(frame.payload)


def _header(magic: bytes = b"OPLT", version: int = 1, kind: int = 4, length: int = 0) -> bytes:
    return struct.pack("!4sBBHQQIdI", magic, version, kind, 0, 0, 0, 0, 0.0, length)


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        pytest.param(_header(magic=b"GET "), "not with a frame", id="an HTTP request is no frame"),
        pytest.param(
            _header(version=9), "not with a frame", id="another version is not understood"
        ),
        pytest.param(_header(kind=99), "kind 99", id="an unknown kind is named"),
        pytest.param(
            _header(length=MAX_PAYLOAD_BYTES + 1), "over the limit", id="a payload has a bound"
        ),
    ],
)
def test_headers_that_are_refused(header: bytes, sentence: str) -> None:
    with pytest.raises(BadFrame, match=sentence):
        decode_header(header)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"\xff\xfe", id="bytes that are no text"),
        pytest.param(b"{", id="a text that is no JSON"),
        pytest.param(b"[1]", id="JSON that is no object"),
    ],
)
def test_a_document_must_be_a_json_object(payload: bytes) -> None:
    with pytest.raises(BadFrame, match="JSON"):
        Frame(Kind.REGISTER, payload=payload).document()


def test_documents_and_values_come_back_as_they_were() -> None:
    values = np.array([1.5, -0.0, math.pi])
    assert Frame(Kind.ADDRESSES, payload=pack_document({"servers": [["h", 1]]})).document() == {
        "servers": [["h", 1]]
    }
    assert np.array_equal(Frame(Kind.PUSH, payload=pack_values(values)).values(), values)


def test_values_must_be_whole_numbers_of_eight_bytes() -> None:
    with pytest.raises(BadFrame, match="9 bytes"):
        Frame(Kind.PUSH, payload=b"123456789").values()


async def _read_all(data: bytes) -> Frame | None:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return await read_frame(reader)


def test_a_connection_may_end_between_frames_but_not_within_a_header() -> None:
    assert asyncio.run(_read_all(b"")) is None
    with pytest.raises(BadFrame, match="ended within a header, after 3 bytes"):
        asyncio.run(_read_all(b"OPL"))
