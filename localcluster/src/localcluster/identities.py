"""Throwaway certificates and kubeconfigs of the components.

Two authorities are made for each start of a cluster: one that the API server trusts for clients and
that signs its own certificate, one for etcd alone, so that no client of the API server can reach
the store."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme
import yaml

from localcluster.paths import ClusterPaths

_LOOPBACK_NAMES = (
    "127.0.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
)


@dataclass(frozen=True)
class Identity:
    """A client of the API server: user (common name) and group (organization)."""

    user: str
    group: str | None = None


ADMIN = "admin"
NODE_AGENT_USER = "optimus:node-agent"
OPERATOR_ACCOUNT = ("kubeflow", "training-operator")

IDENTITIES: Mapping[str, Identity] = {
    ADMIN: Identity("kubernetes-admin", "system:masters"),
    "kube-controller-manager": Identity("system:kube-controller-manager"),
    "kube-scheduler": Identity("system:kube-scheduler"),
    "node-agent": Identity(NODE_AGENT_USER),
    # The operator runs outside of the cluster, with exactly the rights of its ServiceAccount
    # inside.
    "training-operator": Identity(
        ":".join(("system", "serviceaccount", *OPERATOR_ACCOUNT)), "system:serviceaccounts"
    ),
}


def write_identities(paths: ClusterPaths, api_port: int) -> None:
    """Write every certificate, key and kubeconfig below `paths.pki`."""
    paths.pki.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority, store_authority = trustme.CA(), trustme.CA()
    _write(paths.pki / "ca.crt", authority.cert_pem)
    _write(paths.pki / "etcd-ca.crt", store_authority.cert_pem)
    _write(
        paths.pki / "front-proxy-ca.crt", trustme.CA().cert_pem
    )  # its key is dropped: no client may be a proxy
    _write_pair(paths.pki, "serving", authority.issue_cert(*_LOOPBACK_NAMES))
    _write_pair(paths.pki, "etcd", store_authority.issue_cert(*_LOOPBACK_NAMES))
    _write_pair(paths.pki, "etcd-client", _client_cert(store_authority, Identity("kube-apiserver")))
    # Any EC key signs service-account tokens; trustme is the maker of keys at hand.
    _write(
        paths.pki / "service-account.key",
        _client_cert(authority, Identity("tokens")).private_key_pem,
    )
    for name, identity in IDENTITIES.items():
        cert = _client_cert(authority, identity)
        _write_pair(paths.pki, name, cert)
        target = paths.kubeconfig if name == ADMIN else paths.kubeconfig_of(name)
        _write_kubeconfig(target, f"https://127.0.0.1:{api_port}", authority, cert)


def _client_cert(authority: trustme.CA, identity: Identity) -> trustme.LeafCert:
    # Go refuses a certificate whose list of names is marked as critical and empty, so it gets one
    # name.
    group = (
        identity.group or "localcluster"
    )  # trustme would write its own name, and a group it would be
    return authority.issue_cert(
        "client.invalid", common_name=identity.user, organization_name=group
    )


def _write_pair(folder: Path, name: str, cert: trustme.LeafCert) -> None:
    _write(folder / f"{name}.key", cert.private_key_pem)
    chain = b"".join(blob.bytes() for blob in cert.cert_chain_pems)
    _write(folder / f"{name}.crt", trustme.Blob(chain))


def _write(path: Path, blob: trustme.Blob) -> None:
    path.touch(mode=0o600)
    path.write_bytes(blob.bytes())


def _write_kubeconfig(
    path: Path, server: str, authority: trustme.CA, cert: trustme.LeafCert
) -> None:
    user = {
        "client-certificate-data": _encoded(cert.cert_chain_pems[0]),
        "client-key-data": _encoded(cert.private_key_pem),
    }
    cluster = {"server": server, "certificate-authority-data": _encoded(authority.cert_pem)}
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": "local", "user": user}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "local"}}],
        "current-context": "local",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(body, sort_keys=False))


def _encoded(blob: trustme.Blob) -> str:
    return base64.b64encode(blob.bytes()).decode()
