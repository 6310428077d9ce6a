"""Makes a control plane forget its history.

The embedded API server is told to. Of a real one two things remember: etcd, which is compacted up
to its newest revision, and the API server's own cache of watches, which begins anew with its
process. So that is killed, and whoever asks meets a server that knows nothing older than itself.
"""

import json
import ssl
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from localcluster.api_calls import ApiCalls
from localcluster.cluster import LocalCluster
from localcluster.embedded.apiserver.routes import COMPACT
from localcluster.errors import ClusterError
from localcluster.specs import Backend
from optimus.kube.client import connect
from optimus.kube.errors import KubeError

API_SERVER: Final = "kube-apiserver"
_FLAGS: Final = ("--etcd-servers", "--etcd-cafile", "--etcd-certfile", "--etcd-keyfile")
_REQUEST_SECONDS: Final = 10.0
_EVERYTHING: Final = {
    "key": "AA==",
    "range_end": "AA==",
    "count_only": True,
}  # from the first key, without an end


def forget_history(cluster: LocalCluster) -> None:
    """Make the cluster's API server forget what was, and wait until it serves. Raises
    ClusterError."""
    if cluster.backend is Backend.EMBEDDED:
        _tell_embedded(cluster)
        return
    _compact(_Store(store_flags(_command_line(cluster))))
    cluster.wait_restarted(API_SERVER, cluster.kill(API_SERVER))


def _tell_embedded(cluster: LocalCluster) -> None:
    try:
        ApiCalls(connect(cluster.kubeconfig, user_agent="localcluster")).create(COMPACT, {})
    except KubeError as error:
        raise ClusterError(f"the embedded API server did not forget its history: {error}") from None


def _command_line(cluster: LocalCluster) -> bytes:
    running = cluster.components[API_SERVER].process
    try:
        return Path(f"/proc/{running.pid if running else 0}/cmdline").read_bytes()
    except OSError:
        raise ClusterError(f"{API_SERVER} does not run now") from None


def store_flags(command_line: bytes) -> tuple[str, ...]:
    """Return what an API server is told of etcd: its address, its authority, the API server's
    certificate and key.

    Raises ClusterError where one of them is not there.
    """
    given = dict(each.partition("=")[::2] for each in command_line.decode().split("\0"))
    missing = [flag for flag in _FLAGS if flag not in given]
    if missing:
        raise ClusterError(f"the API server was started without {', '.join(missing)}")
    return tuple(given[flag] for flag in _FLAGS)


class _Store:
    """Calls on etcd, as the API server makes them."""

    def __init__(self, flags: tuple[str, ...]) -> None:
        self._url, authority, certificate, key = flags
        self._tls = ssl.create_default_context(cafile=authority)
        self._tls.load_cert_chain(certificate, key)

    def ask(self, method: str, body: Mapping[str, object]) -> dict[str, Any]:
        """Call a method of etcd's KV service. Raises ClusterError."""
        request = urllib.request.Request(f"{self._url}/v3/kv/{method}", json.dumps(body).encode())  # noqa: S310 - https
        try:
            with urllib.request.urlopen(  # noqa: S310 - https
                request, timeout=_REQUEST_SECONDS, context=self._tls
            ) as answer:
                told: dict[str, Any] = json.load(answer)
                return told
        except (OSError, ValueError) as error:
            raise ClusterError(f"etcd did not {method}: {error}") from None


def _compact(store: _Store) -> None:
    revision = store.ask("range", _EVERYTHING)["header"]["revision"]
    store.ask("compaction", {"revision": revision, "physical": True})
