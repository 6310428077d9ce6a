"""Readiness probes of the supervisor: one short check, answered with yes or no."""

import contextlib
import http.client
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_LOOK_SECONDS = 1.0


def unverified_context() -> ssl.SSLContext:
    """Return a context that checks no certificate, as kubelets probe and API servers fetch logs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Probe(Protocol):
    """One look at a component."""

    def ready(self, log_offset: int) -> bool:
        """Answer within about a second, never raise; this start's log begins at `log_offset`."""


@dataclass(frozen=True)
class HttpProbe:
    """Ready when a GET on loopback answers 200. With `authority` (a CA file) it speaks TLS.

    `client` is the path, without its ending, of the certificate and key with which it identifies
    itself. With `unverified` it speaks TLS and checks no certificate."""

    port: int
    path: str
    authority: Path | None = None
    client: Path | None = None
    unverified: bool = False

    def ready(self, log_offset: int) -> bool:
        """Ask once; every failure means not yet."""
        del log_offset
        try:
            with contextlib.closing(self._connection()) as connection:
                connection.request("GET", self.path)
                return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False

    def _connection(self) -> http.client.HTTPConnection:
        context = self._context()
        if context is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=_LOOK_SECONDS)
        return http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=_LOOK_SECONDS, context=context
        )

    def _context(self) -> ssl.SSLContext | None:
        if self.unverified:
            return unverified_context()
        if self.authority is None:
            return None
        context = ssl.create_default_context(cafile=str(self.authority))
        if self.client is not None:
            context.load_cert_chain(
                self.client.with_suffix(".crt"), self.client.with_suffix(".key")
            )
        return context


@dataclass(frozen=True)
class LogLineProbe:
    """Ready when the component has written a line that is exactly `line` since it was started."""

    log: Path
    line: str

    def ready(self, log_offset: int) -> bool:
        """Look through what was written since the start."""
        try:
            with self.log.open("rb") as stream:
                stream.seek(log_offset)
                return any(each.rstrip() == self.line.encode() for each in stream)
        except OSError:
            return False


@dataclass(frozen=True)
class AllProbe:
    """Ready when every one of several probes says so, asked in their order."""

    probes: tuple[Probe, ...]

    def ready(self, log_offset: int) -> bool:
        """Ask until one says no."""
        return all(probe.ready(log_offset) for probe in self.probes)
