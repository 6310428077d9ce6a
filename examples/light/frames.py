"""What travels between tasks: one fixed header and a bounded payload per message.

A frame is magic, version, kind, sender, run, step, examples, loss and the payload's length, in
network byte order, then the payload: float64 values (little endian), or JSON where tasks find each
other."""

import asyncio
import json
import struct
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from examples.light.problem import Vector

_HEADER = struct.Struct("!4sBBHQQIdI")
_MAGIC = b"OPLT"
_VERSION = 1
HEADER_BYTES = _HEADER.size
MAX_PAYLOAD_BYTES = 16 * 1024 * 1024


class BadFrame(ValueError):
    """The bytes that arrived are no frame of ours: the connection is of no use any more."""


class Kind(IntEnum):
    """What a frame asks or answers."""

    STATUS = 1
    """Which run and step do you hold? Answered by STATE (run 0: nothing yet)."""
    STATE = 2
    INITIALISE = 3
    """Trainer 0: start this run at this step with these values. Answered by STATE."""
    PULL = 4
    """Send the values, as soon as there are some. Answered by PARAMETERS."""
    PUSH = 5
    """A gradient. Answered by PARAMETERS after the update, STALE, or OVER."""
    PARAMETERS = 6
    STALE = 7
    """The run or step that you speak of is not the present one: pull again."""
    FORGET = 8
    """Shards disagree: drop your values, so that trainer 0 starts again from the checkpoint.
    Answered by STATE."""
    OVER = 9
    """Training has ended: sent by trainer 0 (answered by STATE), then the answer to all others."""
    REGISTER = 10
    """Server or worker to scheduler. Answered by ADDRESSES once all servers are known."""
    ADDRESSES = 11
    FINISHED = 12
    """Worker to scheduler: I have ended. Answered by SHUTDOWN, as are the servers once all workers
    have."""
    SHUTDOWN = 13


_KNOWN_KINDS = frozenset(int(kind) for kind in Kind)


@dataclass(frozen=True)
class Frame:
    """One message; fields that a kind does not use are 0."""

    kind: Kind
    sender: int = 0
    run: int = 0
    step: int = 0
    examples: int = 0
    loss: float = 0.0
    payload: bytes = b""

    def encode(self) -> bytes:
        """Lay the frame out as bytes."""
        return (
            _HEADER.pack(
                _MAGIC,
                _VERSION,
                self.kind,
                self.sender,
                self.run,
                self.step,
                self.examples,
                self.loss,
                len(self.payload),
            )
            + self.payload
        )

    def values(self) -> Vector:
        """Read the payload as float64 values; BadFrame if it cannot be."""
        if len(self.payload) % 8:
            raise BadFrame(
                f"a payload of {len(self.payload)} bytes holds no whole number of float64 values"
            )
        return np.frombuffer(self.payload, dtype="<f8").astype(np.float64)

    def document(self) -> dict[str, object]:
        """Read the payload as a JSON object; BadFrame if it is none."""
        try:
            document = json.loads(self.payload)
        except ValueError as error:
            raise BadFrame(f"the payload is no JSON: {error}") from error
        if not isinstance(document, dict):
            raise BadFrame("the payload is no JSON object")
        return document


def pack_values(values: Vector) -> bytes:
    """Lay float64 values out as a payload."""
    return values.astype("<f8").tobytes()


def pack_document(document: dict[str, object]) -> bytes:
    """Lay a JSON object out as a payload."""
    return json.dumps(document).encode()


def decode_header(header: bytes) -> tuple[Frame, int]:
    """Read a header of HEADER_BYTES bytes: the frame without its payload, and the payload's length
    in bytes."""
    magic, version, kind, sender, run, step, examples, loss, length = _HEADER.unpack(header)
    if magic != _MAGIC or version != _VERSION:
        raise BadFrame(
            f"the connection starts with {bytes(header[:5])!r}, not with a frame of this trainer"
        )
    if kind not in _KNOWN_KINDS:
        raise BadFrame(f"frames of kind {kind} are not known")
    if length > MAX_PAYLOAD_BYTES:
        raise BadFrame(f"a payload of {length} bytes is over the limit of {MAX_PAYLOAD_BYTES}")
    return Frame(Kind(kind), sender, run, step, examples, loss), length


async def read_frame(reader: asyncio.StreamReader) -> Frame | None:
    """Read the next frame; None when the peer has closed the connection between two frames."""
    try:
        header = await reader.readexactly(HEADER_BYTES)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise BadFrame(
                f"the connection ended within a header, after {len(error.partial)} bytes"
            ) from error
        return None
    frame, length = decode_header(header)
    return with_payload(frame, await reader.readexactly(length)) if length else frame


def with_payload(frame: Frame, payload: bytes) -> Frame:
    """Complete a decoded header by its payload."""
    return Frame(
        frame.kind, frame.sender, frame.run, frame.step, frame.examples, frame.loss, payload
    )
