"""Mutual TLS with kube-scheduler: certificates that are renewed while the process runs.

A certificate mounted from a Secret is replaced in place some time before it ends. kube-scheduler
keeps its connections, and a new one is rare: then the files are looked at again."""

import logging
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path

from extender.settings import Settings

_LOG = logging.getLogger(__name__)


class BadCertificate(Exception):
    """The files cannot be used; ``str()`` is a sentence for people."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: this side's certificate and key, and the CAs that sign the certificates of
    clients."""

    certificate: Path
    key: Path
    client_ca: Path

    @classmethod
    def of(cls, settings: Settings) -> "TlsFiles | None":
        """Those that the settings name; ``None`` without TLS."""
        certificate, key = settings.tls_cert_file, settings.tls_private_key_file
        client_ca = settings.client_ca_file
        if certificate is None or key is None or client_ca is None:
            return None
        return cls(certificate, key, client_ca)

    def context(self) -> ssl.SSLContext:
        """A context that admits only clients with a certificate of one of these CAs.

        Raises:
            BadCertificate: a file is missing or unfit."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(self.client_ca)
        except (OSError, ssl.SSLError) as error:
            raise BadCertificate(f"--client-ca-file {self.client_ca}: {_why(error)}") from error
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            both = f"--tls-cert-file {self.certificate} with --tls-private-key-file {self.key}"
            raise BadCertificate(f"{both}: {_why(error)}") from error
        return context

    def versions(self) -> tuple[tuple[int, int], ...] | None:
        """Return what changes when a file is replaced; ``None`` while one is missing."""
        try:
            found = [path.stat() for path in (self.certificate, self.key, self.client_ca)]
        except OSError:
            return None
        return tuple((each.st_mtime_ns, each.st_ino) for each in found)


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"not in PEM, or not a pair ({error.reason or error})"
    return error.strerror or str(error)


class Tls:
    """Connections with kube-scheduler, by the newest files that can be used. Thread-safe."""

    def __init__(self, files: TlsFiles) -> None:
        """Raises BadCertificate where the files cannot be used."""
        self._files = files
        self._mutex = threading.Lock()
        self._versions = files.versions()
        self._context = files.context()

    def newest(self) -> ssl.SSLContext:
        """The context for a new connection."""
        with self._mutex:
            versions = self._files.versions()
            if versions != self._versions:
                self._versions = versions
                try:
                    self._context = self._files.context()
                    _LOG.info("the certificate for kube-scheduler's calls has been read again")
                except BadCertificate as error:
                    _LOG.warning("the certificate in use stays: %s", error)
            return self._context
