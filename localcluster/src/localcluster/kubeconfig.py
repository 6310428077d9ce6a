"""Reads and writes kubeconfigs: what the official client does not show, and what pods are given."""

import base64
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localcluster.client import api_client


@dataclass(frozen=True)
class Credentials:
    """How to reach an API server: its address, whom to trust, and who the caller is."""

    server: str
    ca_pem: str
    context: ssl.SSLContext
    token: str | None


def read_kubeconfig(path: Path) -> Credentials:
    """Read the current context of a kubeconfig. Raises ConfigException when it is incomplete."""
    configuration = api_client(path).configuration
    authority = configuration.ssl_ca_cert
    ca_pem = Path(authority).read_text() if authority else ""
    tls = tls_context(ca_pem)
    if configuration.cert_file:
        tls.load_cert_chain(configuration.cert_file, configuration.key_file)
    token = configuration.api_key.get("BearerToken", "").removeprefix("Bearer ").strip()
    return Credentials(str(configuration.host), ca_pem, tls, token or None)


def tls_context(ca_pem: str) -> ssl.SSLContext:
    """Return a context that trusts one authority; with "" those that the machine trusts."""
    tls = ssl.create_default_context(cadata=ca_pem or None)
    # The API server's own certificate lacks the extensions that Python 3.13 began to ask for.
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return tls


def kubeconfig_body(
    server: str, ca: str | Path, user: Mapping[str, str], namespace: str = "default"
) -> dict[str, Any]:
    """Return a kubeconfig with one cluster, user and context.

    `ca`: the authority's certificate, embedded, or its file, which is named; "": plain HTTP."""
    cluster = {"server": server, **_authority(ca)}
    context = {"cluster": "local", "user": "local", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": "local", "user": dict(user)}],
        "contexts": [{"name": "local", "context": context}],
        "current-context": "local",
    }


def _authority(ca: str | Path) -> dict[str, str]:
    if isinstance(ca, Path):
        return {"certificate-authority": str(ca)}
    return {"certificate-authority-data": base64.b64encode(ca.encode()).decode()} if ca else {}


def write_kubeconfig(path: Path, server: str, ca: str | Path, user: Mapping[str, str]) -> None:
    """Write a kubeconfig that only its owner may read; `ca` as for `kubeconfig_body`."""
    body = kubeconfig_body(server, ca, user)
    write_private(path, json.dumps(body, indent=1).encode())  # JSON is YAML


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read."""
    path.touch(mode=0o600)
    path.write_bytes(data)
