"""Mutual TLS with kube-scheduler: who is answered, and certificates that are replaced."""

import logging
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import trustme

from extender.http.tls import BadCertificate, Tls, TlsFiles
from tests.cases import cases
from tests.harness.waiting import LONG_SECONDS

NAME = "optimus-extender"


class Issuer:
    """A CA with a folder of files as a Secret has them."""

    def __init__(self, folder: Path) -> None:
        self.ca = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self.folder = folder
        folder.mkdir()
        self.ca.cert_pem.write_to_path(folder / "ca.crt")
        self.issue()

    def issue(self) -> None:
        """Put a new certificate in the place of the one before."""
        issued = self.ca.issue_cert(NAME, key_type=trustme.KeyType.ECDSA)
        for name, blob in (
            ("tls.crt", issued.cert_chain_pems[0]),
            ("tls.key", issued.private_key_pem),
        ):
            blob.write_to_path(self.folder / "new")
            (self.folder / "new").replace(self.folder / name)

    @property
    def files(self) -> TlsFiles:
        return TlsFiles(*(self.folder / name for name in ("tls.crt", "tls.key", "ca.crt")))

    def client(self, *, certified: bool = True) -> ssl.SSLContext:
        """kube-scheduler's side, or that of somebody without a certificate."""
        context = ssl.create_default_context(cafile=self.folder / "ca.crt")
        if certified:
            context.load_cert_chain(self.folder / "tls.crt", self.folder / "tls.key")
        return context


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer(tmp_path / "secret")


def call(tls: Tls, client: Callable[[socket.socket], object]) -> str:
    """What the server says of a client: its first bytes, or why there were none."""
    ours, theirs = socket.socketpair()

    def run() -> None:
        with suppress(OSError):
            client(theirs)

    calling = threading.Thread(target=run)
    calling.start()
    try:
        ours.settimeout(LONG_SECONDS)
        with tls.newest().wrap_socket(ours, server_side=True) as secured:
            secured.do_handshake()
            return secured.recv(10).decode()
    except OSError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        ours.close()
        calling.join()
        theirs.close()


def greeting(context: ssl.SSLContext) -> Callable[[socket.socket], None]:
    def send(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_hostname=NAME) as secured:
            secured.sendall(b"hello")
            secured.recv(1)  # until the server has closed

    return send


def serial(connection: socket.socket, context: ssl.SSLContext) -> str:
    with context.wrap_socket(connection, server_hostname=NAME) as secured:
        certificate = secured.getpeercert()
        assert certificate is not None
        secured.sendall(b"hello")
        return str(certificate["serialNumber"])


def test_a_client_with_a_certificate_of_the_ca_is_answered(issuer: Issuer) -> None:
    assert call(Tls(issuer.files), greeting(issuer.client())) == "hello"


def test_anybody_else_is_not(issuer: Issuer, tmp_path: Path) -> None:
    tls = Tls(issuer.files)
    assert "did not return a certificate" in call(tls, greeting(issuer.client(certified=False)))
    another = Issuer(tmp_path / "another").client()
    another.check_hostname, another.verify_mode = False, ssl.CERT_NONE
    assert "certificate verify failed" in call(tls, greeting(another))
    assert "SSLError" in call(tls, lambda plain: plain.sendall(b"POST /filter HTTP/1.1\r\n"))
    assert call(tls, greeting(issuer.client())) == "hello"


def test_a_certificate_that_is_renewed_is_used_from_the_next_connection_on(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    tls, seen = Tls(issuer.files), []
    context = issuer.client()
    for _ in range(2):
        for _ in range(2):
            assert call(tls, lambda it: seen.append(serial(it, context))) == "hello"
        issuer.issue()
    assert seen[0] == seen[1] != seen[2] == seen[3]
    assert caplog.text.count("has been read again") == 1


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt"])
def test_while_new_files_cannot_be_used_the_former_stay_in_use(
    issuer: Issuer, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    tls, context = Tls(issuer.files), issuer.client()
    path = issuer.folder / name
    whole = path.read_text()
    path.write_text("half of a file")
    for _ in range(2):
        assert call(tls, greeting(context)) == "hello"
    assert caplog.text.count("the certificate in use stays: --") == 1
    path.unlink()
    assert call(tls, greeting(context)) == "hello"
    path.write_text(whole)
    assert call(tls, greeting(context)) == "hello"


@cases(
    ("name", "expected"),
    {
        "CA": ("ca.crt", "--client-ca-file .*ca.crt: not in PEM"),
        "key": ("tls.key", "--tls-cert-file .* with .*tls.key: not in PEM"),
    },
)
def test_a_start_with_files_that_cannot_be_used_says_which(
    issuer: Issuer, name: str, expected: str
) -> None:
    (issuer.folder / name).write_text("x")
    with pytest.raises(BadCertificate, match=expected):
        Tls(issuer.files)
    (issuer.folder / name).unlink()
    with pytest.raises(BadCertificate, match=f"{name}: No such file or directory"):
        Tls(issuer.files)
