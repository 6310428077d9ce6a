"""The connection of a person by the plain entries of a kubeconfig, without the client library.

The library takes half a second to import, which is more than a command takes otherwise. What the
entries here do not say (plugins that fetch credentials, proxies) is left to it."""

import base64
import os
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import urllib3
import yaml

from optimus.kube.client import (
    Access,
    Client,
    impersonation,
    is_pod,
    library_access,
    path_of_user,
)

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


def connect_user(kubeconfig: Path | None, context: str | None, *, user_agent: str) -> Client:
    """Connect for a person: ``context`` names one of the kubeconfig's; default: its current one.

    Raises:
        KubeError: as ``connect``.
    """
    known = None
    if not is_pod(kubeconfig, context):
        known = user_access(path_of_user(kubeconfig), context, user_agent)
    return Client(known or library_access(kubeconfig, context, user_agent))


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

    def library() -> NoReturn:
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


def contexts_of(
    kubeconfig: Path | None, environment: Mapping[str, str]
) -> Mapping[str, Mapping[str, str]]:
    """The contexts of the kubeconfig by name, the current one also under the empty name; none where
    it cannot be read. Of several files the first that has a value wins, as in kubectl."""
    named = [Path(each) for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    paths = [kubeconfig] if kubeconfig else named or [Path.home() / ".kube" / "config"]
    contexts: dict[str, Mapping[str, str]] = {}
    current = ""
    for path in paths:
        found, chosen = _contexts_in(path)
        contexts = {**found, **contexts}
        current = current or chosen
    return {"": contexts.get(current, {}), **contexts} if contexts else {}


def _contexts_in(path: Path) -> tuple[Mapping[str, Mapping[str, str]], str]:
    """The contexts of one file, and the name of its current one."""
    try:
        document = yaml.safe_load(path.read_text())
        contexts = {str(each["name"]): dict(each["context"] or {}) for each in document["contexts"]}
        return contexts, str(document.get("current-context") or "")
    except (OSError, ValueError, yaml.YAMLError, AttributeError, LookupError, TypeError):
        return {}, ""


def namespace_of(
    kubeconfig: Path | None, environment: Mapping[str, str], context: str | None = None
) -> str:
    """The namespace of the kubeconfig's context (default: the current one), else ``default``."""
    found = contexts_of(kubeconfig, environment).get(context or "", {})
    return str(found.get("namespace") or "default")
