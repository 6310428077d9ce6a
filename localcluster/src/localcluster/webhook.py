"""The admission webhook of a training operator from 1.8 on: its certificate, what the API server
must know of it, and the folder that the operator looks into."""

import base64
import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import trustme

from localcluster.identities import OPERATOR_ACCOUNT
from localcluster.kubeconfig import write_private
from localcluster.storage import read_yaml

CONFIGURATION: Final = "validator.training-operator.kubeflow.org"
_NAMESPACE, _SERVICE = OPERATOR_ACCOUNT
_CERTIFICATES: Final = Path("k8s-webhook-server/serving-certs")
_LOOKED_INTO: Final = Path("/tmp") / _CERTIFICATES  # noqa: S108 - a constant of the operator


def is_in(manifests: Path) -> bool:
    """Tell whether these are the manifests of an operator with a webhook."""
    return (manifests / "webhook" / "manifests.yaml").exists()


def write_certificate(folder: Path) -> None:
    """Write certificate and key to where the webhook serves from with `folder` as its TMPDIR."""
    # The operator accepts what its Secret holds if it fits, else it makes its own, too late for
    # these files. One certificate, its own authority, fits both entries; the key has to be RSA.
    names = ("training-operator-ca", f"{_SERVICE}.{_NAMESPACE}.svc")
    pair = trustme.CA().issue_cert(*names, key_type=trustme.KeyType.RSA)
    (folder / _CERTIFICATES).mkdir(parents=True)
    write_private(folder / _CERTIFICATES / "tls.crt", pair.cert_chain_pems[0].bytes())
    write_private(folder / _CERTIFICATES / "tls.key", pair.private_key_pem.bytes())


def objects(
    manifests: Path, folder: Path, port: int, plurals: Iterable[str]
) -> Iterator[dict[str, Any]]:
    """The Secret, the Service and the webhooks of these kinds. The operator adds the authority."""
    metadata = {"name": f"{_SERVICE}-webhook-cert", "namespace": _NAMESPACE}
    files = {end: (folder / _CERTIFICATES / f"tls.{end}").read_bytes() for end in ("crt", "key")}
    data = {f"{of}.{end}": _base64(text) for end, text in files.items() for of in ("ca", "tls")}
    yield {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    # The API server asks for the certificate of the Service, wherever that leads it.
    local = {"type": "ExternalName", "externalName": "localhost"}
    metadata = {"name": _SERVICE, "namespace": _NAMESPACE}
    yield {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": local}
    configuration = _configuration(manifests, plurals)
    for each in configuration["webhooks"]:
        each["clientConfig"]["service"] |= {**metadata, "port": port}
    yield {**configuration, "metadata": {"name": CONFIGURATION}}


def paths(manifests: Path, plurals: Iterable[str]) -> list[str]:
    """Return the paths under which the operator serves the webhooks of these kinds."""
    webhooks = _configuration(manifests, plurals)["webhooks"]
    return [each["clientConfig"]["service"]["path"] for each in webhooks]


@contextmanager
def announced(folder: Path = _LOOKED_INTO) -> Iterator[None]:
    """Let an operator start: it waits for a file under /tmp, which it does not read.

    All clusters of the machine share the file, by locks on /tmp; the last one removes it."""
    handle, file = os.open(folder.parents[1], os.O_RDONLY), folder / "tls.crt"
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        folder.mkdir(parents=True, exist_ok=True)
        file.touch()
        yield
    finally:
        with suppress(OSError):  # another cluster has a lock, or the folder holds files of others
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not file.stat().st_size:
                file.unlink()
            folder.rmdir()
            folder.parent.rmdir()
        os.close(handle)


def _configuration(manifests: Path, plurals: Iterable[str]) -> dict[str, Any]:
    (configuration,) = read_yaml(manifests / "webhook" / "manifests.yaml")
    installed = set(plurals)
    webhooks = [
        each for each in configuration["webhooks"] if installed & set(each["rules"][0]["resources"])
    ]
    return {**configuration, "webhooks": webhooks}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
