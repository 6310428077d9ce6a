"""Reads and writes kubeconfigs: what the official client does not show, and what pods are given."""

import base64
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class Credentials:
    """How to reach an API server: its address, whom to trust, and who the caller is."""

    server: str
    ca_pem: str
    context: ssl.SSLContext
    token: str | None


def read_kubeconfig(path: Path) -> Credentials:
    """Read the current context of a kubeconfig. Raises ValueError when it is incomplete."""
    config = yaml.safe_load(path.read_text())
    try:
        context = _entry(config, "contexts", config["current-context"])["context"]
        cluster = _entry(config, "clusters", context["cluster"])["cluster"]
        user = _entry(config, "users", context["user"])["user"]
        server = cluster["server"]
    except (KeyError, TypeError, StopIteration):
        raise ValueError(f"{path} has no complete current context") from None
    ca_pem = _content(cluster, "certificate-authority", path) or ""
    tls = ssl.create_default_context(cadata=ca_pem or None)
    # The API server's own certificate lacks the extensions that Python 3.13 began to ask for.
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    _load_client_certificate(tls, user, path)
    token_file = user.get("tokenFile")
    token = user.get("token") or (
        (path.parent / token_file).read_text().strip() if token_file else None
    )
    return Credentials(server.rstrip("/"), ca_pem, tls, token)


def kubeconfig_body(
    server: str, ca_pem: str, user: Mapping[str, str], namespace: str = "default"
) -> dict[str, Any]:
    """A kubeconfig with one cluster, user and context; no `ca_pem` means plain HTTP."""
    authority = base64.b64encode(ca_pem.encode()).decode()
    cluster = {"server": server, **({"certificate-authority-data": authority} if ca_pem else {})}
    context = {"cluster": "local", "user": "local", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": "local", "user": dict(user)}],
        "contexts": [{"name": "local", "context": context}],
        "current-context": "local",
    }


def _entry(config: Any, section: str, name: str) -> Any:
    return next(each for each in config[section] if each["name"] == name)


def _content(section: Mapping[str, Any], key: str, kubeconfig: Path) -> str | None:
    """A PEM that a kubeconfig holds inline or names as a file."""
    if section.get(f"{key}-data"):
        return base64.b64decode(section[f"{key}-data"]).decode()
    return (kubeconfig.parent / str(section[key])).read_text() if section.get(key) else None


def _load_client_certificate(
    tls: ssl.SSLContext, user: Mapping[str, Any], kubeconfig: Path
) -> None:
    certificate = _content(user, "client-certificate", kubeconfig)
    key = _content(user, "client-key", kubeconfig)
    if not certificate or not key:
        return
    # The ssl module reads certificates from files only; this one exists for the time of the call.
    descriptor, name = tempfile.mkstemp()
    try:
        with os.fdopen(descriptor, "w") as combined:
            combined.write(f"{certificate}\n{key}\n")
        tls.load_cert_chain(name)
    finally:
        Path(name).unlink()
