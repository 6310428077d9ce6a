"""A trainer's connections: blocking, with time-outs; to one task, and to all PSs of the job at
once."""

import secrets
import socket
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import numpy as np

from examples.light.cluster import Address
from examples.light.frames import (
    HEADER_BYTES,
    BadFrame,
    Frame,
    Kind,
    decode_header,
    pack_values,
    with_payload,
)
from examples.light.problem import Gradient, Vector
from examples.light.sharding import even_slices

_CONNECT_SECONDS = 5.0


class PeerLost(Exception):
    """A connection could not be made or broke: worth another try."""


class PeerAway(Exception):
    """A peer stayed away for as long as is allowed: this task gives up."""


class Patience:
    """Waits between tries, 0.05 s at first and up to 1 s, until a peer has been away for too
    long."""

    def __init__(self, limit_seconds: float) -> None:
        self._limit_seconds = limit_seconds
        self.satisfied()

    def satisfied(self) -> None:
        """All peers are connected: count from the next loss."""
        self._wait_seconds = 0.05
        self._since_seconds: float | None = None

    @property
    def fresh(self) -> bool:
        """Whether no loss has been waited for yet."""
        return self._since_seconds is None

    def wait(self, loss: PeerLost) -> None:
        """Sleep before the next try; PeerAway when the limit has passed since the first loss."""
        now = time.monotonic()
        self._since_seconds = self._since_seconds or now
        if now - self._since_seconds >= self._limit_seconds:
            raise PeerAway(f"gave up after {self._limit_seconds:g} s: {loss}") from loss
        time.sleep(self._wait_seconds)
        self._wait_seconds = min(1.0, 1.5 * self._wait_seconds)


class Connection:
    """A connection to one task, on which a question is followed by its answer."""

    def __init__(self, address: Address, silence_seconds: float) -> None:
        self._address = address
        self._silence_seconds = silence_seconds
        try:
            self._socket = socket.create_connection((address.host, address.port), _CONNECT_SECONDS)
        except OSError as error:
            raise PeerLost(f"no connection to {address}: {error}") from error
        self._socket.settimeout(silence_seconds)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def ask(self, frame: Frame) -> Frame:
        """Send a frame and wait for the answer."""
        self.send(frame)
        return self.receive()

    def send(self, frame: Frame) -> None:
        """Send a frame; PeerLost where the connection broke."""
        try:
            self._socket.sendall(frame.encode())
        except OSError as error:
            raise PeerLost(f"lost {self._address} while sending: {error}") from error

    def receive(self) -> Frame:
        """Wait for a frame; PeerLost where the connection broke, PeerAway where nothing came in
        time."""
        try:
            frame, length = decode_header(self._read(HEADER_BYTES))
            return with_payload(frame, self._read(length))
        except TimeoutError as error:
            raise PeerAway(
                f"{self._address} gave no answer for {self._silence_seconds:g} s"
            ) from error
        except (OSError, BadFrame) as error:
            raise PeerLost(f"lost {self._address} while it was to answer: {error}") from error

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the peer closed the connection")
            data += piece
        return data


class PsGroup:
    """All PSs of a job, each with its slice of the parameters; a question goes to all before one
    answer is read."""

    def __init__(
        self, addresses: Sequence[Address], parameter_count: int, silence_seconds: float
    ) -> None:
        self._slices = even_slices(parameter_count, len(addresses))
        self._connections: list[Connection] = []
        try:
            for address in addresses:
                self._connections.append(Connection(address, silence_seconds))
        except PeerLost:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._connections)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.close()

    def status(self) -> list[Frame]:
        """Ask which run and step each PS holds."""
        return self._ask_all([Frame(Kind.STATUS)] * len(self))

    def pull(self) -> list[Frame]:
        """Ask for the parameters; waits until a PS has some."""
        return self._ask_all([Frame(Kind.PULL)] * len(self))

    def initialise(self, step: int, parameters: Vector) -> None:
        """Start a new run at that step."""
        run = secrets.randbits(63) | 1
        pieces = [pack_values(parameters[piece]) for piece in self._slices]
        self._ask_all(
            [Frame(Kind.INITIALISE, run=run, step=step, payload=piece) for piece in pieces]
        )

    def push(self, sender: int, run: int, step: int, gradient: Gradient) -> list[Frame]:
        """Send each PS its slice of a gradient; the answers come when the update is made."""
        examples, loss = gradient.examples, gradient.loss
        pieces = [pack_values(gradient.values[piece]) for piece in self._slices]
        return self._ask_all(
            [Frame(Kind.PUSH, sender, run, step, examples, loss, piece) for piece in pieces]
        )

    def forget(self, seen: Sequence[Frame]) -> None:
        """Make the PSs drop the runs that were seen of them."""
        self._ask_all([Frame(Kind.FORGET, run=frame.run) for frame in seen])

    def end(self, run: int) -> None:
        """Notify the PSs that the training is over."""
        self._ask_all([Frame(Kind.OVER, run=run)] * len(self))

    def _ask_all(self, frames: Sequence[Frame]) -> list[Frame]:
        for connection, frame in zip(self._connections, frames, strict=True):
            connection.send(frame)
        return [connection.receive() for connection in self._connections]


def join_parameters(frames: Sequence[Frame]) -> Vector:
    """Put the slices that the PSs answered together."""
    return np.concatenate([frame.values() for frame in frames])
