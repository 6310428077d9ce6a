"""The connection of a person by the plain entries of a kubeconfig, without the client library.

The library takes half a second to import, which is more than a command takes otherwise. What the
entries here do not say (plugins that fetch credentials, proxies) is left to it."""

import base64
import os
import ssl
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

import urllib3
import yaml

if TYPE_CHECKING:
    from kubernetes import client as api

_CLUSTER: Final = frozenset(
    ("server", "certificate-authority", "certificate-authority-data", "tls-server-name")
)
_USER: Final = frozenset(
    {
        *("client-certificate", "client-certificate-data", "client-key", "client-key-data"),
        *("token", "tokenFile", "as", "as-uid", "as-groups", "as-user-extra"),
    }
)
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
_WRONG: Final = (AttributeError, LookupError, OSError, TypeError, ValueError, yaml.YAMLError)
"""The errors of a kubeconfig that is none, or names files that are not there."""


class Access(NamedTuple):
    """The address of the API server, and as whom it is asked."""

    address: str
    pool: urllib3.PoolManager
    headers: Callable[[], urllib3.HTTPHeaderDict]
    """The headers of every request; the token may change."""
    library: "Callable[[], api.ApiClient]"


def user_access(path: Path, context: str | None, user_agent: str) -> Access | None:
    """The access by one kubeconfig file.

    ``None``: the library has to read it, or to say what is wrong with it."""
    if any(os.environ.get(name) for name in _PROXIES):
        return None
    try:
        document = yaml.safe_load(path.read_text())
        named = _entry(document, "context", context or document["current-context"])
        cluster = _entry(document, "cluster", named["cluster"])
        user = _entry(document, "user", named["user"])
        if not (set(cluster) <= _CLUSTER and set(user) <= _USER):
            return None
        return _access(path.parent, cluster, user, user_agent)
    except _WRONG:
        return None


def impersonation(user: Mapping[str, Any]) -> urllib3.HTTPHeaderDict:
    """The headers by which a kubeconfig's user acts as another one; one for each group."""
    headers = urllib3.HTTPHeaderDict()
    for name, key in (("User", "as"), ("Uid", "as-uid")):
        if value := user.get(key):
            headers.add(f"Impersonate-{name}", str(value))
    for group in user.get("as-groups") or ():
        headers.add("Impersonate-Group", str(group))
    for key, values in (user.get("as-user-extra") or {}).items():
        for value in values:
            headers.add(f"Impersonate-Extra-{quote(key, safe='')}", str(value))
    return headers


def _entry(document: Mapping[str, Any], kind: str, name: str) -> dict[str, Any]:
    (found,) = (each[kind] for each in document[f"{kind}s"] if each["name"] == name)
    return dict(found or {})


def _access(
    folder: Path, cluster: Mapping[str, Any], user: Mapping[str, Any], user_agent: str
) -> Access:
    address = str(cluster["server"]).rstrip("/")
    options: dict[str, Any] = {}
    if address.startswith("https://"):
        options["ssl_context"] = _context(folder, cluster, user)
        name = cluster.get("tls-server-name")
        options |= {"server_hostname": name, "assert_hostname": name} if name else {}
    headers = impersonation(user) | {"User-Agent": user_agent}
    if "token" in user or "tokenFile" in user:
        token = user.get("token") or (folder / user["tokenFile"]).read_text().strip()
        headers["authorization"] = f"Bearer {token}"

    def library() -> "api.ApiClient":
        raise NotImplementedError("a person's commands read with plain requests")

    return Access(address, urllib3.PoolManager(**options), lambda: headers, library)


def _context(folder: Path, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    """The server's authority, and the certificate with which the user is known."""
    context = urllib3.util.create_urllib3_context()
    if authority := _content(folder, cluster, "certificate-authority"):
        context.load_verify_locations(cadata=authority.decode())
    else:
        context.load_default_certs()
    certificate = _content(folder, user, "client-certificate")
    if certificate:
        # OpenSSL reads a key from a file alone.
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate + b"\n" + _content(folder, user, "client-key"))
            file.flush()
            context.load_cert_chain(file.name)
    return context


def _content(folder: Path, entry: Mapping[str, Any], name: str) -> bytes:
    """The bytes of NAME-data, else of the file NAME; empty without either."""
    if data := entry.get(f"{name}-data"):
        return base64.b64decode(data)
    return (folder / entry[name]).read_bytes() if entry.get(name) else b""
