"""Throwaway certificates and kubeconfigs of the components.

Two authorities are made for each start of a cluster: one that the API server trusts for clients and
that signs its own certificate, one for etcd alone, so that no client of the API server can reach
the store."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import trustme

from localcluster.kubeconfig import write_kubeconfig, write_private
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
    # The third one's key is dropped: no client may be a proxy.
    authorities = {"ca": authority, "etcd-ca": store_authority, "front-proxy-ca": trustme.CA()}
    for name, each in authorities.items():
        write_private(paths.pki / f"{name}.crt", each.cert_pem.bytes())
    _write_pair(paths.pki, "serving", authority.issue_cert(*_LOOPBACK_NAMES))
    _write_pair(paths.pki, "etcd", store_authority.issue_cert(*_LOOPBACK_NAMES))
    _write_pair(paths.pki, "etcd-client", _client_cert(store_authority, Identity("kube-apiserver")))
    # Any EC key signs service-account tokens; trustme is the maker of keys at hand.
    tokens = _client_cert(authority, Identity("tokens")).private_key_pem
    write_private(paths.pki / "service-account.key", tokens.bytes())
    for name, identity in IDENTITIES.items():
        _write_pair(paths.pki, name, _client_cert(authority, identity))
        target = paths.kubeconfig if name == ADMIN else paths.kubeconfig_of(name)
        # Files are named, not embedded: the official client copies what is embedded to temporary
        # files, which a process that is killed leaves behind. A copy of the kubeconfig names them
        # as well.
        pki = paths.pki.resolve()
        user = {
            "client-certificate": str(pki / f"{name}.crt"),
            "client-key": str(pki / f"{name}.key"),
        }
        write_kubeconfig(target, f"https://127.0.0.1:{api_port}", pki / "ca.crt", user)


def _client_cert(authority: trustme.CA, identity: Identity) -> trustme.LeafCert:
    # Go refuses a certificate whose list of names is marked as critical and empty, so it gets one
    # name. Without a group trustme would write its own name, which would be taken for a group.
    group = identity.group or "localcluster"
    return authority.issue_cert(
        "client.invalid", common_name=identity.user, organization_name=group
    )


def _write_pair(folder: Path, name: str, cert: trustme.LeafCert) -> None:
    write_private(folder / f"{name}.key", cert.private_key_pem.bytes())
    chain = b"".join(blob.bytes() for blob in cert.cert_chain_pems)
    write_private(folder / f"{name}.crt", chain)
