"""A proxy with faults before the API server of a running local cluster, on either back end.

To drop history, the embedded API server is called. Of a real one two remember: etcd, which is
compacted up to its newest revision, and the API server's own watch cache, which is rebuilt with
its process. So that is killed, and clients meet a server that knows nothing older than itself."""

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
from localcluster.faults.proxy import FaultProxy
from localcluster.kubeconfig import read_kubeconfig
from localcluster.specs import Backend
from optimus.kube.client import connect
from optimus.kube.errors import KubeError

_API_SERVER: Final = "kube-apiserver"
_FLAGS: Final = ("--etcd-servers", "--etcd-cafile", "--etcd-certfile", "--etcd-keyfile")
_REQUEST_SECONDS: Final = 10.0
_ALL_KEYS: Final = {"key": "AA==", "range_end": "AA==", "count_only": True}


def proxy_for(cluster: LocalCluster, kubeconfig: Path | None = None) -> FaultProxy:
    """Return a proxy before the cluster's API server, as the user of a kubeconfig."""
    return FaultProxy(read_kubeconfig(kubeconfig or cluster.kubeconfig), _ClusterServer(cluster))


class _ClusterServer:
    """The API server of a local cluster, which its supervisor keeps alive."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    def restart(self) -> None:
        """Kill it."""
        self._cluster.kill(_API_SERVER)

    def compact(self) -> None:
        """Make it drop its history, and wait until it serves. Raises ClusterError."""
        if self._cluster.backend is Backend.EMBEDDED:
            client = connect(self._cluster.kubeconfig, user_agent="localcluster")
            try:
                ApiCalls(client).create(COMPACT, {})
            except KubeError as error:
                raise ClusterError(f"the embedded API server keeps its history: {error}") from None
            return
        flags = store_flags(_command_line(self._cluster))
        revision = _call_etcd(flags, "range", _ALL_KEYS)["header"]["revision"]
        _call_etcd(flags, "compaction", {"revision": revision, "physical": True})
        self._cluster.wait_restarted(_API_SERVER, self._cluster.kill(_API_SERVER))


def _command_line(cluster: LocalCluster) -> bytes:
    running = cluster.components[_API_SERVER].process
    try:
        return Path(f"/proc/{running.pid if running else 0}/cmdline").read_bytes()
    except OSError:
        raise ClusterError(f"{_API_SERVER} does not run now") from None


def store_flags(command_line: bytes) -> tuple[str, ...]:
    """Return an API server's flags for etcd: address, authority, its own certificate and key.

    Raises ClusterError where one of them is missing."""
    given = dict(each.partition("=")[::2] for each in command_line.decode().split("\0"))
    missing = [flag for flag in _FLAGS if flag not in given]
    if missing:
        raise ClusterError(f"the API server was started without {', '.join(missing)}")
    return tuple(given[flag] for flag in _FLAGS)


def _call_etcd(flags: tuple[str, ...], method: str, body: Mapping[str, object]) -> dict[str, Any]:
    url, authority, certificate, key = flags
    tls = ssl.create_default_context(cafile=authority)
    tls.load_cert_chain(certificate, key)
    request = urllib.request.Request(f"{url}/v3/kv/{method}", json.dumps(body).encode())  # noqa: S310 - https
    try:
        with urllib.request.urlopen(  # noqa: S310 - https
            request, timeout=_REQUEST_SECONDS, context=tls
        ) as response:
            found: dict[str, Any] = json.load(response)
            return found
    except (OSError, ValueError) as error:
        raise ClusterError(f"etcd did not {method}: {error}") from None
